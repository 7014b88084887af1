"""Run folders: resumed by the same command whenever it was killed, closed to everything else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from invariscope.errors import FolderError, ForeignFileError, InvariscopeError
from invariscope.storage.manifest import Manifest
from invariscope.storage.run_folder import RunFolder

CONFIG = {"model": {"width": 64}, "steps": 400, "chains": ["four_real"]}
NAMES = {"experiment": "markov-cores", "preset": "quick"}


def tree(path: Path) -> dict[str, bytes | None]:
    return {str(p.relative_to(path)): p.read_bytes() if p.is_file() else None for p in sorted(path.rglob("*"))}


def test_the_paths_are_the_designs(tmp_path: Path):
    with RunFolder.open(tmp_path / "a" / "out", config=CONFIG, **NAMES) as folder:
        out = tmp_path / "a" / "out"
        assert folder.manifest_path == out / "manifest.json"
        assert (folder.runs, folder.cores, folder.figures) == (out / "runs", out / "cores", out / "figures")
        assert (folder.claims_path, folder.report_path) == (out / "claims.json", out / "report.html")
        assert RunFolder.read(out).manifest.status == "running"  # readable while it is written
    assert sorted(os.listdir(out)) == [".lock", "manifest.json"]


def test_the_status_says_how_it_ended(tmp_path: Path):
    with pytest.raises(ZeroDivisionError), RunFolder.open(tmp_path, config=CONFIG):
        raise ZeroDivisionError
    failed = RunFolder.read(tmp_path).manifest
    assert (failed.status, failed.seconds is None) == ("failed", False)
    with pytest.raises(KeyboardInterrupt), RunFolder.open(tmp_path, config=CONFIG):
        raise KeyboardInterrupt
    assert RunFolder.read(tmp_path).manifest.status == "running"
    with RunFolder.open(tmp_path, config=CONFIG):
        pass
    assert RunFolder.read(tmp_path).manifest.status == "finished"


def test_results_and_the_order_of_keys_do_not_stand_in_the_way_of_resuming(tmp_path: Path):
    with RunFolder.open(tmp_path, config=CONFIG, engine="inline", **NAMES) as folder:
        folder.runs.mkdir()
        (folder.runs / "result").write_text("kept")
        (folder.runs / ".metrics.json.0123abcd.tmp").write_text("half")
        (folder.runs / "mine.tmp").write_text("kept")
    with RunFolder.open(tmp_path, config=dict(reversed(CONFIG.items())), engine="processes", **NAMES) as folder:
        assert sorted(os.listdir(folder.runs)) == ["mine.tmp", "result"]
        assert folder.manifest.engine == "processes"


def test_another_configuration_is_refused_with_both_named(tmp_path: Path):
    with RunFolder.open(tmp_path, config=CONFIG, **NAMES):
        pass
    before = tree(tmp_path)
    other = {"model": {"width": 128}, "steps": 400, "chains": ["four_real", "spread_12"], "new": None}
    with pytest.raises(FolderError) as caught, RunFolder.open(tmp_path, config=other, **NAMES):
        pass
    given = caught.value.given
    assert str(tmp_path) in given
    assert given.count("markov-cores/quick (config ") == 2
    assert "model.width is 64 there and 128 here" in given
    assert "chains is ['four_real'] there and ['four_real', 'spread_12'] here" in given
    assert "new is absent there and None here" in given
    assert "steps" not in given
    assert "another --out" in caught.value.do
    assert tree(tmp_path) == before


@pytest.mark.parametrize("names", [{"experiment": "other"}, {"preset": "paper"}, {"kind": "run"}])
def test_another_experiment_preset_or_kind_is_refused_even_with_an_equal_configuration(names: dict[str, str], tmp_path: Path):
    with RunFolder.open(tmp_path, config=CONFIG, **NAMES):
        pass
    with (
        pytest.raises(FolderError, match=r"markov-cores/quick \(config .*their configurations are equal"),
        RunFolder.open(tmp_path, config=CONFIG, **(NAMES | names)),
    ):
        pass


def test_long_lists_of_differences_are_shortened(tmp_path: Path):
    with RunFolder.open(tmp_path, config={f"k{i}": 0 for i in range(9)}):
        pass
    with (
        pytest.raises(FolderError, match="k2 is 0 there and 1 here; and 6 more"),
        RunFolder.open(tmp_path, config={f"k{i}": 1 for i in range(9)}),
    ):
        pass


@pytest.mark.parametrize(
    ("name", "content"), [("thesis.tex", "text"), ("manifest.json", '{"name": "a web app"}'), ("manifest.json", "{")]
)
def test_a_foreign_folder_is_refused_and_not_touched(name: str, content: str, tmp_path: Path):
    (tmp_path / name).write_text(content)
    before = tree(tmp_path)
    with pytest.raises(FolderError) as caught, RunFolder.open(tmp_path, config=CONFIG, **NAMES):
        pass
    assert str(tmp_path) in caught.value.given
    assert name in caught.value.given
    assert "another folder with --out" in caught.value.do
    assert tree(tmp_path) == before


def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path):
    (tmp_path / "out").write_text("a file")
    for path in (tmp_path / "out", tmp_path / "out" / "deeper"):
        with pytest.raises(FolderError, match=r"Not a directory.*--out"), RunFolder.open(path, config=CONFIG):
            pass


def test_a_folder_in_use_is_refused(tmp_path: Path):
    with RunFolder.open(tmp_path, config=CONFIG):
        with pytest.raises(FolderError, match=f"process {os.getpid()} is writing to"), RunFolder.open(tmp_path, config=CONFIG):
            pass
        assert RunFolder.read(tmp_path).manifest.status == "running"


def test_reading_writes_nothing_and_refuses_what_is_not_ours(tmp_path: Path):
    for path in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(ForeignFileError, match=r"manifest\.json, which cannot be read"):
            RunFolder.read(path)
    assert os.listdir(tmp_path) == []
    assert issubclass(ForeignFileError, InvariscopeError)


# Kills itself at the n-th call that touches the disk, for n = 0, 1, ... until a run gets through; each time the same command has
# to go on from what is left. In a process of its own, because it forks.
KILL_EVERYWHERE = """
import builtins, fcntl, json, os, pathlib, signal, sys
from invariscope.storage.run_folder import RunFolder
from invariscope.storage.atomic import write_json

