"""Which task a command means, by name, by file, or by a run's manifest."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from invariscope.cli.tasks import describe_run_task, read_task, run_manifest
from invariscope.errors import ConfigError, ForeignFileError, UnknownNameError
from invariscope.storage.run_folder import RunFolder
from invariscope.tasks import MarkovChain, describe_task


@pytest.mark.parametrize(("context", "length"), [(4, 4), (16, 16), (64, 16)])
def test_a_named_chain_is_as_long_as_the_model_reads(context: int, length: int) -> None:
    assert read_task("spread_12", context_length=context).sequence_length == length


def test_a_described_task_is_as_long_as_described(tmp_path: Path) -> None:
    path = tmp_path / "task.json"
    path.write_text(json.dumps(describe_task(MarkovChain.named("four_real", 5))))
    found = read_task(str(path), context_length=64)
    assert (found.name, found.sequence_length) == ("four_real", 5)


def test_an_unknown_chain_is_answered_with_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match=r"unknown chain 'spred_12'.*nearest: spread_12"):
        read_task("spred_12", context_length=16)


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        ("[1]", ForeignFileError, r'describes no task; expected .*"factory".*; write what describe_task\(task\) gives'),
        ("not json", ForeignFileError, "no whole JSON file"),
        ('{"factory": "nowhere:Task", "arguments": {}}', ConfigError, "nowhere:Task.*cannot be imported"),
        ('{"name": "four"}', ConfigError, "a task's description"),
    ],
)
def test_a_file_that_describes_no_task_is_refused(text: str, kind: type[Exception], said: str, tmp_path: Path) -> None:
    path = tmp_path / "task.json"
    path.write_text(text)
    with pytest.raises(kind, match=said):
        read_task(str(path), context_length=16)


def test_a_run_says_its_task(tmp_path: Path) -> None:
    description = describe_task(MarkovChain.named("four_real", 5))
    with RunFolder.open(tmp_path / "run", config={"task": description}, kind="run"):
        pass
    assert describe_run_task(tmp_path / "run") == description


def test_a_run_whose_task_has_no_description_is_refused(tmp_path: Path) -> None:
    with RunFolder.open(tmp_path / "run", config={"task": {"name": "own", "class": "x:Y", "first_rows": "0"}}, kind="run"):
        pass
    with pytest.raises(ConfigError, match=r"does not describe its task; expected .*; name it with --task NAME"):
        describe_run_task(tmp_path / "run")


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    with RunFolder.open(tmp_path / "study", config={}):
        pass
    with pytest.raises(ConfigError, match="whose manifest is of kind 'experiment'; expected the folder of one trained model"):
        run_manifest(tmp_path / "study")
    with pytest.raises(ForeignFileError):
        run_manifest(tmp_path / "nowhere")
