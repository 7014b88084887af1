import ast
from pathlib import Path

import numpy as np
import pytest
import torch

import invariscope.numerics
from invariscope.errors import ConfigError, NonFiniteError, RankError, ShapeError, TooFewSamplesError
from invariscope.numerics import QRFactor, factored_svd, fit_cca, fit_operator, overlap
from invariscope.numerics.linalg import as_float64, centred_qr, check_weights, positive_qr


def normal(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def test_positive_qr_is_a_qr_with_one_sign():
    matrix = normal(3, 7, 4)
    q, r = positive_qr(matrix)
    assert torch.allclose(q @ r, matrix, atol=1e-12)
    assert torch.allclose(q.mT @ q, torch.eye(4, dtype=torch.float64).expand(3, 4, 4), atol=1e-12)
    assert (r.diagonal(dim1=-2, dim2=-1) > 0).all()
    # Column i of Q points along column i of the matrix.
    assert ((q * matrix).sum(-2) > 0).all()


def test_centred_qr_whitens():
    rows = normal(50, 3) * torch.tensor([1.0, 1e-6, 1e4]) + 100
    mean, q, r = centred_qr("rows", rows)
    assert torch.allclose(mean, rows.mean(0))
    assert torch.allclose(q @ r, rows - mean, atol=1e-10)
    assert torch.allclose(q.sum(0), torch.zeros(3, dtype=torch.float64), atol=1e-8)


@pytest.mark.parametrize(
    ("columns", "named"),
    [
        (lambda x: torch.stack([x[:, 0], x[:, 1], x[:, 0] + 2 * x[:, 1]], 1), "column 2"),
        (lambda x: torch.stack([x[:, 0], torch.full((40,), 3.3, dtype=torch.float64), x[:, 1]], 1), "column 1"),
        (lambda x: torch.stack([x[:, 0], x[:, 1], 3 * x[:, 0] - 7], 1), "column 2"),
    ],
    ids=["combination", "constant", "affine"],
)
def test_centred_qr_names_the_dependent_column(columns, named):
    with pytest.raises(RankError, match=rf"codes of shape \[40, 3\], whose {named}.*expected 3 independent.*are 2; ask"):
        centred_qr("codes", columns(normal(40, 3)))


def test_centred_qr_takes_what_is_merely_badly_scaled():
    rows = normal(100, 2)
    rows[:, 1] = rows[:, 0] + 1e-7 * rows[:, 1]
    assert len(centred_qr("codes", rows)[0]) == 2


def test_too_few_rows_to_whiten():
    with pytest.raises(TooFewSamplesError, match=r"z with 3 rows of dimension 3; expected at least 4 rows.*give more"):
        centred_qr("z", normal(3, 3))


def test_as_float64_checks_what_it_is():
    assert as_float64("x", torch.ones(2, dtype=torch.bfloat16), ndim=1).dtype == torch.float64
    assert not as_float64("x", torch.ones(2, requires_grad=True), ndim=1).requires_grad
    with pytest.raises(ShapeError, match=r"x of type ndarray; expected a torch.Tensor; pass torch.as_tensor\(x\)"):
        as_float64("x", np.ones(3), ndim=1)
    with pytest.raises(ShapeError, match=r"x of shape \[2, 2\]; expected 1 axis; flatten"):
        as_float64("x", torch.ones(2, 2), ndim=1)
    with pytest.raises(NonFiniteError, match=r"x of shape \[2\].*first at \[1\].*finite numbers"):
        as_float64("x", torch.tensor([1.0, float("nan")]), ndim=1)


def test_weights_are_checked():
    with pytest.raises(ConfigError, match=r"smallest is -0.5; expected non-negative weights; give rows"):
        check_weights(torch.tensor([1.0, -0.5]), 2)
    with pytest.raises(ShapeError, match="2 weights for 3 rows; expected one weight a row; give"):
        check_weights(torch.ones(2), 3)


def test_autocast_changes_no_number():
    a, b = normal(200, 3).float(), normal(200, 3, seed=1).float()

    def measure():
        factor = QRFactor(3, centred=True)
        factor.update(a)
        sigma = factored_svd(factor.factor(), factor.factor())[1]
        return [
            *sigma.tolist(),
            *fit_cca(a, b).score(a, b).tolist(),
            *fit_operator(a, b).predict(a).flatten().tolist(),
            overlap(a, b),
        ]

    plain = measure()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert measure() == plain


def test_scikit_learn_is_not_used():
    for path in Path(invariscope.numerics.__file__).parent.glob("*.py"):
        imported = {
            name
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Import | ast.ImportFrom)
            for name in ([alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""])
        }
        assert not any(name.startswith("sklearn") for name in imported), path


def test_the_package_lists_its_names():
    names = invariscope.numerics.__all__
    assert sorted(names) == names
    assert all(hasattr(invariscope.numerics, name) for name in names)
