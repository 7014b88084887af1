"""Predicted successors: exact where the model is, one draw's worth better than samples, refused where they mean nothing."""

from __future__ import annotations

import pytest
import torch

from cores.conftest import SITE, Trained
from cores.hand_made import ExactChain, Through, generator
from invariscope.batch import Batch
from invariscope.cores import Core, Provenance, extract_core, identify_operator
from invariscope.cores.successors import follows_tokens, leading_directions, predicted_successors
from invariscope.errors import ConfigError, ShapeError, UnknownNameError
from invariscope.tasks import CandidateMap, MarkovChain, time_shift
from training.toy_tasks import FirstPlusLast


@pytest.fixture(scope="module")
def exact() -> tuple[MarkovChain, ExactChain, list[Batch], Core]:
    chain = MarkovChain.named("four_complex", 8)
    model = ExactChain(chain)
    batches = list(chain.batches(60, batch_size=25, seed=0, pool="heldout"))
    return chain, model, batches, extract_core(model, batches, site="module:site", positions="all", rank=3)


def test_they_are_the_expectation_under_the_models_law(exact: tuple[MarkovChain, ExactChain, list[Batch], Core]):
    chain, model, batches, core = exact
    found = predicted_successors(core, model, batches, generator=generator())
    z = core.coordinates(model.code.detach().double())  # of each state
    distances, state = torch.cdist(found.z_from, z).min(1)
    assert float(distances.max()) < 1e-6
    assert torch.allclose(found.z_to, (chain.transition.double() @ z)[state], atol=1e-6)
    assert len(state.unique()) == 4
    assert found.groups.tolist() == list(range(60))


@pytest.mark.parametrize("coordinates", ["core", "law"])
@pytest.mark.parametrize("method", ["least_squares", "total_least_squares"])
def test_the_spectrum_comes_out_without_sampling_error(
    exact: tuple[MarkovChain, ExactChain, list[Batch], Core], coordinates: str, method: str
):
    chain, model, batches, core = exact
    options = {"coordinates": coordinates, "num_bootstrap": 0, "num_shuffles": 2}
    predicted = identify_operator(core, model, chain, batches, successors="predicted", method=method, **options)  # pyright: ignore[reportArgumentType]  # names as text
    sampled = identify_operator(core, model, chain, batches, **options)  # pyright: ignore[reportArgumentType]  # names as text
    assert predicted.best.error is not None
    assert sampled.best.error is not None
    assert predicted.best.error.value < 1e-5
    assert sampled.best.error.value > 1e-2
    assert predicted.best.operator.r2_heldout.value == pytest.approx(1.0, abs=1e-6)
    assert predicted.best.null_r2 is not None
    assert predicted.best.null_r2 < 0.5
    assert (predicted.successors, sampled.successors) == ("predicted", "sampled")


def test_on_a_trained_model_they_are_closer_than_samples(trained: Trained):
    batches = trained.task.batches(200, batch_size=100, seed=3, pool="heldout")
    core = extract_core(trained.model, batches, site=SITE, positions="all", rank=3)
    errors = {}
    for successors in ("predicted", "sampled"):
        found = identify_operator(core, trained.model, trained.task, batches, successors=successors, num_bootstrap=0)
        assert found.best.error is not None
        errors[successors] = found.best.error.value
    assert errors["predicted"] < 0.15


def test_maps_that_do_not_go_to_the_next_token_are_told_apart():
    shift = time_shift(None)
    assert follows_tokens(shift)
    assert not follows_tokens(CandidateMap(name="back", pairs=lambda rows: shift.pairs(rows)[::-1]))
    assert not follows_tokens(CandidateMap(name="across", pairs=lambda rows: (rows.b, rows.b.flip(0))))


def test_what_cannot_be_predicted_is_refused(exact: tuple[MarkovChain, ExactChain, list[Batch], Core]):
    chain, model, batches, core = exact
    back = FirstPlusLast()
    back.candidate_maps = (CandidateMap(name="back", pairs=lambda rows: time_shift(None).pairs(rows)[::-1]),)
    with pytest.raises(ConfigError, match="predicted successors of back; expected a candidate map from each token to the next"):
        identify_operator(core, model, back, batches, successors="predicted")
    with pytest.raises(UnknownNameError, match=r"unknown successors 'predict'; .*nearest: predicted"):
        identify_operator(core, model, chain, batches, successors="predict")  # pyright: ignore[reportArgumentType]  # what is tested
    with pytest.raises(ConfigError, match=r"total least squares on sampled successors.*pass successors='predicted'"):
        identify_operator(core, model, chain, batches, method="total_least_squares")
    last = extract_core(model, batches, site="module:site", positions="last", rank=3)
    with pytest.raises(ConfigError, match="a core read at 'last'; expected positions='all'; extract"):
        predicted_successors(last, model, batches, generator=generator())
    valid = torch.ones(2, 3, dtype=torch.bool)
    valid[0, 2] = False
    padded = Batch(inputs={"tokens": torch.zeros(2, 3, dtype=torch.long)}, valid=valid)
    with pytest.raises(ShapeError, match=r"'tokens' of shape \[2, 3\] and type torch.int64, padded; expected token ids"):
        predicted_successors(core, model, [padded], generator=generator())
    axes = torch.eye(4, 1, dtype=torch.float64)
    states = Core(
        read=axes,
        write=axes,
        mean=torch.zeros(4).double(),
        singular_values=torch.ones(1),
        provenance=Provenance(site="module:site", positions="all", outputs_at="all"),
    )
    batch = Batch(inputs={"states": torch.zeros(2, 3, 4).double()})
    with pytest.raises(ShapeError, match=r"inputs 'states' of shape \[2, 3, 4\]"):
        predicted_successors(states, Through(torch.eye(4).double()), [batch], generator=generator())


def test_directions_of_a_law_are_its_principal_ones():
    law = torch.rand(50, 4, dtype=torch.float64, generator=generator()).softmax(-1)
    _, _, expected = torch.linalg.svd(law - law.mean(0))
    found = leading_directions(law, 2)
    assert torch.allclose((found * expected[:2].T).sum(0).abs(), torch.ones(2).double(), atol=1e-9)
