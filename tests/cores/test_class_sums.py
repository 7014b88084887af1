"""Class sums: the means of the classes, however the rows arrive."""

from __future__ import annotations

import pytest
import torch

from cores.hand_made import generator
from invariscope.cores.class_sums import ClassSums, check_labels
from invariscope.errors import ForeignFileError, ShapeError


def data(num: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    source = generator(seed)
    rows = torch.randn(num, 3, dtype=torch.float64, generator=source)
    return rows, torch.randint(-1, 3, (num,), generator=source), torch.rand(num, dtype=torch.float64, generator=source)


@pytest.mark.parametrize("weighted", [True, False])
def test_streamed_and_merged_as_in_one_pass(weighted: bool):
    rows, labels, weights = data(60)
    weight = weights if weighted else torch.ones(60).double()
    parts = [ClassSums(3) for _ in range(3)]
    for start in range(0, 60, 7):
        part = slice(start, start + 7)
        parts[start % 3].update(rows[part], labels[part], weights[part] if weighted else None)
    found = ClassSums.merge(parts)
    assert found.labels.tolist() == [-1, 0, 1, 2]
    for i, label in enumerate(found.labels):
        mine = labels == label
        assert float(found.weights[i]) == pytest.approx(float(weight[mine].sum()))
        expected = (weight[mine, None] * rows[mine]).sum(0) / weight[mine].sum()
        assert torch.allclose(found.means[i], expected, atol=1e-12)


def test_state_comes_back_and_foreign_states_do_not():
    sums = ClassSums(3)
    sums.update(*data(20)[:2], None)
    again = ClassSums.from_state(sums.state(), 3)
    assert torch.equal(again.means, sums.means)
    assert torch.equal(again.labels, sums.labels)
    with pytest.raises(ForeignFileError, match=r"expected labels \[C\], weights \[C\], sums \[C, 4\]; collect them again"):
        ClassSums.from_state(sums.state(), 4)
    with pytest.raises(ForeignFileError, match="class sums of shapes"):
        ClassSums.from_state({"labels": sums.labels}, 3)


def test_a_class_without_weight_is_not_counted():
    sums = ClassSums(1)
    sums.update(torch.ones(3, 1), torch.tensor([0, 1, 1]), torch.tensor([1.0, 0.0, 0.0]))
    assert (sums.num_classes, sums.means.flatten().tolist()) == (1, [1.0, 0.0])


def test_labels_are_whole_numbers_one_a_row():
    assert check_labels(torch.tensor([True, False]), 2).tolist() == [1, 0]
    with pytest.raises(ShapeError, match=r"float32 labels of shape \[2\] for 2 activations; expected whole numbers \[2\]; give"):
        check_labels(torch.ones(2), 2)
    with pytest.raises(ShapeError, match=r"int64 labels of shape \[3\] for 2 activations"):
        check_labels(torch.zeros(3, dtype=torch.long), 2)
