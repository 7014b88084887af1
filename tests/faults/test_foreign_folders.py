"""Somebody else's folder: every command that is pointed at it says so, and not even a time in it has changed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from faults.small_study import small_run
from invariscope.cli.main import main
from invariscope.errors import FolderError, ForeignFileError
from invariscope.training import load_run, train
from training.test_train import CONFIG
from training.toy_tasks import CHAIN
from training.toy_tasks import TINY as MODEL


def everything(folder: Path) -> dict[str, tuple[object, ...]]:
    """Names, kinds, sizes, modes, times and contents of all that is there, the folder itself included."""
    found: dict[str, tuple[object, ...]] = {}
    for path in [folder, *sorted(folder.rglob("*"))]:
        state = path.lstat()
        content = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else b""
        found[str(path.relative_to(folder))] = (state.st_mode, state.st_size, state.st_mtime_ns, state.st_ctime_ns, content)
    return found


MANIFESTS = {
    "no manifest": None,
    "a web app's": json.dumps({"name": "app", "icons": []}),
    "another tool's with our version": json.dumps({"schema_version": 1, "runs": ["a"]}),
    "empty": "",
}


@pytest.fixture(params=MANIFESTS)
def foreign(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    folder = tmp_path / "thesis"
    (folder / "runs" / "seed-0000").mkdir(parents=True)
    (folder / "runs" / "seed-0000" / "metrics.jsonl").write_text("mine\n")
    (folder / "claims.json").write_text("{}")
    (folder / ".notes.0123abcd.tmp").write_text("looks like one of invariscope's temporary files")
    (folder / "report.html").write_text("<p>mine</p>")
    (folder / "link").symlink_to("report.html")
    manifest = MANIFESTS[request.param]
    if manifest is not None:
        (folder / "manifest.json").write_text(manifest)
    for path in sorted(folder.rglob("*"), reverse=True):
        os.utime(path, ns=(10**18, 10**18), follow_symlinks=False)
    return folder


@pytest.mark.usefixtures("small")
def test_commands_refuse_it_in_one_line_and_leave_it_alone(foreign: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = everything(foreign)
    for argv in (small_run(foreign), ["report", str(foreign)]):
        assert main(argv) == 2
        said = capsys.readouterr()
        assert said.out == ""
        assert len(said.err.splitlines()) == 1, said.err
        assert said.err.startswith("error: ")
        assert str(foreign) in said.err
        assert "expected" in said.err
    assert everything(foreign) == before


def test_the_library_refuses_it_and_leaves_it_alone(foreign: Path) -> None:
    seed = foreign / "seed-0003"
    foreign.rename(foreign.with_name("was"))
    foreign.mkdir()
    foreign.with_name("was").rename(seed)
    before = everything(seed)
    with pytest.raises(FolderError) as caught:
        train(CHAIN, MODEL, CONFIG, seeds=[3], folder=foreign, engine="inline", progress=False)
    assert str(seed) in caught.value.given
    assert "another folder with --out" in caught.value.do
    with pytest.raises(ForeignFileError, match=r"manifest\.json"):
        load_run(seed)
    assert everything(seed) == before
