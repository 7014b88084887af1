"""Truncated and bit-flipped files of every kind: refused by name or made anew, never a wrong number."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from cli.test_run_killed import numbers
from faults.damage import Kind, digits_changed, flips, make_kinds, outcome, reseal, truncations
from faults.small_study import small_run
from invariscope.cli.main import main
from invariscope.errors import FolderError, ForeignFileError, InvariscopeError
from invariscope.training import load_run, train
from training.test_train import CONFIG
from training.toy_tasks import CHAIN, TINY, run_bytes

KINDS = ("checkpoint", "state", "core", "moments", "claims", "manifest", "figure", "metrics")
DOCUMENTS = ("claims", "manifest", "figure")


@pytest.fixture(scope="module")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Kind]:
    return make_kinds(tmp_path_factory.mktemp("kinds"))


def assert_named_and_refused(error: InvariscopeError | None, path: Path) -> None:
    assert isinstance(error, ForeignFileError), error
    assert str(path) in error.given
    assert error.expected
    assert error.do


@pytest.mark.parametrize("name", KINDS)
def test_truncated_files_are_named_and_refused(name: str, kinds: dict[str, Kind]) -> None:
    kind, raw = kinds[name], kinds[name].path.read_bytes()
    assert kind.read(kind.path) is not None
    try:
        for damaged in truncations(raw):
            kind.path.write_bytes(damaged)
            found, error = outcome(kind)
            # The last byte of a JSON document is its newline, without which nothing is lost.
            if damaged == raw[:-1] and name in DOCUMENTS:
                kind.path.write_bytes(raw)
                assert found == kind.read(kind.path)
            else:
                assert_named_and_refused(error, kind.path)
    finally:
        kind.path.write_bytes(raw)


@pytest.mark.parametrize("name", KINDS)
def test_flipped_bits_are_named_and_refused_or_change_no_value(name: str, kinds: dict[str, Kind]) -> None:
    kind, raw = kinds[name], kinds[name].path.read_bytes()
    expected, refused, total = kind.read(kind.path), 0, 0
    try:
        for region, damaged in flips(raw):
            kind.path.write_bytes(damaged)
            found, error = outcome(kind)
            total += 1
            if error is None:
                # A bit of the space between two values, or of the checksum's own name.
                assert name in DOCUMENTS, region
                assert found == expected, region
                continue
            refused += 1
            assert_named_and_refused(error, kind.path)
    finally:
        kind.path.write_bytes(raw)
    assert refused > 0.9 * total


@pytest.mark.parametrize("name", [*DOCUMENTS, "metrics"])
def test_a_digit_that_became_another_is_never_read(name: str, kinds: dict[str, Kind]) -> None:
    kind, raw = kinds[name], kinds[name].path.read_bytes()
    num = 0
    try:
        for damaged in digits_changed(raw):
            kind.path.write_bytes(damaged)
            assert_named_and_refused(outcome(kind)[1], kind.path)
            num += 1
    finally:
        kind.path.write_bytes(raw)
    assert num > 10


@pytest.mark.parametrize("name", DOCUMENTS)
def test_documents_of_before_there_were_checksums_are_still_read(name: str, kinds: dict[str, Kind]) -> None:
    kind, raw = kinds[name], kinds[name].path.read_bytes()
    expected = kind.read(kind.path)
    try:
        kind.path.write_bytes(reseal(raw))
        assert kind.read(kind.path) == expected
    finally:
        kind.path.write_bytes(raw)


def go(folder: Path) -> None:
    train(CHAIN, TINY, CONFIG, seeds=[3], folder=folder, engine="inline", progress=False)


def damage(path: Path, how: str) -> None:
    raw = bytearray(path.read_bytes())
    if how == "half":
        raw = raw[: len(raw) // 2]
    elif how == "empty":
        raw = raw[:0]
    elif how == "a whole line":
        raw = raw[: raw.rstrip(b"\n").rindex(b"\n") + 1]
    else:
        raw[raw.index(b"0.") + 2] ^= 1
    path.write_bytes(raw)


@pytest.mark.parametrize(
    ("file", "how", "kind"),
    [
        ("state.safetensors", "half", ForeignFileError),
        ("state.safetensors", "empty", ForeignFileError),
        ("metrics.jsonl", "a bit", ForeignFileError),
        ("metrics.jsonl", "half", ForeignFileError),
        ("metrics.jsonl", "empty", ForeignFileError),
        ("metrics.jsonl", "a whole line", ForeignFileError),
        ("manifest.json", "half", FolderError),
        ("manifest.json", "a bit", FolderError),
    ],
)
def test_a_training_does_not_go_on_from_a_damaged_file(file: str, how: str, kind: type[Exception], tmp_path: Path) -> None:
    go(tmp_path)
    path = tmp_path / "seed-0003" / file
    damage(path, how)
    before = run_bytes(path.parent)
    caught: Any
    with pytest.raises(kind) as caught:
        go(tmp_path)
    assert str(path) in caught.value.given
    assert caught.value.do
    assert run_bytes(path.parent) == before


def test_a_log_that_is_longer_than_its_last_checkpoint_is_not_a_trained_models(tmp_path: Path) -> None:
    go(tmp_path)
    with (tmp_path / "seed-0003" / "metrics.jsonl").open("a") as log:
        log.write('{"step": 99, "train_loss": 0.0}\n')
    with pytest.raises(ForeignFileError, match=r"metrics\.jsonl, which is damaged: its checksum is not that of the checkpoint"):
        load_run(tmp_path / "seed-0003")
    go(tmp_path)  # cut to the checkpoint's step, as after a kill
    assert load_run(tmp_path / "seed-0003").metrics[-1]["step"] == CONFIG.steps


@pytest.mark.usefixtures("small")
def test_what_a_run_computes_anew_is_mended_by_the_same_command_and_what_it_trusts_is_refused(
    whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    shutil.copytree(whole, out)
    figure, *others = sorted((out / "figures").glob("*.json"))
    for path in (out / "claims.json", figure):
        raw = path.read_bytes()
        path.write_bytes(next(digits_changed(raw)))
        capsys.readouterr()
        assert main(["report", str(out)]) == 2
        said = capsys.readouterr().err
        assert len(said.splitlines()) == 1
        assert str(path) in said
        path.write_bytes(raw)
    for index, path in enumerate([out / "claims.json", figure, *others, *out.rglob("cores/**/*.safetensors")]):
        raw = path.read_bytes()
        path.write_bytes([*truncations(raw), next(digits_changed(raw))][index % 5])
    assert main(small_run(out)) == 0
    assert numbers(out) == numbers(whole)
    damaged = out / "runs" / "seed-0000" / "metrics.jsonl"
    damage(damaged, "a bit")
    before = numbers(out)
    capsys.readouterr()
    assert main(small_run(out)) == 2
    said = capsys.readouterr().err.splitlines()
    assert said[-1].startswith("error: ")
    assert str(damaged) in said[-1]
    assert not any("Traceback" in line for line in said)
    assert numbers(out).keys() == before.keys()
    assert {name for name, content in numbers(out).items() if content != before[name]} == set()
