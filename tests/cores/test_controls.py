"""Controls: equal rank, from the same samples, each what its name says."""

from __future__ import annotations

import pytest
import torch
from sklearn.decomposition import PCA

from cores.hand_made import generator, orthogonal
from invariscope.cores import Moments, Provenance
from invariscope.errors import RankError, UnknownNameError
from invariscope.numerics.subspaces import principal_angles

SCALES = torch.tensor([3.0, 2.0, 1.0, 0.5, 0.1], dtype=torch.float64)


@pytest.fixture(scope="module")
def samples() -> tuple[torch.Tensor, torch.Tensor]:
    H = torch.randn(200, 5, dtype=torch.float64, generator=generator(0)) * SCALES @ orthogonal(5, 1) + 4.0
    J = torch.randn(200, 2, 5, dtype=torch.float64, generator=generator(1)) * SCALES.flip(0) @ orthogonal(5, 2) + 0.3
    return H, J


@pytest.fixture(scope="module")
def moments(samples: tuple[torch.Tensor, torch.Tensor]) -> Moments:
    found = Moments(5, provenance=Provenance(site="here", positions="all"))
    found.update(*samples)
    return found


def test_all_have_the_rank_and_are_orthonormal_about_the_same_mean(moments: Moments):
    controls = moments.controls(3, generator=generator(), num_random=4)
    assert {name: len(drawn) for name, drawn in controls.items()} == {"random": 4, "pca": 1, "gradient": 1}
    for name, drawn in controls.items():
        for core in drawn:
            assert core.rank == 3
            assert torch.allclose(core.write.T @ core.write, torch.eye(3).double(), atol=1e-12)
            assert torch.equal(core.read, core.write)
            assert torch.equal(core.mean, moments.mean)
            assert bool((core.write.gather(0, core.write.abs().argmax(0)[None]) > 0).all())
            assert (core.provenance.projection, core.provenance.site, core.provenance.num_samples) == (name, "here", 200)


def test_pca_is_scikit_learns(moments: Moments, samples: tuple[torch.Tensor, torch.Tensor]):
    (core,) = moments.controls(3, ["pca"], generator=generator())["pca"]
    fitted = PCA(n_components=3).fit(samples[0].numpy())
    directions = torch.from_numpy(fitted.components_).T
    assert torch.allclose((core.write * directions).sum(0).abs(), torch.ones(3).double(), atol=1e-10)
    variance = core.singular_values.square()[:3] / 199
    assert torch.allclose(variance, torch.from_numpy(fitted.explained_variance_), atol=1e-10)


def test_gradient_is_the_leading_eigenspace_of_the_jacobians_without_centring(
    moments: Moments, samples: tuple[torch.Tensor, torch.Tensor]
):
    (core,) = moments.controls(2, ["gradient"], generator=generator())["gradient"]
    J = samples[1].flatten(0, 1)
    values, directions = torch.linalg.eigh(J.T @ J)
    assert torch.allclose(core.singular_values.square(), values.flip(0), atol=1e-9)
    assert float(principal_angles(core.write, directions.flip(1)[:, :2]).max()) < 1e-10


def test_random_draws_follow_the_generator_and_nothing_else(moments: Moments):
    first, again, other = (
        [core.write for core in moments.controls(2, ["random"], generator=generator(seed))["random"]] for seed in (0, 0, 1)
    )
    assert len(first) == 8
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not torch.allclose(first[0], other[0])
    assert not torch.allclose(first[0], first[1])


def test_unknown_names_and_ranks_are_refused(moments: Moments):
    with pytest.raises(UnknownNameError, match=r"unknown control 'pcas'; .*nearest: pca"):
        moments.controls(2, ["pcas"], generator=generator())
    for rank in (0, 6):
        with pytest.raises(RankError, match=rf"controls of rank {rank}; expected 1 to 5, the site's dimension; use"):
            moments.controls(rank, generator=generator())
