"""Whatever stands in a file of ours or in a configuration: an answer or one of our own errors, no traceback and no hang.

Bounded and the same every time; mutated files are cut, overwritten and spliced copies of whole ones, tensor files with a checksum
that fits are made from parts that do not.
"""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cli.test_run_killed import TINY as REAL_STUDY
from faults.damage import Kind, make_kinds, outcome
from faults.small_study import registered
from invariscope.cli.main import main
from invariscope.errors import RankError
from invariscope.experiments import markov_cores
from invariscope.storage import is_temporary, load_tensors, read_json, save_tensors, write_json

bounded = settings(
    deadline=None,
    derandomize=True,
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

KINDS = ("checkpoint", "state", "core", "moments", "claims", "manifest", "figure", "metrics")
TENSOR_KINDS = {"checkpoint": "checkpoint", "state": "training state", "core": "core"}

plain = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
json_values = st.recursive(
    plain, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3), max_leaves=8
)


@pytest.fixture(scope="module")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Kind]:
    return make_kinds(tmp_path_factory.mktemp("kinds"))


@contextlib.contextmanager
def changed(kind: Kind) -> Any:
    """The file as it was is put back afterwards."""
    raw = kind.path.read_bytes()
    try:
        yield raw
    finally:
        kind.path.write_bytes(raw)


def assert_answers(kind: Kind) -> None:
    found, error = outcome(kind)  # any exception that is not ours passes through and fails the test
    if error is not None:
        assert found is None
        assert error.given
        assert "\n" not in error.given.splitlines()[0]


@pytest.mark.parametrize("name", KINDS)
@given(content=st.binary(max_size=400))
@bounded
def test_arbitrary_bytes(name: str, kinds: dict[str, Kind], content: bytes) -> None:
    with changed(kinds[name]):
        kinds[name].path.write_bytes(content)
        assert outcome(kinds[name])[1] is not None


