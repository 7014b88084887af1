"""Extraction: a computation of known rank gives that rank, sufficient and necessary; an untrained model gives none."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from cores.hand_made import TwoDirections, generator
from invariscope.batch import Batch
from invariscope.cores import Moments, accuracy, by_energy, by_sufficiency, collect_moments, extract_core, rank_curve
from invariscope.errors import RankError, ReiterableError, TooFewSamplesError, UnknownNameError
from invariscope.models import fingerprint, untrained
from invariscope.numerics.subspaces import principal_angles
from invariscope.sites import logits, margin

SITE = "module:site"
MID = "blocks.0.resid_mid"


@pytest.mark.parametrize("projection", ["oblique", "adjoint"])
def test_exactly_two_directions_matter_where_two_do(projection: str):
    model = TwoDirections()
    moments = collect_moments(model, model.batches(), sites=[SITE], positions="all")[SITE]
    assert moments.dim == 10
    curve = rank_curve(moments, model, model.batches(), projection=projection, positions="all")
    assert curve.sufficient(0.02) == curve.necessary(0.02) == 2
    assert curve.keep_loss()[1] == pytest.approx(0, abs=1e-9)
    assert curve.removed()[1] == pytest.approx(1, abs=1e-9)
    assert curve.keep_loss()[0] > 0.1
    assert curve.removed()[0] < 0.9
    assert curve.chance == curve.mean == pytest.approx(math.log(4))
    assert (curve.metric, curve.unit, curve.projection, curve.num) == ("cross_entropy", "nats", projection, 32)
    assert not curve.higher_is_better
    core = moments.core(2, projection)
    assert float(principal_angles(core.read, model.plane).max()) < 1e-6


def test_by_sufficiency_chooses_two_and_brings_the_curve():
    model = TwoDirections()
    core = extract_core(model, model.batches(), site=SITE, positions="all", rank=by_sufficiency(0.02))
    assert core.rank == 2
    assert core.provenance.rank_rule == "keep loses at most 0.02 of cross_entropy"
    assert core.rank_curve is not None
    assert core.rank_curve.sufficient(0.02) == 2
    assert core.provenance.projection == "oblique"


def test_by_sufficiency_takes_another_metric():
    model = TwoDirections()
    core = extract_core(model, model.batches(), site=SITE, positions="all", rank=by_sufficiency(0.02, metric=accuracy()))
    assert core.rank_curve is not None
    assert core.rank_curve.higher_is_better
    assert core.rank_curve.metric == "accuracy"
    assert core.rank == 2


def test_a_trained_model_has_a_core_and_an_untrained_one_has_none(trained: Any):
    batches = trained.task.batches(256, batch_size=128, seed=0, pool="heldout")
    moments = collect_moments(trained.model, batches, sites=[MID], positions="all")[MID]
    curve = rank_curve(moments, trained.model, batches, positions="all")
    assert curve.ranks == tuple(range(1, 9))
    assert curve.better_than_chance
    assert curve.sufficient(0.02) == 3
    fresh = untrained(trained.model, generator(1))
    moments = collect_moments(fresh, batches, sites=[MID], positions="all")[MID]
    curve = rank_curve(moments, fresh, batches, positions="all")
    assert curve.full > curve.chance
    assert curve.sufficient(0.9) is None
    assert curve.necessary(0.9) is None
    with pytest.raises(RankError) as caught:
        extract_core(fresh, batches, site=MID, positions="all", rank=by_sufficiency(0.02))
    assert caught.value.given.startswith(f"by_sufficiency(0.02) at {MID!r}: full ")
    assert "a model above chance" in caught.value.expected
    assert "train the model" in caught.value.do


def test_the_curve_stops_where_it_is_told(trained: Any):
    batches = trained.task.batches(64, batch_size=64, seed=0, pool="heldout")
    moments = collect_moments(trained.model, batches, sites=[MID], positions="all")[MID]
    assert rank_curve(moments, trained.model, batches, positions="all", max_rank=2).ranks == (1, 2)
    assert len(rank_curve(moments, trained.model, batches, positions="all", projection="adjoint", max_rank=None).ranks) == 16
    stopped = rank_curve(moments, trained.model, batches, positions="all", projection="adjoint", max_rank=None, stop_at=0.1)
    assert stopped.ranks == tuple(range(1, 9))
    with pytest.raises(RankError, match=r"a rank curve up to 0 at 'blocks.0.resid_mid'; expected at least rank 1"):
        rank_curve(moments, trained.model, batches, positions="all", max_rank=0)


def test_ranks_without_an_oblique_projector_are_left_out():
    model = TwoDirections()
    moments = collect_moments(model, model.batches(), sites=[SITE], positions="all")[SITE]
    assert rank_curve(moments, model, model.batches(), positions="all", max_rank=None).ranks == (1, 2)


def test_moments_of_every_site_in_one_pass_are_those_of_each(trained: Any):
    batches = trained.task.batches(20, batch_size=8, seed=0, pool="train")
    sites = [MID, "final_norm"]
    together = collect_moments(trained.model, batches, sites=sites, positions="last")
    assert list(together) == sites
    for site in sites:
        alone = collect_moments(trained.model, batches, sites=[site], positions="last")[site]
        assert torch.allclose(together[site].singular_values, alone.singular_values, atol=1e-6)
        assert together[site].num_samples == 20


def test_the_provenance_says_how(trained: Any):
    batches = trained.task.batches(16, batch_size=8, seed=0, pool="train")
    objective = margin(positive=[1], negative=[0])
    core = extract_core(
        trained.model,
        batches,
        site=MID,
        objective=objective,
        positions=slice(2, None),
        outputs_at="last",
        rank=1,
        projection="adjoint",
    )
    made = core.provenance
    assert (made.site, made.positions, made.outputs_at, made.reach, made.sketch) == (MID, "2::", "last", "same", None)
    assert made.objective == objective.name
    assert made.model == fingerprint(trained.model)
    assert (made.projection, made.rank_rule, made.num_samples) == ("adjoint", "given", 16 * 6)


def test_batching_changes_nothing(trained: Any):
    whole = list(trained.task.batches(24, batch_size=24, seed=0, pool="train"))
    parts = [whole[0].take(torch.arange(start, min(start + 7, 24))) for start in range(0, 24, 7)]
    a, b = (collect_moments(trained.model, batches, sites=[MID], positions="all")[MID] for batches in (whole, parts))
    assert torch.allclose(a.singular_values, b.singular_values, atol=1e-6)
    merged = Moments.merge([collect_moments(trained.model, [part], sites=[MID], positions="all")[MID] for part in parts])
    assert torch.allclose(merged.singular_values, b.singular_values, atol=1e-9)


def test_a_sketch_estimates_the_core_and_follows_the_generator(trained: Any):
    batches = trained.task.batches(400, batch_size=200, seed=0, pool="train")

    def moments(sketch: int | None, seed: int = 0) -> Moments:
        return collect_moments(trained.model, batches, sites=[MID], positions="all", sketch=sketch, generator=generator(seed))[
            MID
        ]

    exact, one, same, other = moments(None), moments(2), moments(2), moments(2, seed=1)
    assert torch.equal(one.singular_values, same.singular_values)
    assert not torch.equal(one.singular_values, other.singular_values)
    assert torch.allclose(one.singular_values[:2], exact.singular_values[:2], rtol=0.1)
    assert float(principal_angles(one.core(2).read, exact.core(2).read).max()) < 0.2
    assert one.provenance.sketch == 2


def test_log_softmax_leaves_the_shift_of_all_logits_out(trained: Any):
    batches = trained.task.batches(32, batch_size=32, seed=0, pool="train")
    shifted = collect_moments(trained.model, batches, sites=["logits"], positions="all")["logits"]
    assert float(shifted.singular_values[3] / shifted.singular_values[0]) < 1e-6
    with pytest.warns(UserWarning, match="raw"):
        objective = logits(normalise="raw")
    raw = collect_moments(trained.model, batches, sites=["logits"], objective=objective, positions="all")["logits"]
    assert float(raw.singular_values[3] / raw.singular_values[0]) > 1e-3


def test_what_cannot_be_read_is_refused(trained: Any):
    batches = trained.task.batches(8, batch_size=8, seed=0, pool="train")
    with pytest.raises(UnknownNameError, match=r"unknown site 'blocks.0.resid_mud'; .*nearest: blocks.0.resid_mid"):
        extract_core(trained.model, batches, site="blocks.0.resid_mud", rank=1)
    with pytest.raises(ReiterableError):
        extract_core(trained.model, iter(batches), site=MID, rank=1)
    with pytest.raises(TooFewSamplesError, match="batches that are empty"):
        extract_core(trained.model, [], site=MID, rank=1)
    constant = Batch(inputs={"tokens": torch.zeros(9, 3, dtype=torch.long)})
    with pytest.raises(RankError, match="product is zero"):
        extract_core(trained.model, [constant], site="embed", positions=0, rank=by_energy(0.9))
