"""What a measurement leaves behind in a model: nothing, also when it fails in the middle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from cores.hand_made import generator, random_core
from invariscope.cores import (
    by_sufficiency,
    collect_moments,
    core_coordinates,
    cross_entropy,
    extract_core,
    identify_operator,
    rank_curve,
    transplant,
    validate_core,
)
from invariscope.models import Transformer, TransformerConfig
from invariscope.positions import Rows
from invariscope.tasks import MarkovChain

MID = "blocks.0.resid_mid"
TASK = MarkovChain.named("four_real", 4)
BATCHES = TASK.batches(60, batch_size=30, seed=0)
CORE = random_core(8, 2, site=MID, positions="all", outputs_at="all")


class Failing(cross_entropy):
    """A metric that breaks on its third call."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def __call__(self, logits: Tensor, rows: Rows) -> Tensor:
        self.calls += 1
        if self.calls == 3:
            raise ZeroDivisionError("the third call")
        return super().__call__(logits, rows)


def model() -> Transformer:
    """In training mode, some weights frozen, one of the user's hooks on it, a gradient of the user's in place."""
    config = TransformerConfig(vocab_size=4, context_length=4, width=8, num_heads=2, mlp_width=8)
    net = Transformer(config, generator=generator()).train()
    net.blocks.eval()
    net.token_embedding.requires_grad_(False)
    net.unembedding.weight.grad = torch.ones_like(net.unembedding.weight)
    return net


def state(net: nn.Module) -> list[Any]:
    hooks = [
        (name, tuple(module._forward_hooks), tuple(module._forward_pre_hooks), tuple(module._backward_hooks), module.training)
        for name, module in net.named_modules()
    ]
    weights = [
        (name, p.requires_grad, p.detach().clone().flatten().tolist(), None if p.grad is None else p.grad.sum().item())
        for name, p in net.named_parameters()
    ]
    return [hooks, weights, torch.get_rng_state().tolist(), torch.is_grad_enabled()]


def do_transplant(net: nn.Module, metric: Any = None) -> None:
    transplant(CORE, net, CORE, net, BATCHES, metric=metric)


def do_curve(net: nn.Module, metric: Any = None) -> None:
    rank_curve(collect_moments(net, BATCHES, sites=[MID], positions="all")[MID], net, BATCHES, metric=metric, positions="all")


MEASUREMENTS: dict[str, Callable[[nn.Module], object]] = {
    "extract": lambda net: extract_core(net, BATCHES, site=MID, positions="all", rank=2),
    "sketch": lambda net: collect_moments(net, BATCHES, sites=[MID, "logits"], sketch=2),
    "curve": do_curve,
    "validate": lambda net: validate_core(CORE, net, BATCHES, controls={"random": [CORE]}),
    "coordinates": lambda net: core_coordinates(CORE, net, BATCHES),
    "identify": lambda net: identify_operator(CORE, net, TASK, BATCHES, coordinates="law", num_bootstrap=5),
    "transplant": do_transplant,
}
FAILURES: dict[str, Callable[[nn.Module], object]] = {
    "extract": lambda net: extract_core(net, BATCHES, site=MID, positions="all", rank=by_sufficiency(0.1, metric=Failing())),
    "curve": lambda net: do_curve(net, Failing()),
    "validate": lambda net: validate_core(CORE, net, BATCHES, metrics=(Failing(),)),
    "transplant": lambda net: do_transplant(net, Failing()),
}


@pytest.mark.parametrize("name", MEASUREMENTS)
def test_a_measurement_leaves_the_model_as_it_was_and_a_users_hook_fires(name: str):
    net = model()
    fired: list[int] = []
    handle = net.blocks[0].get_submodule("resid_mid").register_forward_hook(lambda *_: fired.append(1))
    before = state(net)
    MEASUREMENTS[name](net)
    assert state(net) == before
    assert len(fired) >= 2
    handle.remove()


@pytest.mark.parametrize("name", FAILURES)
def test_a_metric_that_raises_leaves_the_model_as_it_was(name: str):
    net = model()
    before = state(net)
    with pytest.raises(ZeroDivisionError, match="the third call"):
        FAILURES[name](net)
    assert state(net) == before


@pytest.mark.parametrize("name", ["extract", "validate", "coordinates"])
def test_a_model_that_raises_leaves_no_hook(name: str):
    net = model()
    net.unembedding.register_forward_hook(lambda *_: 1 / 0)
    before = state(net)
    with pytest.raises(ZeroDivisionError):
        MEASUREMENTS[name](net)
    assert state(net) == before


def test_measuring_inside_no_grad_works_and_stays_inside():
    net = model()
    with torch.no_grad():
        core = extract_core(net, BATCHES, site=MID, positions="all", rank=2)
        assert not torch.is_grad_enabled()
    assert not core.read.requires_grad
    assert torch.equal(core.read, extract_core(net, BATCHES, site=MID, positions="all", rank=2).read)