@st.composite
def mutations(draw: st.DrawFn) -> Callable[[bytes], bytes]:
    """Cut, overwrite, insert, repeat: a few times, at places given as shares of the length."""
    steps = draw(
        st.lists(
            st.tuples(
                st.sampled_from(["cut", "overwrite", "insert", "repeat"]),
                st.floats(0, 1),
                st.binary(min_size=1, max_size=12) | st.sampled_from([b"1e999", b"NaN", b'"\\ud800"', b"[" * 3000, b"null"]),
            ),
            min_size=1,
            max_size=3,
        )
    )

    def mutate(raw: bytes) -> bytes:
        for how, share, piece in steps:
            place = int(share * len(raw))
            if how == "cut":
                raw = raw[:place] + raw[place + len(piece) :]
            elif how == "overwrite":
                raw = raw[:place] + piece + raw[place + len(piece) :]
            elif how == "insert":
                raw = raw[:place] + piece + raw[place:]
            else:
                raw = raw[:place] + raw[place // 2 : place // 2 + 50] + raw[place:]
        return raw

    return mutate


@pytest.mark.parametrize("name", KINDS)
@given(mutate=mutations())
@bounded
def test_mutated_files(name: str, kinds: dict[str, Kind], mutate: Callable[[bytes], bytes]) -> None:
    with changed(kinds[name]) as raw:
        kinds[name].path.write_bytes(mutate(raw))
        assert_answers(kinds[name])


@pytest.mark.parametrize("name", ["claims", "manifest", "figure"])
@given(data=st.data())
@bounded
def test_documents_with_a_fitting_checksum_and_other_values(name: str, kinds: dict[str, Kind], data: st.DataObject) -> None:
    kind = kinds[name]
    with changed(kind):
        value = read_json(kind.path)
        place: Any = value
        # Down to some entry of some object or list.
        while True:
            key = data.draw(st.sampled_from(sorted(place)) if isinstance(place, dict) else st.integers(0, len(place) - 1))
            inner = place[key]
            if not (isinstance(inner, dict | list) and inner) or data.draw(st.booleans()):
                break
            place = inner
        place[key] = data.draw(json_values)
        text = json.dumps(value)
        try:
            json.dumps(value, allow_nan=False)
        except ValueError:
            kind.path.write_text(text)  # NaN: nobody can have written it with a checksum
        else:
            write_json(kind.path, value)
        assert_answers(kind)


@pytest.mark.parametrize("name", TENSOR_KINDS)
@given(data=st.data())
@bounded
def test_tensor_files_with_a_fitting_checksum_and_other_parts(name: str, kinds: dict[str, Kind], data: st.DataObject) -> None:
    kind = kinds[name]
    with changed(kind):
        tensors, metadata = load_tensors(kind.path, kind=TENSOR_KINDS[name])
        for tensor in data.draw(st.lists(st.sampled_from(sorted(tensors)), max_size=2)):
            shape = data.draw(st.lists(st.integers(0, 3), max_size=3))
            kind_of_number = data.draw(st.sampled_from([torch.float32, torch.float64, torch.int64, torch.bool, None]))
            if kind_of_number is None:
                tensors.pop(tensor, None)
            else:
                tensors[tensor] = torch.ones(shape, dtype=kind_of_number)
        for key in data.draw(st.lists(st.sampled_from([*sorted(metadata), "more"]), max_size=1)):
            metadata[key] = data.draw(json_values.filter(is_strict))
        save_tensors(kind.path, tensors, kind=TENSOR_KINDS[name], metadata=metadata)
        assert_answers(kind)


def is_strict(value: Any) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        return False
    return True


names = st.sampled_from(
    [
        *("real", "twelve", "rank_two", "train", "width", "num_layers", "num_heads", "mlp_width", "sequence_length", "seeds"),
        *("chain", "steps", "batch_size", "betas", "schedule", "forward", "warmup_steps", "final_share", "num_random", "widht"),
    ]
)
toml_plain = st.sampled_from(
    [
        *("0", "-1", "1", "3", "1.5", "nan", "-inf", "true", '""', '"four_real"', '"no such chain"', "[]", "[0, 0]", "[0, 1]"),
        *("[0.9, 0.99]", "9" * 400, "9" * 5000, "1e999", "1979-05-27", "{}", "{seeds = [0, 1]}", '"\\u0000"', "[[[]]]", "2, 3"),
    ]
)
toml_lines = st.tuples(st.sampled_from(["", "", "[train]\n", "[real]\n", "[[real]]\n", "[real.seeds]\n", "["]), names, toml_plain)


def run_with(config: Path) -> tuple[int, str]:
    """Status and words of ``invariscope run`` with a study that is refused before it trains."""
    out = config.with_name("out")
    with registered(), contextlib.redirect_stderr(io.StringIO()) as err, contextlib.redirect_stdout(io.StringIO()):
        status = main(["run", "markov-cores", "--config", str(config), "--out", str(out), "--engine", "inline"])
    return status, err.getvalue()


@pytest.fixture
def refusing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The real study's configuration, and a run that goes no further than that."""

    def refuse(*_: Any, **__: Any) -> None:
        raise RankError("this far and no further")

    monkeypatch.setattr(markov_cores, "run", refuse)


def assert_refused_in_one_line(config: Path) -> None:
    status, said = run_with(config)
    assert status == 2, said
    assert len(said.splitlines()) <= 2, said
    assert said.splitlines()[-1].startswith("error: ")
    assert not list(config.parent.glob("out/runs"))
    for path in config.parent.glob("out/*"):
        assert not is_temporary(path.name)
        path.unlink()
    config.parent.joinpath("out", ".lock").unlink(missing_ok=True)


@given(lines=st.lists(toml_lines, min_size=1, max_size=4))
@bounded
def test_random_tables_as_a_configuration(refusing: None, tmp_path: Path, lines: list[tuple[str, str, str]]) -> None:
    config = tmp_path / "random.toml"
    config.write_text("".join(f"{table}{name} = {value}\n" for table, name, value in lines))
    assert_refused_in_one_line(config)


@given(mutate=mutations())
@bounded
def test_mutated_configurations(refusing: None, tmp_path: Path, mutate: Callable[[bytes], bytes]) -> None:
    config = tmp_path / "mutated.toml"
    config.write_bytes(mutate(REAL_STUDY.encode()))
    assert_refused_in_one_line(config)


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"\xff\xfe", b"x = " + b"[" * 20_000, b"x = " + b"{a = " * 2_000, b"width = " + b"9" * 5_000, b"width = 1e400"),
        *(b"[train]\nlearning_rate = " + b"9" * 400, b"[train]\nlearning_rate = nan", b"width = 1979-05-27", b"a.b.c = 1"),
    ],
    ids=repr,
)
def test_configurations_that_parsers_stumble_over(content: bytes, refusing: None, tmp_path: Path) -> None:
    (tmp_path / "odd.toml").write_bytes(content)
    assert_refused_in_one_line(tmp_path / "odd.toml")
