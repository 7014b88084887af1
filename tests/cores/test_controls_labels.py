"""Controls that know the labels: the class means, and the projector after which no linear classifier beats chance."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from sklearn.linear_model import LogisticRegression

from cores.hand_made import TwoDirections, generator, orthogonal
from invariscope.batch import Batch
from invariscope.cores import Core, Moments, Provenance, collect_moments
from invariscope.cores.controls import ALL_CONTROLS, CONTROLS, fill_up
from invariscope.errors import ConfigError, RankError, ShapeError
from invariscope.numerics.subspaces import principal_angles

NUM, DIM, CLASSES = 6000, 6, 3


def draw(seed: int, num: int = NUM) -> tuple[torch.Tensor, torch.Tensor]:
    """Three overlapping classes in six correlated dimensions."""
    source = generator(seed)
    labels = torch.randint(0, CLASSES, (num,), generator=source)
    means = 2.0 * torch.randn(CLASSES, DIM, dtype=torch.float64, generator=generator(100))
    scales = torch.tensor([3.0, 2.0, 1.0, 1.0, 0.5, 0.1], dtype=torch.float64)
    noise = torch.randn(num, DIM, dtype=torch.float64, generator=source) * scales @ orthogonal(DIM, 1)
    return means[labels] + noise + 5.0, labels


@pytest.fixture(scope="module")
def samples() -> tuple[torch.Tensor, torch.Tensor]:
    return draw(0)


@pytest.fixture(scope="module")
def moments(samples: tuple[torch.Tensor, torch.Tensor]) -> Moments:
    found = Moments(DIM, provenance=Provenance(site="here", positions="all"))
    found.update(samples[0], torch.randn(NUM, DIM, dtype=torch.float64, generator=generator(1)), labels=samples[1])
    return found


def control(moments: Moments, name: str, rank: int) -> Core:
    (core,) = moments.controls(rank, [name], generator=generator())[name]
    return core


def heldout_accuracy(core: Core, samples: tuple[torch.Tensor, torch.Tensor]) -> float:
    """Of a logistic regression on what the removal leaves, in the fitted samples and scored on others."""
    other, labels = draw(7)
    probe = LogisticRegression(C=1e4, max_iter=2000).fit(core.remove(samples[0]).numpy(), samples[1].numpy())
    return float(probe.score(core.remove(other).numpy(), labels.numpy()))


def test_mean_difference_spans_the_differences_of_class_means(moments: Moments, samples: tuple[torch.Tensor, torch.Tensor]):
    core = control(moments, "mean_difference", CLASSES - 1)
    means = torch.stack([samples[0][samples[1] == label].mean(0) for label in range(CLASSES)])
    assert float(principal_angles(core.write, (means[1:] - means[0]).T).max()) < 1e-9
    assert torch.allclose(core.write.T @ core.write, torch.eye(2).double(), atol=1e-12)
    assert torch.equal(core.read, core.write)
    left = core.remove(means)
    assert torch.allclose(left, left[:1].expand_as(left), atol=1e-9)  # the means cannot be told apart any more
    assert (core.provenance.projection, core.provenance.rank_rule) == ("mean_difference", "given")


def test_leace_is_the_closed_form(moments: Moments, samples: tuple[torch.Tensor, torch.Tensor]):
    x = samples[0] - samples[0].mean(0)
    z = torch.nn.functional.one_hot(samples[1]).double()
    covariance, cross = x.T @ x / NUM, x.T @ (z - z.mean(0)) / NUM
    values, vectors = torch.linalg.eigh(covariance)
    white, back = (vectors @ torch.diag(values**power) @ vectors.T for power in (-0.5, 0.5))
    inner = white @ cross
    projector = back @ inner @ torch.linalg.pinv(inner, rtol=1e-9) @ white
    core = control(moments, "leace", CLASSES - 1)
    assert torch.allclose(core.write @ core.read.T, projector, atol=1e-8)
    assert torch.allclose(core.read.T @ core.write, torch.eye(2).double(), atol=1e-10)
    assert float((core.read - core.write).abs().max()) > 0.1  # it is oblique


@pytest.mark.parametrize("rank", [CLASSES - 1, CLASSES + 1])
def test_after_leace_no_linear_classifier_beats_chance(moments: Moments, samples: tuple[torch.Tensor, torch.Tensor], rank: int):
    core = control(moments, "leace", rank)
    other, labels = draw(7)
    probe = LogisticRegression(C=1e4, max_iter=2000).fit(samples[0].numpy(), samples[1].numpy())
    chance = float(torch.bincount(labels).max()) / NUM
    assert float(probe.score(other.numpy(), labels.numpy())) > chance + 0.3
    assert heldout_accuracy(core, samples) < chance + 0.02
    assert torch.allclose(core.read.T @ core.write, torch.eye(rank).double(), atol=1e-9)


def test_leace_erases_where_some_directions_do_not_vary():
    rows, labels = draw(0, 400)
    wide = torch.cat([rows, rows[:, :2]], 1)  # eight dimensions, six of them independent
    moments = Moments(8)
    moments.update(wide, torch.ones(400, 8).double(), labels)
    core = control(moments, "leace", 2)
    left = core.remove(wide)
    means = torch.stack([left[labels == label].mean(0) for label in range(CLASSES)])
    assert torch.allclose(means, means[:1].expand_as(means), atol=1e-8)
    with pytest.raises(RankError, match="rank 7 where activations vary in 6 directions; expected at most 6; ask"):
        control(moments, "leace", 7)


@pytest.mark.parametrize("name", ["mean_difference", "leace"])
def test_other_ranks_are_filled_up_or_cut_and_say_so(moments: Moments, name: str):
    exact, wide, narrow = (control(moments, name, rank) for rank in (2, 4, 1))
    assert wide.provenance.rank_rule == "given: 2 directions of class means, filled up with 2 random directions"
    assert narrow.provenance.rank_rule == "given: the leading 1 of 2 directions of class means"
    assert torch.allclose(wide.write[:, :2], exact.write, atol=1e-10)
    assert torch.allclose(narrow.write, exact.write[:, :1], atol=1e-10)
    assert (wide.rank, narrow.rank) == (4, 1)
    first, again = (moments.controls(4, [name], generator=generator(seed))[name][0].write for seed in (3, 3))
    assert torch.equal(first, again)
    assert not torch.allclose(first, wide.write)


def test_labels_bring_all_five_controls_and_none_the_three(moments: Moments):
    assert tuple(moments.controls(2, generator=generator())) == ALL_CONTROLS
    bare = Moments(DIM)
    bare.update(*(torch.randn(20, DIM, generator=generator(seed)) for seed in (0, 1)))
    assert tuple(bare.controls(2, generator=generator())) == CONTROLS
    for name in ("mean_difference", "leace"):
        with pytest.raises(ConfigError) as caught:
            control(bare, name, 1)
        assert caught.value.given == f"the control '{name}' from samples of unknown classes"
        assert "pass labels= to Moments.update or Batch.labels to collect_moments" in caught.value.do


def test_one_class_is_no_label():
    moments = Moments(2)
    moments.update(torch.randn(9, 2, generator=generator()), torch.ones(9, 2), torch.zeros(9, dtype=torch.long))
    assert tuple(moments.controls(1, generator=generator())) == CONTROLS
    with pytest.raises(ConfigError, match="samples of 1 classes; expected at least two classes"):
        control(moments, "leace", 1)


def test_labels_survive_merging_and_saving(moments: Moments, samples: tuple[torch.Tensor, torch.Tensor], tmp_path: Path):
    jacobians = torch.randn(NUM, DIM, dtype=torch.float64, generator=generator(1))
    parts = [Moments(DIM, provenance=moments.provenance) for _ in range(2)]
    for part, rows in zip(parts, (slice(0, 1000), slice(1000, None)), strict=True):
        part.update(samples[0][rows], jacobians[rows], labels=samples[1][rows])
    merged = Moments.merge(parts)
    merged.save(tmp_path / "moments.safetensors")
    loaded = Moments.load(tmp_path / "moments.safetensors")
    for name in ("mean_difference", "leace"):
        expected = control(moments, name, 2)
        for other in (merged, loaded):
            found = control(other, name, 2)
            assert torch.allclose(found.write @ found.read.T, expected.write @ expected.read.T, atol=1e-9)


def test_moments_saved_without_labels_load(tmp_path: Path):
    bare = Moments(2)
    bare.update(torch.ones(3, 2), torch.ones(3, 2))
    bare.save(tmp_path / "moments.safetensors")
    assert Moments.load(tmp_path / "moments.safetensors").classes is None


def test_some_labels_are_refused_and_change_nothing(moments: Moments):
    found, rows = Moments(2), torch.randn(4, 2, generator=generator())
    found.update(rows, rows, labels=torch.tensor([0, 0, 1, 1]))
    with pytest.raises(ConfigError, match="with and without labels; expected labels for all samples or for none; pass"):
        found.update(rows, rows)
    with pytest.raises(ShapeError, match=r"labels of shape \[3\] for 4 activations"):
        found.update(rows, rows, labels=torch.tensor([0, 0, 1]))
    bare = Moments(2)
    bare.update(rows, rows)
    with pytest.raises(ConfigError, match="with and without labels"):
        bare.update(rows, rows, labels=torch.tensor([0, 0, 1, 1]))
    with pytest.raises(ConfigError, match="with and without labels"):
        Moments.merge([found, bare])
    assert (found.num_samples, bare.num_samples) == (4, 4)
    assert Moments.merge([found, Moments(2)]).classes is not None  # a worker that saw nothing has no say


def test_collect_moments_passes_the_labels_of_the_batches():
    model = TwoDirections()
    batches = [
        Batch(inputs=batch.inputs, labels=(batch.inputs["tokens"][:, 1] < 2).long(), weights=batch.weights)
        for batch in model.batches()
    ]
    moments = collect_moments(model, batches, sites=["module:site"], positions="last")["module:site"]
    core = control(moments, "mean_difference", 1)
    # The label is whether the first coordinate of the plane is positive.
    with torch.no_grad():
        codes = model.tokens
        expected = (codes[:2].mean(0) - codes[2:].mean(0))[:, None]
    assert float(principal_angles(core.write, expected).max()) < 1e-9
    assert moments.classes is not None
    assert moments.classes.weights.sum() == pytest.approx(1.0)


def test_filling_up_keeps_what_is_there_and_is_orthonormal():
    basis = orthogonal(7)[:, :2]
    filled = fill_up(basis, 5, generator())
    assert torch.equal(filled[:, :2], basis)
    assert torch.allclose(filled.T @ filled, torch.eye(5).double(), atol=1e-13)
    assert torch.equal(fill_up(basis, 1, generator()), basis[:, :1])
