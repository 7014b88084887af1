"""site_gradients: Jacobians against central differences and torch.func, for every reach and choice of positions."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from invariscope.batch import Batch
from invariscope.positions import Positions, select_positions
from invariscope.sites import Objective, logits, margin, resolve_sketch, site_gradients
from sites.toys import HuggingFaceLike, Pooled, padded, seeded, small_transformer, tokens_of

MODELS: dict[str, dict[str, Any]] = {
    "one layer": {"num_layers": 1},
    "two layers": {"norm": "pre", "final_norm": True, "attention_bias": True, "mlp_bias": True, "unembedding_bias": True},
    "relu, not causal": {"causal": False, "activation": "relu"},
}
SITES = ("embed", "blocks.0.attn_out", "blocks.0.resid_mid", "blocks.0.mlp_pre", "final_norm", "logits")
MASK = torch.tensor([[0, 1, 0, 1, 0], [0, 0, 0, 0, 1], [1, 1, 0, 0, 1]], dtype=torch.bool)


def sites_of(name: str) -> tuple[str, ...]:
    return SITES if name == "one layer" else (*SITES, "blocks.1.resid_pre", "blocks.1.resid_mid", "blocks.1.mlp_out")


def tokens_batch(**parts: Any) -> Batch:
    return Batch(inputs={"tokens": tokens_of()}, **parts)


def with_shift(model: nn.Module, site: str, shift: Tensor, inputs: dict[str, Tensor]) -> Tensor:
    """Logits [B, T, V] where ``shift`` is added at the site, by a hook of PyTorch's own."""
    handle = model.get_submodule(site).register_forward_hook(lambda m, i, out: out + shift)
    out = model(**inputs)
    handle.remove()
    return getattr(out, "logits", out)


@functools.cache
def full_jacobian(name: str, site: str) -> Tensor:
    """d log p(b, t, k) / d h(b, s, d) as [B, T, K, S, D], by central differences."""
    model, step, inputs = small_transformer(**MODELS[name]), 1e-5, {"tokens": tokens_of()}
    with torch.no_grad():
        seen: list[Tensor] = []
        handle = model.get_submodule(site).register_forward_hook(lambda m, i, out: seen.append(out))
        model(**inputs)
        handle.remove()
        shape = seen[0].shape
        columns = []
        for s in range(shape[1]):
            for d in range(shape[2]):
                shift = torch.zeros(shape, dtype=torch.float64)
                shift[:, s, d] = step
                up, down = (with_shift(model, site, sign * shift, inputs).log_softmax(-1) for sign in (1, -1))
                columns.append((up - down) / (2 * step))
    return torch.stack(columns, -1).unflatten(-1, shape[1:])


def expected_rows(full: Tensor, positions: Positions, outputs_at: Positions | None, reach: str) -> Tensor:
    """What the contract says, read from the full Jacobian: [n, K, D]."""
    index = select_positions(positions, shape=(3, 5)).tolist()
    outputs = index if outputs_at is None else select_positions(outputs_at, shape=(3, 5)).tolist()
    rows = []
    for b, s in index:
        own = [t for row, t in outputs if row == b]
        if reach == "same" and outputs == index:
            own = [s]
        rows.append(sum((full[b, t, :, s] for t in own), torch.zeros(full.shape[2], full.shape[4], dtype=torch.float64)))
    return torch.stack(rows)


CHOICES: dict[str, dict[str, Any]] = {
    "last": {"positions": "last"},
    "an index": {"positions": 2},
    "all, same": {"positions": "all"},
    "all, same, said twice": {"positions": "all", "outputs_at": slice(0, None)},
    "all, later": {"positions": "all", "reach": "later"},
    "slice, same": {"positions": slice(1, 4)},
    "slice, later": {"positions": slice(1, 4), "reach": "later"},
    "mask, same": {"positions": MASK},
    "mask, later": {"positions": MASK, "reach": "later"},
    "all to last, same": {"positions": "all", "outputs_at": "last"},
    "all to last, later": {"positions": "all", "outputs_at": "last", "reach": "later"},
    "first to all, later": {"positions": 0, "outputs_at": "all", "reach": "later"},
    "last to first": {"positions": "last", "outputs_at": 0},
}


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("name", MODELS)
def test_jacobians_at_several_sites_at_once_are_those_of_central_differences(name: str, choice: str) -> None:
    arguments = {"outputs_at": None, "reach": "same"} | CHOICES[choice]
    model = small_transformer(**MODELS[name])
    found = site_gradients(model, tokens_batch(), sites=sites_of(name), objective=logits(), **arguments)
    assert tuple(found) == sites_of(name)
    for site in sites_of(name):
        full = full_jacobian(name, site)
        expected = expected_rows(full, **arguments)
        assert found[site].jacobians.shape == expected.shape
        error = float((found[site].jacobians - expected).abs().max()) / max(1.0, float(expected.abs().max()))
        assert error <= 1e-4, site
        # Central differences are good to far more than the mark in float64: a loose mark would hide a small mistake.
        assert error <= 1e-7, site


