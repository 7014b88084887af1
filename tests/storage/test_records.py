"""Records: dataclasses to JSON and back, with names and kinds of values checked."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from invariscope.errors import ConfigError, UnknownNameError
from invariscope.models import TransformerConfig
from invariscope.storage.records import from_json_record, to_json_record
from invariscope.training import TrainConfig


@dataclasses.dataclass(frozen=True, kw_only=True)
class Inner:
    steps: int = 400
    rate: float = 0.5


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outer:
    name: str
    kind: Literal["a", "b"] = "a"
    flag: bool = False
    maybe: float | None = None
    layers: int | tuple[int, ...] = 1
    pair: tuple[float, int] = (0.5, 2)
    table: dict[str, int] = dataclasses.field(default_factory=dict)
    anything: Any = None
    inner: Inner = Inner(steps=5)
    made: Inner = dataclasses.field(default_factory=lambda: Inner(steps=7))


def test_there_and_back_through_json():
    record = Outer(name="x", kind="b", flag=True, maybe=1.5, layers=(1, 2), pair=(0.25, 3), table={"k": 1}, anything=[1, "a"])
    values = json.loads(json.dumps(to_json_record(record)))
    assert values["layers"] == [1, 2]
    assert values["inner"] == {"steps": 5, "rate": 0.5}
    assert from_json_record(Outer, values) == record


@given(
    steps=st.integers(1, 10**6),
    rate=st.floats(0, 1e3),
    betas=st.tuples(st.floats(0, 0.99), st.floats(0, 0.99)),
    schedule=st.sampled_from(["constant", "cosine", "linear"]),
)
@settings(deadline=None, derandomize=True, max_examples=50)
def test_training_configurations_come_back_equal(steps: int, rate: float, betas: tuple[float, float], schedule: Any):
    config = TrainConfig(steps=steps, learning_rate=rate, betas=betas, schedule=schedule)
    assert from_json_record(TrainConfig, json.loads(json.dumps(to_json_record(config)))) == config


def test_a_model_configuration_with_values_a_layer_comes_back_equal():
    config = TransformerConfig(vocab_size=4, context_length=8, num_layers=2, num_heads=(2, 4), norm=("none", "pre"))
    assert from_json_record(TransformerConfig, json.loads(json.dumps(to_json_record(config)))) == config


def test_what_is_not_given_comes_from_the_base():
    base = Outer(name="base", maybe=2.0, inner=Inner(steps=9, rate=0.1))
    changed = from_json_record(Outer, {"inner": {"rate": 1}, "flag": True}, base=base)
    assert changed == dataclasses.replace(base, flag=True, inner=Inner(steps=9, rate=1.0))
    assert isinstance(changed.inner.rate, float)


def test_a_partly_given_inner_record_keeps_its_fields_own_default():
    found = from_json_record(Outer, {"name": "x", "inner": {"rate": 0.1}, "made": {"rate": 0.2}})
    assert (found.inner, found.made) == (Inner(steps=5, rate=0.1), Inner(steps=7, rate=0.2))


@pytest.mark.parametrize(
    ("field", "value", "found"),
    [
        ("maybe", 1, 1.0),
        ("maybe", None, None),
        ("layers", 3, 3),
        ("layers", [3], (3,)),
        ("layers", [], ()),
        ("pair", [1, 1], (1.0, 1)),
        ("anything", {"a": [None]}, {"a": [None]}),
    ],
)
def test_values_take_the_kind_that_the_field_asks_for(field: str, value: Any, found: Any):
    got = getattr(from_json_record(Outer, {"name": "x", field: value}), field)
    assert got == found
    assert type(got) is type(found)


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("name", 3, "str"),
        ("kind", "c", "Literal['a', 'b']"),
        ("flag", 1, "bool"),
        ("maybe", "much", "float | None"),
        ("maybe", True, "float | None"),
        ("layers", 1.5, "int | tuple[int, ...]"),
        ("layers", [1, True], "int | tuple[int, ...]"),
        ("pair", [0.5], "tuple[float, int]"),
        ("pair", [0.5, 1, 2], "tuple[float, int]"),
        ("pair", "ab", "tuple[float, int]"),
        ("table", [1], "dict[str, int]"),
        ("table", {"k": "v"}, "dict[str, int]"),
    ],
)
def test_values_of_the_wrong_kind_are_refused_by_name(field: str, value: Any, expected: str):
    with pytest.raises(ConfigError) as caught:
        from_json_record(Outer, {"name": "x", field: value})
    assert caught.value.given == f"Outer.{field} = {value!r}"
    assert caught.value.expected == expected
    assert caught.value.do == "correct the value"


def test_unknown_fields_list_the_nearest_at_any_depth():
    with pytest.raises(UnknownNameError, match=r"unknown field of Outer 'layer'; .*nearest: layers"):
        from_json_record(Outer, {"name": "x", "layer": 3})
    with pytest.raises(UnknownNameError, match=r"unknown field of Inner 'step'; .*nearest: steps"):
        from_json_record(Outer, {"name": "x", "inner": {"step": 3}})


def test_missing_fields_are_named():
    with pytest.raises(ConfigError, match="Outer without name; expected a value for every field without a default; add them"):
        from_json_record(Outer, {"flag": True})


@pytest.mark.parametrize("values", [3, [1], "name", None])
def test_what_is_no_table_is_refused(values: Any):
    with pytest.raises(ConfigError, match="for Inner; expected a table of fields"):
        from_json_record(Inner, values)
    with pytest.raises(ConfigError, match="for Inner"):
        from_json_record(Outer, {"name": "x", "inner": values})


def test_a_records_own_checks_pass_through():
    with pytest.raises(ConfigError, match="steps = 0"):
        from_json_record(TrainConfig, {"steps": 0})


def test_mappings_and_nested_records_become_plain_values():
    values: Mapping[str, Any] = {"a": (Inner(), [Inner(steps=1)])}
    assert to_json_record(values) == {"a": [{"steps": 400, "rate": 0.5}, [{"steps": 1, "rate": 0.5}]]}
    assert to_json_record(Inner) is Inner
