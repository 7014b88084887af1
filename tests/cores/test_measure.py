"""The one loop behind rank curves, effects and laws: rows in order, edits apart, nothing counted twice."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from cores.hand_made import Through, TwoDirections, generator, random_core
from invariscope.batch import Batch
from invariscope.cores import accuracy, cross_entropy
from invariscope.cores.measure import measure_edits, measure_law, site_rows
from invariscope.errors import ConfigError, ReiterableError, TooFewSamplesError, UnknownNameError

SITE = "module:site"


class Wrapped(nn.Module):
    """An output that is neither a tensor nor has logits."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, **inputs: Tensor) -> dict[str, Tensor]:
        return {"scores": self.inner(**inputs)}


def measure(model: nn.Module, batches: Any, edits: Any, metrics: Any = None, **more: Any) -> Any:
    metrics = metrics or (cross_entropy(),)
    return measure_edits(model, batches, edits, metrics, **({"site": SITE, "positions": "all", "outputs_at": "all"} | more))


def test_each_edit_is_the_models_own_computation_on_edited_activations():
    model = TwoDirections()
    core = random_core(10, 3)
    values, rows = measure(model, model.batches(), {"none": None, "keep": core.keep}, (cross_entropy(), accuracy()))
    assert rows.b.tolist() == [b for b in range(16) for _ in range(2)]
    assert rows.t.tolist() == [0, 1] * 16
    tokens = torch.cat([batch.inputs["tokens"] for batch in model.batches()])
    law = torch.cat([batch.probabilities for batch in model.batches() if batch.probabilities is not None]).flatten(0, 1)
    with torch.no_grad():
        h = (model.tokens[tokens] + model.positions).flatten(0, 1)
        for key, activations in (("none", h), ("keep", core.keep(h))):
            log_q = (activations @ model.readout).log_softmax(-1)
            assert torch.allclose(values[key, "cross_entropy"], -(law * log_q).sum(-1), atol=1e-12)
            best = law.gather(1, log_q.argmax(1, keepdim=True))[:, 0]
            assert torch.allclose(values[key, "accuracy"], best, atol=1e-6)
    assert all(column.dtype == torch.float64 for column in values.values())


def test_edit_and_output_may_stand_at_different_tokens():
    model = TwoDirections()
    values, rows = measure(model, model.batches(), {0: None, 1: torch.zeros_like}, positions=0, outputs_at="last")
    assert rows.t.tolist() == [1] * 16
    assert torch.equal(values[0, "cross_entropy"], values[1, "cross_entropy"])  # nothing here mixes tokens
    values, _ = measure(model, model.batches(), {0: None, 1: torch.zeros_like}, positions="last", outputs_at="last")
    assert float((values[0, "cross_entropy"] - values[1, "cross_entropy"]).abs().min()) > 0.01


def test_padding_is_neither_edited_nor_measured():
    states = torch.randn(2, 3, 4, dtype=torch.float64, generator=generator())
    valid = torch.tensor([[True, True, False], [False, True, True]])
    batch = Batch(inputs={"states": states}, targets=torch.zeros(2, 3).long(), valid=valid)
    seen: list[Tensor] = []

    def look(rows: Tensor) -> Tensor:
        seen.append(rows)
        return rows

    values, rows = measure(Through(torch.eye(4).double()), [batch], {"look": look})
    assert rows.t.tolist() == [0, 1, 0, 1]
    assert torch.equal(torch.cat(seen), states[valid])
    assert len(values["look", "cross_entropy"]) == 4


def test_two_metrics_of_one_name_are_refused():
    model = TwoDirections()
    with pytest.raises(ConfigError) as caught:
        measure(model, model.batches(), {0: None}, (cross_entropy(exact=True), cross_entropy(exact=False)))
    assert caught.value.given == "metrics called cross_entropy, cross_entropy"
    assert "a call of its own" in caught.value.do


def test_other_outputs_need_a_function():
    model = TwoDirections()
    wrapped = Wrapped(model)
    values, _ = measure(wrapped, model.batches(), {0: None}, site="module:inner.site", logits_of=lambda output: output["scores"])
    expected, _ = measure(model, model.batches(), {0: None})
    assert torch.equal(values[0, "cross_entropy"], expected[0, "cross_entropy"])


@pytest.mark.parametrize("batches", [[], ()])
def test_empty_batches_are_refused(batches: Any):
    model = TwoDirections()
    with pytest.raises(TooFewSamplesError, match=r"batches that are empty; expected at least one batch; pass task\.batches"):
        measure(model, batches, {0: None})
    with pytest.raises(TooFewSamplesError):
        site_rows(model, batches, lambda x: x, site=SITE, positions="all")


def test_generators_and_unknown_sites_are_refused():
    model = TwoDirections()
    with pytest.raises(ReiterableError):
        measure(model, iter(model.batches()), {0: None})
    with pytest.raises(UnknownNameError, match=r"unknown site 'module:sit'.*nearest: module:site"):
        measure(model, model.batches(), {0: torch.zeros_like}, site="module:sit")


def test_rows_of_a_site_are_numbered_over_all_batches():
    model = TwoDirections()
    found, rows = site_rows(model, model.batches(), lambda x: x[:, :1], site=SITE, positions="last")
    tokens = torch.cat([batch.inputs["tokens"] for batch in model.batches()])
    assert torch.equal(found, (model.tokens[tokens[:, 1]] + model.positions[1])[:, :1].detach())
    assert rows.b.tolist() == rows.groups.tolist() == list(range(16))


def test_the_law_read_from_a_core_is_that_of_the_kept_activations():
    model = TwoDirections()
    core = random_core(10, 2, site=SITE, positions="all", outputs_at="last")
    law, rows = measure_law(core, model, model.batches())
    tokens = torch.cat([batch.inputs["tokens"] for batch in model.batches()])
    with torch.no_grad():
        expected = (core.keep(model.tokens[tokens[:, 1]] + model.positions[1]) @ model.readout).softmax(-1)
    assert torch.allclose(law, expected, atol=1e-12)
    assert rows.t.tolist() == [1] * 16
