"""A behaviour encoded for a model: splits, transfers, and what is said when prompts are few."""

from __future__ import annotations

import pytest

from cores.test_sweep_layers import WORDS, pairs
from invariscope.cores.behaviour import ARBITRARY, behaviour_data, sweep_behaviour, sweep_layers
from invariscope.errors import PairsError
from invariscope.tasks import Behaviour, Pair, PairSet
from tiny_language_models import TinyLanguageModel


@pytest.fixture(scope="module")
def lm() -> TinyLanguageModel:
    return TinyLanguageModel()


def test_groups_are_on_one_side_and_second_answers_are_a_transfer(lm):
    data = behaviour_data(lm, pairs(), batch_size=5)
    sides = [{int(group) for batch in part for group in batch.groups} for part in (data.extraction, data.heldout)]
    assert not sides[0] & sides[1]
    assert sum(batch.num_rows for batch in (*data.extraction, *data.heldout)) == 2 * len(WORDS)
    assert list(data.settings.transfers) == ["second answers"]
    assert list(data.settings.arbitrary) == list(ARBITRARY)
    # Letters x, y, p and q: what specificity leaves out.
    assert data.settings.answers == tuple(sorted(lm.single_token(letter) for letter in "xypq"))
    assert data.classes == ("y", "x")
    assert data.whole_answers is None


def test_a_behaviour_brings_its_parts_and_its_transfers(lm):
    every = list(pairs().pairs)
    behaviour = Behaviour(
        name="letters",
        summary="x or y",
        train=PairSet(every[:8], name="letters", add_space=False),
        heldout=PairSet(every[8:], name="letters", add_space=False),
        transfers={"s/t": (" s", " t")},
    )
    data = behaviour_data(lm, behaviour)
    assert [sum(batch.num_rows for batch in part) for part in (data.extraction, data.heldout)] == [8, 16]
    assert set(data.settings.transfers) == {"s/t", "second answers"}
    again = Behaviour(name="letters", summary="", train=behaviour.train, heldout=behaviour.train)
    with pytest.raises(PairsError, match="in both halves"):
        behaviour_data(lm, again)


def test_options_go_to_the_sweep(lm):
    data = behaviour_data(lm, pairs(), ranks=(1, 2), positions="all", num_arbitrary=0)
    assert (data.settings.ranks, data.settings.positions, data.settings.arbitrary) == ((1, 2), "all", {})


def test_three_prompts_are_enough_and_what_they_are_worth_is_said(lm):
    few = PairSet(list(pairs().pairs[:3]), name="few", add_space=False)
    data = behaviour_data(lm, few, layers=[2], num_random=1, num_arbitrary=1)
    assert any("2 groups are too few to hold any out" in note for note in data.notes)
    sweep, _ = sweep_behaviour(lm, data, progress=False)
    assert (sweep.num_extraction, sweep.num_heldout) == (3, 3)
    assert sweep.at(2).r2 == {}
    assert sweep.effect(2, "keep").accuracy.num == 3


def test_many_groups_have_an_r2(lm):
    many = [
        Pair(prompt=f"The {word}{tail}", answers=answer, foils=foil, group=f"{word}{tail}")
        for word in WORDS
        for tail in ("", "s", " of")
        for answer, foil in ((("x", "y") if len(word) % 2 else ("y", "x")),)
    ]
    sweep = sweep_layers(
        lm, PairSet(many, add_space=False), layers=[2], projections=("oblique",), num_random=1, num_arbitrary=0, progress=False
    )
    assert set(sweep.at(2).r2) == set(sweep.at(2).within) == {"oblique"}
