"""The sixteen terms are the score, and the circuit's are where it was built."""

import pytest
import torch

from circuits.hand_built import PAPER, SHARP, SMALL, circuit, generator, tokens_of, unknowing
from invariscope.circuits import SOURCES, attention_maps, score_decomposition, score_terms
from invariscope.errors import ConfigError, ShapeError, TooFewSamplesError

EMBED, POSITION, ATTN1, MLP1 = range(4)


@pytest.mark.parametrize("mlp_width", [(0, 24), (12, 24)])
@pytest.mark.parametrize("positions", ["learned", "none"])
def test_the_terms_add_up_to_the_models_scores(mlp_width, positions):
    model, tokens = unknowing(mlp_width=mlp_width, positions=positions, initial_scale=2.0), tokens_of(SMALL, "train", 16)
    terms = score_terms(model, SMALL, tokens)
    assert terms.shape == (16, 4, 4, SMALL.sequence_length)
    pattern = attention_maps(model, SMALL, tokens).second[:, 0, -1].double()
    assert torch.allclose(terms.sum((1, 2)).softmax(-1), pattern, atol=1e-6)
    assert bool(terms[:, MLP1].any()) == bool(mlp_width[0])
    assert bool(terms[:, :, POSITION].any()) == (positions == "learned")


def test_the_contrast_is_the_sum_of_its_terms_and_what_it_says():
    model, batch = unknowing(initial_scale=2.0), SMALL.sample(80, generator=generator())
    found = score_decomposition(model, SMALL, [batch], generator=generator())
    tokens = batch.inputs["tokens"]
    places, scores = SMALL.places(tokens), score_terms(model, SMALL, tokens).sum((1, 2))
    expected = {True: [], False: []}
    for row in range(80):
        own = set(places.values[row].tolist())
        wrong = [t for t in places.numbers[row].nonzero()[:, 0].tolist() if t not in own]
        for of_variable in (True, False):
            right = [int(p) for p, v in zip(places.values[row], places.is_variable[row], strict=True) if bool(v) == of_variable]
            if right and wrong:
                expected[of_variable].append(float(scores[row, right].mean() - scores[row, wrong].mean()))
    assert found.constants is not None
    for of_variable, contrast in ((True, found.values), (False, found.constants)):
        assert contrast.total.num == len(expected[of_variable])
        assert contrast.total.value == pytest.approx(sum(expected[of_variable]) / len(expected[of_variable]))
        assert float(contrast.terms.sum()) == pytest.approx(contrast.total.value)
        assert contrast.total.chance == 0.0


@pytest.mark.parametrize("task", [SMALL, PAPER])
def test_the_circuit_finds_values_by_what_layer_1_wrote_into_both(task):
    found = score_decomposition(
        circuit(task), task, [task.sample(100, generator=generator(), pool="2var-seen")], generator=generator()
    )
    assert found.sources == SOURCES
    assert found.values.terms[ATTN1, ATTN1] == pytest.approx(SHARP, rel=1e-5)
    assert found.values.total.value == pytest.approx(SHARP, rel=1e-5)
    assert float(found.values.errors.max()) < 1e-6
    assert found.constants is None
    rest = score_decomposition(
        circuit(task),
        task,
        [task.sample(100, generator=generator(), pool="0var-seen"), task.sample(20, generator=generator(), pool="1var-seen")],
        generator=generator(),
    )
    assert rest.constants is not None
    # Numbers in the query are found by their position.
    assert rest.constants.terms[POSITION, POSITION] == pytest.approx(SHARP, rel=1e-5)


def test_what_is_refused():
    batch = SMALL.sample(20, generator=generator(), pool="0var-seen")
    with pytest.raises(TooFewSamplesError, match="no sum has both a variable and an assigned number that it does not add"):
        score_decomposition(unknowing(), SMALL, [batch], generator=generator())
    with pytest.raises(ConfigError, match="norm 'pre'"):
        score_terms(unknowing(norm="pre"), SMALL, batch.inputs["tokens"])
    with pytest.raises(ShapeError):
        score_terms(unknowing(), SMALL, batch.inputs["tokens"][:, :-1])
