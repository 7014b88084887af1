"""Where numbers were made."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
import torch

from invariscope.storage import environment
from invariscope.storage.environment import environment_facts


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "tracked.py").write_text("x = 1\n")
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    for arguments in (["init", "-q"], ["add", "."], [*identity, "commit", "-q", "-m", "first"]):
        subprocess.run(["git", "-C", str(tmp_path), *arguments], check=True, capture_output=True)
    return tmp_path


def test_the_facts_are_those_of_this_process_and_json():
    facts = environment_facts()
    assert facts["versions"]["torch"] == metadata.version("torch")
    assert facts["versions"]["invariscope"] == metadata.version("invariscope")
    assert facts["versions"]["python"].split(".")[:2] == [str(part) for part in sys.version_info[:2]]
    assert facts["threads"]["torch"] == torch.get_num_threads()
    assert 1 <= facts["num_usable_cores"] <= facts["num_cores"]
    assert json.loads(json.dumps(facts, allow_nan=False)) == facts


def test_git_state_follows_the_checkout(checkout: Path, monkeypatch):
    file = checkout / "package" / "tracked.py"
    clean = environment._git_state(file)
    head = subprocess.run(["git", "-C", str(checkout), "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout
    assert clean == {"commit": head.strip(), "dirty": False}
    # Inside a hook git points every git at the hook's repository.
    monkeypatch.setenv("GIT_DIR", str(checkout / "nowhere"))
    assert environment._git_state(file) == clean
    file.write_text("x = 2\n")
    assert environment._git_state(file) == {"commit": head.strip(), "dirty": True}


def test_a_package_installed_inside_somebody_elses_repository_has_no_git_state(checkout: Path):
    installed = checkout / ".venv" / "module.py"
    installed.parent.mkdir()
    installed.write_text("")
    assert environment._git_state(installed) is None


def test_without_git_or_cpuinfo_it_still_answers(checkout: Path, tmp_path: Path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    assert environment._git_state(checkout / "package" / "tracked.py") is None
    assert environment._cpu_model(tmp_path / "nowhere")


def test_the_cpu_model_is_the_name_in_cpuinfo(tmp_path: Path):
    (tmp_path / "cpuinfo").write_text("processor\t: 0\nmodel name\t: Some CPU @ 2.0GHz\nmodel name\t: another\n")
    assert environment._cpu_model(tmp_path / "cpuinfo") == "Some CPU @ 2.0GHz"


def test_storage_does_not_load_torch():
    script = (
        "import sys, invariscope.storage, invariscope.parallel as p;"
        "from invariscope.storage import environment_facts;"
        "assert environment_facts()['threads']['torch'] is None;"
        "assert 'torch' not in sys.modules and 'joblib' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
