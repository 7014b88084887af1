"""Errors: three parts in every message, both families of class, and a way between processes."""

from __future__ import annotations

import copy
import inspect
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from invariscope import errors
from invariscope.errors import InvariscopeError, UnknownNameError, nearest_names, unknown_name

CLASSES = {
    name: value
    for name, value in vars(errors).items()
    if inspect.isclass(value) and issubclass(value, InvariscopeError) and value.__module__ == errors.__name__
}
BUILT_IN = {
    "CheckpointError": ValueError,
    "CompiledModelError": ValueError,
    "ConfigError": ValueError,
    "FolderError": OSError,
    "ForeignFileError": ValueError,
    "HookedSiteError": ValueError,
    "JobError": RuntimeError,
    "NoForwardError": RuntimeError,
    "NonFiniteError": ValueError,
    "NotEnumerableError": ValueError,
    "ObjectiveError": ValueError,
    "PairsError": ValueError,
    "PositionError": ValueError,
    "RankError": ValueError,
    "ReiterableError": TypeError,
    "ShapeError": ValueError,
    "TooFewSamplesError": ValueError,
    "TransitionMatrixError": ValueError,
    "UnknownNameError": ValueError,
}


def test_the_table_above_names_every_class() -> None:
    assert set(CLASSES) == set(BUILT_IN) | {"InvariscopeError"}


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_each_error_is_ours_and_the_built_in_one_that_a_programmer_looks_for(name: str) -> None:
    with pytest.raises(BUILT_IN[name]) as caught:
        raise CLASSES[name]("a", expected="b", do="c")
    assert isinstance(caught.value, InvariscopeError)


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_the_message_has_given_expected_and_do_in_this_order(name: str) -> None:
    error = CLASSES[name]("rank 9", expected="at most 3", do="ask for less")
    assert str(error) == "rank 9; expected at most 3; ask for less"
    assert (error.given, error.expected, error.do) == ("rank 9", "at most 3", "ask for less")


def test_parts_that_are_missing_leave_no_empty_place() -> None:
    assert str(InvariscopeError("rank 9")) == "rank 9"
    assert str(InvariscopeError("rank 9", do="ask for less")) == "rank 9; ask for less"
    assert str(InvariscopeError("rank 9", expected="at most 3")) == "rank 9; expected at most 3"


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_an_error_survives_the_way_from_a_worker_process(name: str) -> None:
    error = CLASSES[name]("a", expected="b", do="c")
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(again) is type(error)
        assert (str(again), again.given, again.expected, again.do) == (str(error), "a", "b", "c")


def test_nearest_names_are_the_nearest_first_and_case_does_not_count() -> None:
    known = ["blocks.0.resid_mid", "blocks.0.resid_pre", "embed", "logits"]
    assert nearest_names("blocks.0.resid_middle", known)[0] == "blocks.0.resid_mid"
    assert nearest_names("LOGIT", known, num=1) == ["logits"]


@given(st.text(max_size=8), st.lists(st.text(max_size=6), max_size=6), st.integers(0, 5))
@settings(deadline=None, derandomize=True)
def test_nearest_names_are_known_different_and_no_more_than_asked(name: str, known: list[str], num: int) -> None:
    found = nearest_names(name, known, num)
    assert len(found) == len(set(found)) == min(num, len(set(known)))
    assert set(found) <= set(known)
    if num and name in known:
        assert name.lower() == found[0].lower()
    assert found == nearest_names(name, reversed(known), num), "the order of the known names decides"


def test_an_unknown_name_is_said_with_its_kind_and_three_neighbours() -> None:
    error = unknown_name("site", "resid_midd", ["resid_mid", "resid_pre", "resid_post", "mlp_out", "embed"])
    assert isinstance(error, UnknownNameError)
    assert str(error) == ("unknown site 'resid_midd'; expected one of its known names; nearest: resid_mid, resid_pre, resid_post")


def test_where_nothing_is_known_the_message_says_so() -> None:
    assert str(unknown_name("core", "verb", [])).endswith("; none is known")


def test_all_lists_every_public_name() -> None:
    assert set(errors.__all__) == set(CLASSES) | {"nearest_names", "unknown_name"}
