"""The front of the command line: what it offers, what it refuses, and with which exit status."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest

from cli.conftest import TESTS
from invariscope.cli.main import COMMANDS, main

Start = Callable[..., "subprocess.Popen[str]"]


def test_help_names_every_command_and_every_exit_status(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    said = capsys.readouterr().out
    assert all(f"  {name}" in said for name in COMMANDS)
    assert "0 finished, 1 crashed or not verified, 2 bad input, 3 not reproduced (--strict), 130 interrupted" in said


def test_every_command_has_help_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    for name in COMMANDS:
        assert main([name, "--help"]) == 0
        assert f"usage: invariscope {name}" in capsys.readouterr().out


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"invariscope {version('invariscope')}\n"


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (
            [],
            "error: no command; expected one of list, run, report, follow, compare, circuits, core, verify, tokens; "
            "see invariscope --help",
        ),
        (
            ["--debug"],
            "error: no command; expected one of list, run, report, follow, compare, circuits, core, verify, tokens; "
            "see invariscope --help",
        ),
        (["rnu"], "error: unknown command 'rnu'; expected one of its known names; nearest: run, circuits, --version"),
        (["--halp"], "error: unknown option '--halp'; expected one of its known names; nearest: --help, --version, list"),
    ],
)
def test_what_is_no_command_is_bad_input(argv: list[str], line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.splitlines()[-1] == line
    assert len(said.err.splitlines()) == 1 or "--debug" in argv


@pytest.mark.parametrize(
    ("argv", "status"),
    [
        (["--help"], 0),
        (["--version"], 0),
        (["list"], 0),
        (["run", "--help"], 0),
        (["report", "--help"], 0),
        (["follow", "--help"], 0),
        (["compare", "--help"], 0),
        (["circuits", "--help"], 0),
        (["core", "--help"], 0),
        (["verify", "--help"], 0),
        (["tokens", "--help"], 0),
        (["list", "--models"], 0),
        (["run", "markov"], 2),
        (["run", "markov-cores", "--preset", "quik"], 2),
        (["run", "markov-cores", "--config", "nowhere.toml"], 2),
        (["report", "nowhere"], 2),
        (["follow", "nowhere"], 2),
        (["compare", "nowhere", "elsewhere"], 2),
    ],
)
def test_whatever_needs_no_torch_does_not_load_it(argv: list[str], status: int) -> None:
    program = f"""
import sys
from invariscope.cli.main import main
status = main({argv!r})
print("STATUS", status, sorted({{"torch", "numpy", "scipy", "plotly", "joblib"}} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1] == f"STATUS {status} []"


def test_the_module_the_script_and_the_function_are_one(start: Start) -> None:
    outputs = {start("list").communicate()}
    script = Path(sys.executable).with_name("invariscope")
    found = subprocess.run([script, "list"], capture_output=True, text=True, check=False)
    outputs.add((found.stdout, found.stderr))
    assert len(outputs) == 1


def test_bad_input_is_one_line_on_standard_error_without_a_traceback(start: Start) -> None:
    process = start("run", "markov")
    out, err = process.communicate()
    assert (process.returncode, out) == (2, "")
    assert (
        err == "error: unknown experiment 'markov'; expected one of its known names; "
        "nearest: markov-cores, imir-competition, imir-confinement\n"
    )


def test_debug_shows_the_traceback_of_bad_input(start: Start) -> None:
    process = start("run", "markov", "--debug")
    _, err = process.communicate()
    assert process.returncode == 2
    assert err.startswith("Traceback (most recent call last):\n")
    assert err.splitlines()[-1].startswith("error: unknown experiment 'markov'")


def test_ctrl_c_is_130_and_says_that_the_same_command_goes_on(start: Start) -> None:
    process = start("run", "fake", "--fail", "hang", module="cli.fake_experiment")
    assert process.stdout is not None
    assert process.stdout.readline() == "hanging\n"
    os.kill(process.pid, signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == 130
    assert err == "interrupted; what was finished is kept, and the same command goes on from there\n"


@pytest.mark.parametrize("argv", [["list"], ["run", "--help"]])
def test_a_reader_that_has_left_is_no_crash(argv: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "invariscope", *argv], stdout=writer, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, "")


def test_a_terminal_that_lacks_a_letter_is_no_crash() -> None:
    environment = os.environ | {"PYTHONIOENCODING": "ascii", "PYTHONPATH": str(TESTS)}
    words = [sys.executable, "-m", "cli.fake_experiment", "run", "fake", "--help"]
    done = subprocess.run(words, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0
    assert "--train.steps" in done.stdout
    assert done.stderr == ""
