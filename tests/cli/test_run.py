"""``invariscope run``: options, exit status, bad input, and what is left in the folder; with an experiment of a moment."""

from __future__ import annotations

import errno
import os
import re
import typing
from collections.abc import Callable
from pathlib import Path

import pytest

from invariscope.cli.main import main
from invariscope.cli.run import RunOptions
from invariscope.experiments import EXPERIMENTS
from invariscope.parallel import ENGINES
from invariscope.storage import Manifest, folder_lock, read_claims, read_json, write_json

# Scripts and notes out there use these options. Add to them; whoever takes one away or renames one does it here too.
OPTIONS_OF_RUN = "--help --preset --config --out --seed --strict --engine --workers --debug"
TRAIN = """steps num-sequences batch-size learning-rate weight-decay betas warmup-steps schedule final-share eval-every
    eval-sequences eval-pools checkpoint-every batches-at-once forward"""
ARMS = ("real", "complex-pair", "twelve", "clustered", "overlapping", "rank-two")
OPTIONS_OF_MARKOV_CORES = " ".join(
    [
        *(f"--{arm}.{field}" for arm in ARMS for field in ("chain", "seeds")),
        *(f"--{part}train.{field}" for part in ("", "hidden.", "paper.") for field in TRAIN.split()),
        "--sequence-length --width --num-layers --num-heads --mlp-width --sizes",
        "--hidden.chains --hidden.seeds --hidden.num-layers --hidden.width --hidden.num-heads",
        "--paper.seeds --paper.sequence-length --paper.dropout",
        "--extract-sequences --evaluate-sequences --operator-sequences --control-sequences --num-random",
        "--follow-every --follow-sequences --das-steps --probe-tokens",
    ]
)


def options_in(text: str) -> list[str]:
    return sorted(re.findall(r"^\W{0,2}(?:-h, )?(--[a-z][a-z0-9.-]+)", text, re.MULTILINE))


def one_line(capsys: pytest.CaptureFixture[str]) -> str:
    """What stands on standard error, which has to be one line, and nothing on standard output."""
    said = capsys.readouterr()
    assert said.out == ""
    assert len(said.err.splitlines()) == 1, said.err
    return said.err.strip()


def test_the_options_of_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--help"]) == 0
    assert options_in(capsys.readouterr().out) == sorted(OPTIONS_OF_RUN.split())


def test_the_options_of_markov_cores(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "markov-cores", "--help"]) == 0
    assert options_in(capsys.readouterr().out) == sorted(f"{OPTIONS_OF_RUN} {OPTIONS_OF_MARKOV_CORES}".split())


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_no_field_of_an_experiment_has_the_name_of_an_option_of_run(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", name, "--help"]) == 0
    found = options_in(capsys.readouterr().out)
    assert len(found) == len(set(found))


def test_the_engines_are_those_of_the_library() -> None:
    assert typing.get_args(typing.get_type_hints(RunOptions)["engine"]) == ENGINES


def test_a_run_leaves_manifest_claims_and_report_and_says_where(fake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "fake"]) == 0
    out = fake / "out" / "fake"
    said = capsys.readouterr().out.splitlines()
    assert any(line.startswith("✓ reproduced | fake/rank | 3") for line in said)
    assert said[-1] == "Report: out/fake/report.html"
    manifest = Manifest.load(out)
    assert (manifest.experiment, manifest.preset, manifest.status) == ("fake", "quick", "finished")
    assert manifest.command == "invariscope run fake"
    # The page is written after the folder has been closed.
    assert "had not finished" not in (out / "report.html").read_text(encoding="utf-8")


def test_the_manifest_holds_the_resolved_configuration_and_the_words_given(fake: Path) -> None:
    (fake / "my file.toml").write_text("measured = 3\n[train]\nsteps = 7\nrate = 0.1\n")
    argv = ["run", "fake", "--preset", "wrong", "--config", "my file.toml", "--seed", "5", "--train.rate", "0.2", "--out", "a b"]
    assert main(argv) == 0
    manifest = Manifest.load(fake / "a b")
    assert manifest.config == {"seeds": [5, 6], "measured": 3.0, "fail": "", "train": {"steps": 7, "rate": 0.2}}
    assert manifest.seeds == (5, 6)
    expected = "invariscope run fake --preset wrong --config 'my file.toml' --seed 5 --train.rate 0.2 --out 'a b'"
    assert manifest.command == expected


