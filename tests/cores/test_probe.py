"""Linear probes: they read what is there, are printed beside the core, and are not what the model uses."""

from __future__ import annotations

import pytest
import torch
from sklearn.linear_model import LogisticRegression

from cores.conftest import SITE, Trained
from cores.hand_made import Through, generator, orthogonal
from invariscope.batch import Batch
from invariscope.cores import Baseline, extract_core, linear_probe_core, validate_core
from invariscope.cores.probe import probe_weights
from invariscope.errors import ObjectiveError, RankError, TooFewSamplesError, UnknownNameError
from invariscope.numerics.subspaces import principal_angles


def planted(num: int = 600) -> tuple[Through, list[Batch]]:
    """Three answers that differ along two axes of five; the readout looks elsewhere."""
    source = generator()
    answers = torch.randint(0, 3, (num,), generator=source)
    corners = 3.0 * torch.tensor([[1.0, 0.0], [-1.0, 1.0], [0.0, -1.0]], dtype=torch.float64)
    states = torch.randn(num, 1, 5, dtype=torch.float64, generator=source)
    states[:, 0, :2] += corners[answers]
    turn = orthogonal(5)
    batches = [
        Batch(inputs={"states": s}, targets=y[:, None], labels=(y > 0).long())
        for s, y in zip((states @ turn).split(100), answers.split(100), strict=True)
    ]
    return Through(turn.T[:, 2:].clone()), batches


def fitted(model: torch.nn.Module, batches: list[Batch], **options: object) -> Baseline:
    chosen = {"site": "module:site", "rank": 2, "generator": generator()} | options
    return linear_probe_core(model, batches, **chosen)  # pyright: ignore[reportArgumentType]  # options by name


def test_it_reads_the_planted_directions_and_says_how_well():
    model, batches = planted(2000)
    found = fitted(model, batches)
    assert float(principal_angles(found.core.write, orthogonal(5)[:2].T).max()) < 0.25
    assert found.score.value > 0.9
    assert found.score.chance is not None
    assert 0.3 < found.score.chance < 0.5
    assert found.score.num == 400
    assert found.cpu_seconds > 0
    assert found.steps > 0
    assert (found.core.provenance.projection, found.core.provenance.rank_rule) == ("probe", "given")
    assert found.core.provenance.num_samples == 1600


def test_weights_are_scikit_learns_on_standardised_columns():
    _, batches = planted(300)
    rows, answers = (
        torch.cat([b.inputs["states"][:, 0] for b in batches]),
        torch.cat([b.labels for b in batches if b.labels is not None]),
    )
    weights, predict, _ = probe_weights(rows, answers)
    scale = rows.std(0)
    fit = LogisticRegression(max_iter=1000).fit(((rows - rows.mean(0)) / scale).numpy(), answers.numpy())
    assert torch.allclose(weights[1] - weights[0], torch.from_numpy(fit.coef_)[0] / scale, atol=1e-8)
    assert torch.allclose(weights.sum(0), torch.zeros(5).double(), atol=1e-12)
    assert float((predict(rows) == answers).double().mean()) == pytest.approx(
        fit.score(((rows - rows.mean(0)) / scale).numpy(), answers.numpy())
    )


def test_what_can_be_read_need_not_be_used():
    model, batches = planted()
    probe = fitted(model, batches)
    core = extract_core(model, batches, site="module:site", rank=2)
    assert float(principal_angles(probe.core.write, core.read).min()) > 1.2  # nearly orthogonal


def test_labels_and_ranks_beyond_the_answers():
    model, batches = planted()
    found = fitted(model, batches, answers="labels", rank=2)
    assert found.core.provenance.rank_rule == "given: 1 directions of the probe, filled up with 1 random directions"
    assert found.core.provenance.objective == "logistic regression on labels"
    assert torch.allclose(found.core.write.T @ found.core.write, torch.eye(2).double(), atol=1e-12)


def test_a_probe_is_a_row_of_the_table(trained: Trained):
    fit = list(trained.task.batches(160, batch_size=40, seed=1, pool="train"))
    core = extract_core(trained.model, fit, site=SITE, positions="all", rank=3)
    probe = fitted(trained.model, fit, site=SITE, rank=3, positions="all")
    few = fitted(trained.model, fit, site=SITE, rank=3, positions="all", max_samples=200)
    assert (probe.core.provenance.num_samples, few.core.provenance.num_samples) == (1024, 160)
    heldout = trained.task.batches(64, batch_size=64, seed=2, pool="heldout")
    effects = validate_core(core, trained.model, heldout, controls={"probe": [probe.core]}, edits=("keep",))
    assert "probe" in effects.table()
    full, mean = (effects["model", edit, "cross_entropy"].value for edit in ("full", "mean"))
    assert full <= effects["core", "keep", "cross_entropy"].value < effects["probe", "keep", "cross_entropy"].value < mean


def test_messages():
    model, batches = planted(200)
    with pytest.raises(UnknownNameError, match=r"unknown answers 'label'; .*nearest: labels"):
        fitted(model, batches, answers="label")
    with pytest.raises(RankError, match="rank 6 at 'module:site'; expected 1 to 5"):
        fitted(model, batches, rank=6)
    bare = [Batch(inputs=batch.inputs) for batch in batches]
    with pytest.raises(ObjectiveError, match=r"a probe on batches without targets; expected Batch.targets; fill it, or pass"):
        fitted(model, bare)
    same = [Batch(inputs=batch.inputs, labels=torch.zeros(100, dtype=torch.long)) for batch in batches]
    with pytest.raises(TooFewSamplesError, match="all of one answer; expected at least two answers; give batches"):
        fitted(model, same, answers="labels")
    with pytest.raises(TooFewSamplesError, match="batches that are empty"):
        fitted(model, [])
