"""Estimate and Similarity: what they print is what was measured, with its interval and its chance level."""

from __future__ import annotations

import dataclasses

import pytest

from invariscope.estimate import Estimate, Similarity


def similarity(**changes: object) -> Similarity:
    fields: dict[str, object] = {"name": "cca", "value": 0.98765, "null_mean": 0.1, "null_low": 0.05, "null_high": 0.2}
    return Similarity(**(fields | {"dims": (64, 32), "rank": 3} | changes))  # pyright: ignore[reportArgumentType]  # by name


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"value": 0.123456, "num": 3}, "0.1235"),
        ({"value": 1.0, "low": 0.5, "high": 1.5, "num": 3, "unit": "nats"}, "1 [0.5, 1.5] nats"),
        ({"value": 0.75, "num": 9, "chance": 0.25}, "0.75 (chance 0.25)"),
        ({"value": 0.0, "low": 0.0, "high": 0.0, "num": 1, "unit": "share", "chance": 0.0}, "0 [0, 0] share (chance 0)"),
        ({"value": 12345.0, "low": None, "high": 2.0, "num": 1}, "1.234e+04"),
        ({"value": float("nan"), "num": 0}, "nan"),
    ],
)
def test_an_estimate_prints_value_interval_unit_and_chance(fields: dict[str, float], text: str) -> None:
    assert str(Estimate(**fields)) == text  # pyright: ignore[reportArgumentType]  # by name


def test_an_estimate_is_a_value_and_its_interval_covers_95_percent_unless_said() -> None:
    a, b = (Estimate(value=1.0, num=2) for _ in range(2))
    assert a == b
    assert hash(a) == hash(b)
    assert a.level == 0.95
    with pytest.raises(dataclasses.FrozenInstanceError):
        a.value = 2.0  # pyright: ignore[reportAttributeAccessIssue]  # that is the test


def test_arguments_go_by_name_only() -> None:
    with pytest.raises(TypeError):
        Estimate(1.0, 2)  # pyright: ignore[reportCallIssue]  # that is the test


def test_a_similarity_never_prints_without_its_null() -> None:
    assert str(similarity()) == "cca 0.9877; null 0.1000 [0.0500, 0.2000] (d 64 and 32, k 3)"


def test_a_similarity_prints_its_held_out_value_and_sizes_where_it_was_fitted() -> None:
    text = str(similarity(heldout=0.5, num_fit=100, num_heldout=50))
    assert text == "cca 0.9877, held out 0.5000; null 0.1000 [0.0500, 0.2000] (n 100+50, d 64 and 32, k 3)"


def test_a_held_out_value_of_zero_is_printed() -> None:
    assert "held out 0.0000" in str(similarity(heldout=0.0))


@pytest.mark.parametrize("name", ["null_mean", "null_low", "null_high", "dims", "rank"])
def test_there_is_no_similarity_without_a_null_or_sizes(name: str) -> None:
    fields = {field.name: getattr(similarity(), field.name) for field in dataclasses.fields(Similarity) if field.name != name}
    with pytest.raises(TypeError, match=name):
        Similarity(**fields)