def test_flags_come_after_the_seed(fake: Path) -> None:
    assert main(["run", "fake", "--seeds", "8", "9", "11", "--seed", "5"]) == 0
    assert Manifest.load(fake / "out" / "fake").seeds == (8, 9, 11)


@pytest.mark.parametrize(
    ("args", "engine", "workers"),
    [
        ([], "processes", None),
        (["--seeds", "3"], "inline", None),
        (["--engine", "inline", "--workers", "3"], "inline", 3),
        (["--engine", "processes", "--seeds", "3"], "processes", None),
    ],
)
def test_the_engine_is_resolved_once_for_run_and_manifest(args: list[str], engine: str, workers: int | None, fake: Path) -> None:
    assert main(["run", "fake", *args]) == 0
    assert read_json(fake / "out" / "fake" / "called.json") == {"engine": engine, "num_workers": workers, "progress": True}
    assert Manifest.load(fake / "out" / "fake").engine == engine


def test_verdicts_do_not_change_the_status_and_strict_does(fake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "fake", "--preset", "wrong"]) == 0
    capsys.readouterr()
    assert main(["run", "fake", "--preset", "wrong", "--strict"]) == 3
    # The claim that is true by construction misses its mark too, and does not count.
    assert capsys.readouterr().err.splitlines()[-1] == ("strict: 1 of 1 claims are not reproduced: fake/rank (not reproduced)")
    assert main(["run", "fake", "--out", "good", "--strict"]) == 0


def test_a_finished_run_says_so_and_leaves_the_same_bytes(fake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "fake"]) == 0
    assert capsys.readouterr().err == ""
    claims = fake / "out" / "fake" / "claims.json"
    before = claims.read_bytes()
    assert main(["run", "fake"]) == 0
    assert capsys.readouterr().err == "fake in out/fake is finished: what it holds is kept\n"
    assert claims.read_bytes() == before
    assert Manifest.load(fake / "out" / "fake").status == "finished"


@pytest.mark.parametrize(
    ("fail", "status", "line", "left"),
    [
        ("input", 2, "error: rank 9; expected at most 3; ask for less", "failed"),
        ("job", 1, "error: job 0 of 2, cli.fake_experiment:broken_job with", "failed"),
        ("crash", 1, r"error: crashed with KeyError: 'who\nknows'; --debug shows the traceback", "failed"),
        ("interrupt", 130, "interrupted; what was finished is kept, and the same command goes on from there", "running"),
    ],
)
def test_whatever_goes_wrong_is_one_line_and_a_status(
    fail: str, status: int, line: str, left: str, fake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "fake", "--fail", fail]) == status
    assert one_line(capsys).startswith(line)
    assert Manifest.load(fake / "out" / "fake").status == left
    assert not (fake / "out" / "fake" / "report.html").exists()


def test_a_failed_job_says_what_happened_and_where_to_look(fake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "fake", "--fail", "job"]) == 1
    said = one_line(capsys)
    assert "ValueError: seed 0 is cursed" in said
    assert "--debug" in said


def test_debug_shows_the_workers_traceback(fake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "fake", "--fail", "job", "--debug"]) == 1
    said = capsys.readouterr().err
    from_worker = said.partition("In the worker:\n")[2]
    assert "in broken_job" in from_worker
    assert "ValueError: seed 0 is cursed" in from_worker
    assert said.splitlines()[-1].startswith("error: job 0 of 2")


def test_debug_shows_the_traceback_of_a_crash(fake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "fake", "--fail", "crash", "--debug"]) == 1
    said = capsys.readouterr().err
    assert "Traceback (most recent call last)" in said
    assert said.splitlines()[-1] == r"error: crashed with KeyError: 'who\nknows'"