@pytest.mark.parametrize(
    "objective", [logits([3, 1]), logits(normalise="centred"), margin(positive=[0, 2], negative=[4])], ids=lambda o: o.name
)
def test_jacobians_are_those_of_torch_func(objective: Objective) -> None:
    model, site = small_transformer(**MODELS["two layers"]), "blocks.0.resid_post"

    def rows(shift: Tensor) -> Tensor:
        out = with_shift(model, site, shift, {"tokens": tokens_of()})
        return objective(out.flatten(0, 1), None).unflatten(0, (3, 5))  # pyright: ignore[reportArgumentType]

    full: Any = torch.func.jacrev(rows)(torch.zeros(3, 5, 6, dtype=torch.float64))  # [B, T, K, B, S, D]
    own = torch.stack([full[b, :, :, b] for b in range(3)]).detach()
    for reach in ("same", "later"):
        found = site_gradients(model, tokens_batch(), sites=[site], objective=objective, positions="all", reach=reach)[site]
        torch.testing.assert_close(found.jacobians, expected_rows(own, "all", None, reach), rtol=0, atol=1e-10)


def test_one_pass_for_all_tokens_where_nothing_above_mixes_them_is_the_slow_loop() -> None:
    model = small_transformer(**MODELS["two layers"])
    names = ("blocks.1.attn_out", "blocks.1.resid_mid", "blocks.1.mlp_post", "blocks.1.resid_post", "final_norm", "logits")
    # A place named by its module is not known to be local: it takes the loop.
    slow = tuple(f"module:{name}" for name in names)
    passes: dict[tuple[str, ...], int] = {}
    found = {}
    for sites in (names, slow):
        found[sites], passes[sites] = counting_passes(
            lambda sites=sites: site_gradients(model, tokens_batch(), sites=sites, objective=logits(), positions="all")
        )
    assert (passes[names], passes[slow]) == (5, 25)
    for fast_name, slow_name in zip(names, slow, strict=True):
        fast, loop = found[names][fast_name], found[slow][slow_name]
        torch.testing.assert_close(fast.jacobians, loop.jacobians, rtol=0, atol=1e-13)
        assert torch.equal(fast.activations, loop.activations)


def counting_passes(function: Callable[[], Any]) -> tuple[Any, int]:
    real, count = torch.autograd.grad, [0]

    def counted(*args: Any, **kwargs: Any) -> Any:
        count[0] += 1
        return real(*args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.autograd, "grad", counted)
        return function(), count[0]


def test_mixing_and_local_sites_together_take_both_and_agree_with_each_alone() -> None:
    model, sites = small_transformer(), ("embed", "blocks.1.resid_post")
    together, passes = counting_passes(
        lambda: site_gradients(model, tokens_batch(), sites=sites, objective=logits([0, 1]), positions="all")
    )
    assert passes == 2 * (1 + 5)
    for site in sites:
        alone = site_gradients(model, tokens_batch(), sites=site, objective=logits([0, 1]), positions="all")
        assert torch.equal(together[site].jacobians, alone[site].jacobians)


def test_activations_are_those_that_a_plain_hook_sees_and_the_output_is_not_disturbed() -> None:
    model = small_transformer()
    found = site_gradients(model, tokens_batch(), sites=["blocks.0.resid_mid", "logits"], objective=logits(), positions=MASK)
    assert torch.equal(found["logits"].activations, model(tokens_of())[MASK])
    assert not found["logits"].activations.requires_grad
    assert not found["logits"].jacobians.requires_grad


# --- padding, other models


SEQUENCES = [[1, 2], [3, 4, 5], [6, 7, 1, 2]]


@pytest.mark.parametrize(
    "arguments",
    [
        {"positions": "last"},
        {"positions": "all"},
        {"positions": "all", "reach": "later"},
        {"positions": slice(0, -1), "outputs_at": "last"},
        {"positions": 1, "outputs_at": "all", "reach": "later"},
    ],
    ids=str,
)
def test_padding_on_either_side_changes_nothing(arguments: dict[str, Any]) -> None:
    model, sites = HuggingFaceLike(), ["module:mixed", "module:after"]
    call = functools.partial(site_gradients, model, sites=sites, objective=logits([1, 5]), **arguments)
    alone = [call(Batch(inputs={"input_ids": torch.tensor([sequence])})) for sequence in SEQUENCES]
    for side in ("left", "right"):
        found = call(Batch(inputs=padded(SEQUENCES, side)))
        for site in sites:
            for name in ("activations", "jacobians"):
                expected = torch.cat([getattr(one[site], name) for one in alone])
                torch.testing.assert_close(getattr(found[site], name), expected, rtol=0, atol=1e-12)
        assert found[sites[0]].rows.t.tolist() == [t for one in alone for t in one[sites[0]].rows.t.tolist()]


