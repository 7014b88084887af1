"""Answers of several tokens against a loop that reads one text at a time, with and without edits of the prompt."""

from __future__ import annotations

import pytest
import torch

from cores.hand_made import random_core
from invariscope.cores.behaviour import behaviour_data, sweep_behaviour
from invariscope.cores.whole_answers import WholeAnswers
from invariscope.errors import PositionError
from invariscope.sites import edit_site
from invariscope.tasks import Pair, PairSet
from tiny_language_models import TinyLanguageModel

SITE = "blocks.1.resid_post"
PROMPTS = ("The key", "The old lamp", "A door", "Some boats and", "It", "The red ring of")


@pytest.fixture(scope="module")
def lm() -> TinyLanguageModel:
    return TinyLanguageModel("gemma3")


def pairs() -> PairSet:
    right, wrong = (" was", " is so"), (" gone",)
    return PairSet(
        [
            Pair(prompt=prompt, answers=right if number % 2 else wrong, foils=wrong if number % 2 else right, position=1)
            for number, prompt in enumerate(PROMPTS)
        ],
        name="texts",
        add_space=False,
    )


def by_hand(lm: TinyLanguageModel, encoded, edit, positions) -> torch.Tensor:
    """Log-probability of every class, one text at a time and unpadded."""
    table = torch.full((len(encoded.rows), 2), -torch.inf, dtype=torch.float64)
    for number, row in enumerate(encoded.rows):
        for class_, side in enumerate(row.continuations):
            for tokens in side:
                text = torch.tensor([[*row.prompt, *tokens]])
                mask = torch.zeros_like(text, dtype=torch.bool)
                mask[0, [*range(len(row.prompt))][positions]] = True
                with torch.no_grad(), edit_site(lm.model, SITE, edit, positions=mask):
                    laws = lm.model(input_ids=text).logits[0].double().log_softmax(-1)
                score = sum(laws[len(row.prompt) - 1 + i, token] for i, token in enumerate(tokens))
                table[number, class_] = torch.logaddexp(table[number, class_], torch.as_tensor(score))
    return table


@pytest.mark.parametrize(
    ("positions", "chosen"),
    [("last", slice(-1, None)), (slice(1, None), slice(1, None)), ("all", slice(None)), ("marked", slice(1, 2))],
)
def test_scores_are_those_of_one_text_at_a_time(lm, positions, chosen):
    encoded = pairs().encode(lm.encode, pieces=lm.pieces)
    answers = WholeAnswers.of(encoded, batch_size=5)
    core = random_core(32, 1)
    for edit in (core.flip, lambda rows: rows):
        found = answers.scores(lm.model, edit, site=SITE, positions=positions)
        assert found == pytest.approx(by_hand(lm, encoded, edit, chosen), abs=1e-4)
    unedited = answers.scores(lm.model, None, site=SITE)
    assert unedited == pytest.approx(by_hand(lm, encoded, lambda rows: rows, chosen), abs=1e-4)
    assert not torch.allclose(unedited, answers.scores(lm.model, core.flip, site=SITE, positions=positions), atol=1e-3)


def test_answers_of_one_token_need_no_second_forward(lm):
    letters = ("x", "y")
    single = PairSet(
        [Pair(prompt=prompt, answers=letters[i % 2], foils=letters[1 - i % 2]) for i, prompt in enumerate(PROMPTS)],
        add_space=False,
    )
    assert WholeAnswers.of(single.encode(lm.encode), batch_size=4) is None


def test_a_position_that_a_prompt_lacks_is_refused(lm):
    answers = WholeAnswers.of(pairs().encode(lm.encode), batch_size=4)
    with pytest.raises(PositionError):
        answers.scores(lm.model, lambda rows: rows, site=SITE, positions=40)


def test_a_sweep_has_a_column_of_whole_answers(lm):
    data = behaviour_data(lm, pairs(), layers=[1, 2], num_random=1, num_arbitrary=1)
    sweep, cores = sweep_behaviour(lm, data, progress=False)
    assert sweep.has_whole_answers
    assert sweep.columns[-1] == "whole answers"
    scores = data.whole_answers.scores(lm.model, cores[2, "oblique", 1].flip, site="blocks.2.resid_post")
    labels = data.whole_answers.pairs.labels
    right = labels if labels is not None else torch.ones(len(scores), dtype=torch.long)
    expected = float((scores.argmax(1) == right).double().mean())
    assert sweep.effect(2, "flip").whole_answers.value == pytest.approx(expected)
    shown = {row[1]: row[-1] for row in sweep.cells()}
    assert shown["core"] != "-"
    assert shown["random"] == "-"