def test_an_interrupted_run_says_that_it_goes_on(fake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = fake / "out" / "fake"
    assert main(["run", "fake"]) == 0
    write_json(folder / "manifest.json", read_json(folder / "manifest.json") | {"status": "running"})
    capsys.readouterr()
    assert main(["run", "fake"]) == 0
    assert capsys.readouterr().err == "fake in out/fake was begun: it goes on from what it holds\n"


@pytest.mark.parametrize(
    ("args", "line"),
    [
        (["fkae"], "error: unknown experiment 'fkae'; expected one of its known names; nearest: fake, agreement, markov-cores"),
        (
            ["fake", "--preset", "quik"],
            "error: unknown preset of fake 'quik'; expected one of its known names; nearest: quick, wrong",
        ),
        (["fake", "--workers", "0"], "error: --workers 0; expected at least 1; leave it out for one worker a core"),
        (["fake", "--seed", "-1"], "error: --seed -1; expected a seed of at least 0; choose another seed"),
        (["fake", "--train.steps", "0"], "error: steps = 0; expected at least 1; correct steps"),
        (["fake", "--train.rate", "nan"], "error: "),
        (["fake", "--train.rate", "inf"], "error: "),
        (["fake", "--config", "none.toml"], "error: --config none.toml, which cannot be read (No such file or directory)"),
        (
            ["--preset", "quick", "fake"],
            "error: invariscope run --preset ... without an experiment; expected invariscope run EXPERIMENT [options]; "
            "name one of markov-cores, agreement, assign-add, ",
        ),
        ([], "error: invariscope run without an experiment; expected invariscope run EXPERIMENT [options]"),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_written(
    args: list[str], line: str, fake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", *args]) == 2
    assert one_line(capsys).startswith(line)
    assert list(fake.iterdir()) == []


@pytest.mark.parametrize("args", [["--sedd", "3"], ["--engine", "cluster"], ["--train.steps", "many"], ["--seed"], ["more"]])
def test_what_tyro_refuses_is_bad_input_too_and_nothing_is_written(
    args: list[str], fake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "fake", *args]) == 2
    assert args[-1] in capsys.readouterr().err
    assert list(fake.iterdir()) == []


def test_a_misspelt_option_is_answered_with_the_right_one(fake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "fake", "--train.step", "3"]) == 2
    assert "--train.steps" in capsys.readouterr().err


def foreign(out: Path) -> None:
    out.mkdir()
    (out / "thesis.tex").write_text("mine")


def another_run(out: Path) -> None:
    main(["run", "fake", "--out", str(out), "--train.steps", "9"])


def damaged(out: Path) -> None:
    another_run(out)
    (out / "manifest.json").write_text('{"schema_version": 1')


def a_file(out: Path) -> None:
    out.write_text("mine")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (foreign, "such as 'thesis.tex'"),
        (another_run, "train.steps is 9 there and 4 here"),
        (damaged, "whose manifest.json is none of ours"),
        (a_file, "Not a directory"),
    ],
)
def test_a_folder_that_is_not_this_runs_is_refused_and_not_touched(
    make: Callable[[Path], None], said: str, fake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = fake / "there"
    make(out)
    before = {path: path.read_bytes() for path in [out, *out.rglob("*")] if path.is_file()}
    capsys.readouterr()
    assert main(["run", "fake", "--out", str(out)]) == 2
    line = one_line(capsys)
    assert str(out) in line
    assert said in line
    assert "--out" in line
    assert {path: path.read_bytes() for path in [out, *out.rglob("*")] if path.is_file()} == before


def test_a_folder_in_use_is_refused_with_the_process_that_uses_it(fake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = fake / "there"
    out.mkdir()
    with folder_lock(out):
        assert main(["run", "fake", "--out", "there"]) == 2
    assert f"process {os.getpid()} is writing" in one_line(capsys)


def test_a_disk_that_cannot_be_written_is_bad_input(
    fake: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: object, mode: int = 0o777) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    monkeypatch.setattr(os, "mkdir", refuse)
    assert main(["run", "fake", "--out", "there"]) == 2
    line = one_line(capsys)
    assert line.startswith("error: there, which cannot be made (Read-only file system)")
    assert "choose another folder with --out" in line


def test_claims_are_labelled_with_the_preset(fake: Path) -> None:
    assert main(["run", "fake", "--preset", "wrong"]) == 0
    assert read_claims(fake / "out" / "fake" / "claims.json").preset == "wrong"
