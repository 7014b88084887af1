"""What is drawn of the first seed: whole sequences, true distributions, steps of real checkpoints."""

from pathlib import Path

import pytest

from experiments.assign_add.tiny_study import STUDY, TASK
from invariscope.circuits import SHARED_SITES, SOURCES
from invariscope.experiments.assign_add.pictures import step_of


@pytest.fixture(name="pictures")
def of_the_first_seed(tiny):
    return tiny[1][0].pictures


def test_attention_is_a_law_over_earlier_tokens_of_one_sequence(pictures):
    assert len({picture.tokens for picture in pictures.attention}) == 1
    for picture in pictures.attention:
        assert len(picture.tokens) == TASK.sequence_length
        assert picture.tokens[-1] == "="
        for query, row in enumerate(picture.first):
            assert sum(row) == pytest.approx(1, abs=1e-3)
            assert all(weight == 0 for weight in row[query + 1 :])
        assert sum(picture.last) == pytest.approx(1, abs=1e-3)


def test_moments_are_checkpoints_in_order_the_last_among_them(pictures):
    steps = [picture.step for picture in pictures.attention]
    assert steps == sorted(set(steps)) == [term.step for term in pictures.terms]
    assert steps[0] == 4
    assert steps[-1] == STUDY.train.steps


def test_terms_add_up_to_the_contrast(pictures):
    for found in pictures.terms:
        assert found.sources == tuple(SOURCES)
        assert sum(sum(row) for row in found.terms) == pytest.approx(found.total, abs=2e-3)


def test_histograms_count_every_pair_once(pictures):
    assert [found.site for found in pictures.cosines] == list(SHARED_SITES)
    for found in pictures.cosines:
        assert sum(found.matched_counts) == sum(found.shuffled_counts) == 3 * STUDY.num_pairs
        assert len(found.edges) == len(found.matched_counts) + 1
        middles = [(low + high) / 2 for low, high in zip(found.edges, found.edges[1:], strict=False)]
        mean = sum(m * n for m, n in zip(middles, found.matched_counts, strict=True)) / sum(found.matched_counts)
        assert mean == pytest.approx(found.matched.value, abs=0.03)


def test_neurons_are_of_different_frequencies(pictures):
    frequencies = [neuron.frequency for neuron in pictures.neurons]
    assert 1 <= len(frequencies) == len(set(frequencies)) <= 4
    assert all(len(neuron.values) == len(neuron.values[0]) == 13 for neuron in pictures.neurons)


def test_variables_are_named_as_the_text_names_them(pictures):
    assert pictures.variables == ("a", "b", "c", "d")
    assert len(pictures.identity) == len(pictures.identity[0]) == 4


def test_a_step_is_read_off_a_name():
    assert step_of(Path("x/checkpoints/step-00000050.safetensors")) == 50
