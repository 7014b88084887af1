"""Distributed alignment search: it finds the subspace that the output reads, keeps what a core keeps, and says what it cost."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from cores.conftest import SITE, Trained
from cores.hand_made import Through, TwoDirections, generator, orthogonal
from invariscope.batch import Batch
from invariscope.cores import (
    Baseline,
    cross_entropy,
    distributed_alignment_search,
    extract_core,
    load_core,
    validate_core,
)
from invariscope.errors import ConfigError, RankError, UnknownNameError
from invariscope.numerics.subspaces import principal_angles
from invariscope.sites import margin


def search(model: torch.nn.Module, batches: list[Batch], **options: object) -> Baseline:
    chosen = {"site": "module:site", "rank": 2, "positions": "all", "steps": 150, "generator": generator()} | options
    return distributed_alignment_search(model, batches, **chosen)  # pyright: ignore[reportArgumentType]  # options by name


def test_it_finds_the_plane_that_the_logits_read():
    source = generator()
    plane = orthogonal(6)[:, :2]
    readout = plane @ torch.randn(2, 5, dtype=torch.float64, generator=source)
    states = torch.randn(400, 1, 6, dtype=torch.float64, generator=source)
    batches = [Batch(inputs={"states": part}) for part in states.split(100)]
    found = search(Through(readout), batches, steps=300)
    assert float(principal_angles(found.core.write, plane).max()) < 0.02
    assert found.score.value < 1e-6
    assert found.losses[0] > 0.1 > 1000 * found.losses[-1]
    assert len(found.losses) == found.steps == 300
    assert found.cpu_seconds > 0
    assert torch.allclose(found.core.write.T @ found.core.write, torch.eye(2).double(), atol=1e-12)


def test_four_tokens_are_kept_by_more_than_one_plane():
    # Where the activations span few directions, what preserves the output is not what the readout reads: DAS need not find it.
    model = TwoDirections()
    found = search(model, model.batches())
    assert found.score.value < 1e-3
    assert float(principal_angles(found.core.write, model.plane).max()) > 0.3


def test_its_mean_is_the_weighted_mean_of_the_selected_activations():
    model = TwoDirections()
    (whole,) = [Batch(inputs={"tokens": torch.tensor([[0, 1], [2, 3]])})]
    with torch.no_grad():
        states = model.tokens[whole.inputs["tokens"]] + model.positions
    plain = search(model, [whole], steps=1)
    assert torch.allclose(plain.core.mean, states.flatten(0, 1).mean(0))
    weighted = Batch(inputs=whole.inputs, weights=torch.tensor([0.75, 0.25]))
    last = search(model, [weighted], steps=1, positions="last")
    assert torch.allclose(last.core.mean, 0.75 * states[0, 1] + 0.25 * states[1, 1])
    assert (plain.core.provenance.num_samples, last.core.provenance.num_samples) == (4, 2)


def test_on_a_trained_model_it_keeps_as_well_as_the_core(trained: Trained):
    fit = trained.task.batches(192, batch_size=64, seed=1, pool="train")
    core = extract_core(trained.model, fit, site=SITE, positions="all", rank=3)
    das = distributed_alignment_search(trained.model, fit, site=SITE, rank=3, positions="all", steps=150, generator=generator())
    heldout = trained.task.batches(128, batch_size=64, seed=2, pool="heldout")
    effects = validate_core(
        core, trained.model, heldout, metrics=(cross_entropy(),), controls={"das": [das.core]}, edits=("keep", "remove")
    )
    full, mean = (effects["model", edit, "cross_entropy"].value for edit in ("full", "mean"))
    kept = effects["das", "keep", "cross_entropy"].value
    assert kept - full < 0.03 * (mean - full)
    assert kept - effects["core", "keep", "cross_entropy"].value < 0.02 * (mean - full)
    assert "das" in effects.table()
    assert (das.score.unit, das.score.num) == ("nats", 192 * 8)


def test_equal_seeds_give_equal_cores_and_nothing_of_the_model_changes(trained: Trained):
    batches = list(trained.task.batches(32, batch_size=32, seed=1, pool="train"))
    before = {name: value.clone() for name, value in trained.model.state_dict().items()}
    modes = [parameter.requires_grad for parameter in trained.model.parameters()]
    trained.model.train()
    try:
        first, again, other = (
            search(trained.model, batches, site=SITE, steps=3, generator=generator(seed)) for seed in (0, 0, 1)
        )
        assert trained.model.training
    finally:
        trained.model.eval()
    assert torch.equal(first.core.write, again.core.write)
    assert not torch.allclose(first.core.write, other.core.write)
    assert all(torch.equal(value, before[name]) for name, value in trained.model.state_dict().items())
    assert [parameter.requires_grad for parameter in trained.model.parameters()] == modes
    assert all(parameter.grad is None for parameter in trained.model.parameters())


def test_it_optimises_also_where_the_caller_wants_no_gradients():
    model = TwoDirections()
    plain = search(model, model.batches(), steps=3)
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            assert torch.equal(search(model, model.batches(), steps=3).core.write, plain.core.write)


def test_another_objective_needs_fewer_directions():
    model = TwoDirections()
    # The margin of tokens 0 and 1 against 2 and 3 in sums reads one direction of the plane.
    found = search(model, model.batches(), rank=1, objective=margin(positive=[0, 1], negative=[2, 3], reduce="sum"))
    assert found.score.value < 1e-2
    assert found.core.provenance.objective.startswith("margin[0,1 - 2,3; sum]")
    assert found.score.unit == "squared change"


def test_it_is_saved_like_any_core(tmp_path: Path):
    model = TwoDirections()
    found = search(model, model.batches(), steps=2)
    found.core.save(tmp_path / "das.safetensors")
    loaded = load_core(tmp_path / "das.safetensors")
    assert torch.equal(loaded.write, found.core.write)
    assert loaded.provenance == found.core.provenance
    assert (loaded.provenance.projection, loaded.provenance.rank_rule) == ("das", "given; 2 steps of Adam")


def test_messages():
    model = TwoDirections()
    with pytest.raises(ConfigError, match="0 steps of optimisation; expected at least 1; leave steps at its default"):
        search(model, model.batches(), steps=0)
    with pytest.raises(RankError, match="rank 11 at 'module:site'; expected 1 to 10, the site's dimension; use the core's rank"):
        search(model, model.batches(), rank=11)
    with pytest.raises(UnknownNameError, match=r"module:sites"):
        search(model, model.batches(), site="module:sites")