config, names = {"steps": 400}, {"experiment": "demo", "preset": "quick"}
TOUCHES = [(os, "open"), (os, "fsync"), (os, "replace"), (os, "mkdir"), (os, "ftruncate"), (os, "pwrite"), (os, "close"),
           (fcntl, "flock"), (builtins, "open")]

def command(path):
    with RunFolder.open(path, config=config, **names) as folder:
        write_json(folder.claims_path, {"claims": [1, 2]})
        write_json(folder.cores / "core.json", {"rank": 3})

def die_at(n):
    count = 0
    def wrap(function):
        def touch(*args, **kwargs):
            nonlocal count
            if count == n:
                os.kill(os.getpid(), signal.SIGKILL)
            count += 1
            return function(*args, **kwargs)
        return touch
    for owner, name in TOUCHES:
        setattr(owner, name, wrap(getattr(owner, name)))

root, n, leftovers = pathlib.Path(sys.argv[1]), 0, set()
while True:
    path = root / str(n) / "out"
    child = os.fork()
    if child == 0:
        die_at(n)
        command(path)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status):
        assert os.WEXITSTATUS(status) == 0, status
        break
    leftovers.add(tuple(sorted(os.listdir(path))) if path.exists() else None)
    command(path)
    found = sorted(str(p.relative_to(path)) for p in path.rglob("*"))
    assert found == [".lock", "claims.json", "cores", "cores/core.json", "manifest.json"], found
    assert RunFolder.read(path).manifest.status == "finished"
    n += 1
print(json.dumps({"kills": n, "leftovers": [list(names or ["nothing"]) for names in leftovers]}))
"""


def test_a_kill_at_any_moment_leaves_a_folder_that_the_same_command_resumes(tmp_path: Path):
    script = [sys.executable, "-c", KILL_EVERYWHERE, str(tmp_path)]
    done = subprocess.run(script, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["kills"] > 20
    # The awkward moments really happened: before the folder, between it and the lock, between the lock and the manifest.
    assert ["nothing"] in seen["leftovers"]
    assert [".lock"] in seen["leftovers"]
    assert any(len(names) == 2 and names[0].startswith((".lock", ".manifest")) for names in seen["leftovers"])


def test_an_empty_folder_and_one_with_only_leftovers_are_new(tmp_path: Path):
    (tmp_path / ".lock").write_text("1")
    (tmp_path / ".manifest.json.0123abcd.tmp").write_text("{")
    with RunFolder.open(tmp_path, config=CONFIG):
        assert sorted(os.listdir(tmp_path)) == [".lock", "manifest.json"]
    assert Manifest.load(tmp_path).status == "finished"