def test_models_with_one_vector_and_one_answer_a_sequence() -> None:
    model, x = Pooled(), torch.arange(24.0, dtype=torch.float64).reshape(2, 3, 4) / 7
    arguments = {"objective": logits(normalise="centred"), "positions": "last"}
    found = site_gradients(model, Batch(inputs={"x": x}), sites=["module:pool", "module:head"], **arguments)
    centring = torch.eye(4, dtype=torch.float64) - 0.25
    torch.testing.assert_close(found["module:pool"].jacobians, centring * (2 * x.mean(1))[:, None])
    torch.testing.assert_close(found["module:head"].jacobians, centring.expand(2, 4, 4))
    assert torch.equal(found["module:pool"].activations, x.mean(1))


def test_logits_may_be_anywhere_in_the_output() -> None:
    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.part = nn.Identity()

        def forward(self, x: Tensor) -> dict[str, Tensor]:
            return {"scores": self.part(x) * 3}

    batch = Batch(inputs={"x": torch.ones(2, 4, 3)})
    found = site_gradients(
        Own(),
        batch,
        sites="module:part",
        objective=logits(normalise="centred"),
        positions="last",
        logits_of=lambda output: output["scores"],
    )
    torch.testing.assert_close(found["module:part"].jacobians, (3 * torch.eye(3) - 1).expand(2, 3, 3))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_low_precision_gives_its_own_type_close_to_the_exact_numbers(dtype: torch.dtype) -> None:
    sites, call = ["blocks.0.resid_mid", "final_norm"], functools.partial(site_gradients, objective=logits(), positions="all")
    exact = call(small_transformer(), tokens_batch(), sites=sites)
    low = call(small_transformer(dtype), tokens_batch(), sites=sites)
    for site in sites:
        assert low[site].activations.dtype == low[site].jacobians.dtype == dtype
        error = low[site].jacobians.double() - exact[site].jacobians
        assert float(error.norm() / exact[site].jacobians.norm()) < (0.05 if dtype == torch.bfloat16 else 0.01)


# --- sketches


def gram(jacobians: Tensor) -> Tensor:
    return torch.einsum("nkd,nke->de", jacobians, jacobians)


def test_a_sketch_has_the_exact_gram_in_expectation() -> None:
    model, site = small_transformer(), "blocks.0.resid_mid"

    def mean_gram(copies: int, **arguments: Any) -> Tensor:
        batch = Batch(inputs={"tokens": tokens_of().repeat(copies, 1)})
        found = site_gradients(model, batch, sites=site, objective=logits(), positions="last", **arguments)[site].jacobians
        assert found.shape == (3 * copies, arguments.get("sketch", 5), 6)
        return gram(found) / copies

    exact = mean_gram(1)
    for num_signs in (1, 4, 16):
        few, many = (
            torch.stack([mean_gram(copies, sketch=num_signs, generator=seeded(seed)) - exact for seed in range(4)])
            for copies in (4, 1600 // num_signs)
        )
        relative = [float(errors.flatten(1).norm(dim=1).mean() / exact.norm()) for errors in (few, many)]
        assert relative[1] < 0.06, "scaled wrong, or biased"
        assert relative[1] < relative[0]
        assert float(many.mean(0).norm() / exact.norm()) < 0.03


def test_a_sketch_row_is_a_combination_of_the_exact_rows_with_signs() -> None:
    model, site = small_transformer(), "blocks.0.resid_mid"
    call = functools.partial(site_gradients, model, tokens_batch(), sites=site, objective=logits([0, 2]), positions="all")
    exact, found = call(sketch=None)[site].jacobians, call(sketch=9, generator=seeded(0))[site].jacobians
    signs = torch.tensor([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]], dtype=torch.float64)
    possible = torch.einsum("sk,nkd->nsd", signs, exact) / 3
    distance = (found[:, :, None] - possible[:, None]).norm(dim=-1).amin(-1)
    assert float(distance.max()) < 1e-12


def test_equal_generators_give_equal_sketches() -> None:
    model, site = small_transformer(), "embed"
    call = functools.partial(site_gradients, model, tokens_batch(), sites=site, objective=logits(), positions="all", sketch=3)
    a, b, c = (call(generator=seeded(seed))[site].jacobians for seed in (1, 1, 2))
    assert torch.equal(a, b)
    assert not torch.equal(a, c)


def test_more_than_32_outputs_are_sketched_unless_said() -> None:
    assert [resolve_sketch("auto", k) for k in (1, 32, 33, 50_000)] == [None, None, 16, 16]
    assert resolve_sketch(None, 50_000) is None
    assert resolve_sketch(3, 2) == 3
    model = small_transformer(num_outputs=33)
    call = functools.partial(site_gradients, model, tokens_batch(), sites="embed", objective=logits(), positions="last")
    assert call(generator=seeded())["embed"].jacobians.shape == (3, 16, 6)
    assert call(sketch=None)["embed"].jacobians.shape == (3, 33, 6)
