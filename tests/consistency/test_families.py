"""Every family's sites against plain Hugging Face, on tiny random models: numbers, what an edit reaches, gradients."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from invariscope.batch import Batch, text_inputs
from invariscope.sites import (
    edit_site,
    language_parts,
    list_sites,
    margin,
    read_sites,
    resolve_site,
    site_gradients,
    verify_model,
)
from sites.toys import StopHereError, state_of
from tiny_language_models import FAMILIES, tiny_model

BLOCKS = range(3)


def prompts(*lengths: int) -> list[list[int]]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randint(1, 50, (length,), generator=generator).tolist() for length in lengths or (9, 6, 3, 1, 8)]


def inputs(side: Any = "left") -> dict[str, Tensor]:
    return text_inputs(prompts(), side=side)


def shift(seed: int = 3, size: int = 32) -> Tensor:
    return torch.randn(size, generator=torch.Generator().manual_seed(seed))


@torch.no_grad()
def logits_with(model: Any, site: str, function: Any) -> Tensor:
    given = inputs()
    with edit_site(model, site, function, positions="all"):
        return model(**given).logits[given["attention_mask"].bool()]


@pytest.fixture(params=FAMILIES)
def model(request: pytest.FixtureRequest) -> Any:
    return tiny_model(request.param)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("family", FAMILIES)
def test_sites_batches_and_edits_agree_with_plain_hugging_face(family: str, attention: str) -> None:
    if family == "gemma2" and attention == "sdpa":
        pytest.skip("transformers has no scaled-dot-product attention with the soft cap of gemma2")
    found = verify_model(tiny_model(family, attention=attention), prompts())
    assert found.worst <= 1e-5, found.table()
    assert found.ok, found.table()
    sums = [layer.by_site["sums", side] for layer in found.layers[:3] for side in ("left", "right")]
    assert max(sums) <= 1e-6


def test_every_family_has_every_site_but_the_middle_of_a_parallel_block(model: Any, request: pytest.FixtureRequest) -> None:
    sites = list_sites(model)
    family = request.node.callspec.params["model"]
    kinds = {"resid_pre", "attn_heads", "attn_out", "resid_mid", "mlp_pre", "mlp_post", "mlp_out", "resid_post"}
    kinds -= {"resid_mid"} if family == "gpt_neox" else set()
    kinds |= {"attn_pattern"} if model.config._attn_implementation == "eager" else set()
    assert set(sites) == {"embed", "final_norm", "logits"} | {f"blocks.{i}.{kind}" for i in BLOCKS for kind in kinds}
    with torch.no_grad(), read_sites(model, sites) as seen:
        model(**inputs())
    assert all(site in seen for site in sites)
    assert seen["blocks.1.attn_heads"].shape == (27, 4, 8)
    assert seen["blocks.1.mlp_pre"].shape == seen["blocks.1.mlp_post"].shape == (27, 128 if family == "gpt2" else 64)


def test_one_shift_reaches_the_same_from_wherever_it_enters_the_residual_stream(model: Any) -> None:
    one, here = shift(), logits_with(model, "blocks.1.resid_post", lambda rows: rows + shift())
    for other in ("blocks.2.resid_pre", "blocks.1.mlp_out"):
        assert logits_with(model, other, lambda rows: rows + one) == pytest.approx(here, abs=2e-5), other
    assert logits_with(model, "embed", lambda rows: rows + one) == pytest.approx(
        logits_with(model, "blocks.0.resid_pre", lambda rows: rows + one), abs=2e-5
    )
    if "blocks.1.resid_mid" in list_sites(model):
        middle = logits_with(model, "blocks.1.resid_mid", lambda rows: rows + one)
        assert middle == pytest.approx(logits_with(model, "blocks.1.attn_out", lambda rows: rows + one), abs=2e-5)
        assert not torch.allclose(middle, here, atol=1e-2)


def test_an_edit_of_the_middle_reaches_the_residual_stream_and_the_mlp(model: Any) -> None:
    if "blocks.1.resid_mid" not in list_sites(model):
        pytest.skip("both read the block's input")
    sites = ["blocks.1.resid_mid", "blocks.1.mlp_out", "blocks.1.resid_post"]
    with torch.no_grad():
        with read_sites(model, sites) as before:
            model(**inputs())
        with edit_site(model, sites[0], lambda rows: rows * 0.5 + shift(), positions="all"), read_sites(model, sites) as after:
            model(**inputs())
    middle, mlp, post = (after[site] for site in sites)
    assert torch.equal(middle, before[sites[0]] * 0.5 + shift())
    assert torch.equal(middle + mlp, post)
    assert not torch.allclose(mlp, before[sites[1]], atol=1e-3)


def test_the_middle_can_be_set_in_one_row_only(model: Any) -> None:
    if "blocks.1.resid_mid" not in list_sites(model):
        pytest.skip("both read the block's input")
    given = inputs()
    with torch.no_grad():
        clean = model(**given).logits
        with edit_site(model, "blocks.1.resid_mid", lambda rows: rows * 0, positions=2, valid=None) as report:
            given = {name: value[:3] for name, value in given.items()}
            edited = model(**given).logits
    # Rows of 9, 6 and 3 tokens: all that comes before token 2 of each is as before.
    assert report.num_positions == 3
    ordinal = given["attention_mask"].cumsum(1) - 1
    earlier = given["attention_mask"].bool() & (ordinal < 2)
    assert edited[earlier] == pytest.approx(clean[:3][earlier], abs=2e-5)
    assert not torch.allclose(edited[ordinal == 2], clean[:3][ordinal == 2], atol=1e-2)


def test_heads_are_patterns_times_values_in_the_models_own_order() -> None:
    for family, values in (("llama-grouped", "self_attn.v_proj"), ("gpt2", "attn.c_attn")):
        model = tiny_model(family, attention="eager")
        parts = language_parts(model)
        module = next(name for name, found in model.named_modules() if found is parts.blocks[1].get_submodule(values))
        tokens = {"input_ids": torch.tensor([[3, 4, 5, 6]])}
        sites = ["blocks.1.attn_pattern", "blocks.1.attn_heads", f"module:{module}"]
        with torch.no_grad(), read_sites(model, sites) as seen:
            model(**tokens)
        pattern, heads, projected = (seen[site] for site in sites)
        assert pattern.sum(-1) == pytest.approx(torch.ones(4, 4), abs=1e-5)
        assert torch.equal(pattern[1, :, 2:], torch.zeros(4, 2))
        per_head = projected[:, -32:].unflatten(1, (4, 8)) if family == "gpt2" else projected.unflatten(1, (2, 8))
        per_head = per_head if family == "gpt2" else per_head.repeat_interleave(2, dim=1)
        assert torch.einsum("qhk,khd->qhd", pattern, per_head) == pytest.approx(heads, abs=1e-5)


def test_an_edit_of_one_head_is_taken_over(model: Any) -> None:
    def without_head_one(rows: Tensor) -> Tensor:
        rows[:, 1] = 0
        return rows

    with torch.no_grad(), read_sites(model, ["blocks.1.attn_heads"]) as clean:
        model(**inputs())
    site = resolve_site(model, "blocks.1.attn_heads")
    name = next(name for name, module in model.named_modules() if module is site.module)
    with (
        torch.no_grad(),
        edit_site(model, "blocks.1.attn_heads", without_head_one),
        read_sites(model, f"module:{name}:in") as seen,
    ):
        model(**inputs())
    expected = clean["blocks.1.attn_heads"].clone()
    expected[:, 1] = 0
    assert torch.equal(seen[f"module:{name}:in"], expected.flatten(1))


def test_the_parts_compute_the_logits(model: Any) -> None:
    parts = language_parts(model)
    with torch.no_grad(), read_sites(model, ["blocks.2.resid_post", "final_norm"]) as seen:
        expected = model(**inputs()).logits[inputs()["attention_mask"].bool()]
    with torch.no_grad():
        normed = parts.final_norm(seen["blocks.2.resid_post"])
        found = parts.unembedding(normed)
    assert normed == pytest.approx(seen["final_norm"], abs=1e-5)
    found = found if parts.softcap is None else parts.softcap * torch.tanh(found / parts.softcap)
    assert found == pytest.approx(expected, abs=1e-5)
    assert len(parts.blocks) == 3
    assert (parts.softcap is not None) == (parts.model_type == "gemma2")


# float64 models whose norms and softmax are float32 inside: a wide stencil, since a narrow one would measure that rounding.
STENCIL = {-2: 1 / 12, -1: -2 / 3, 1: 2 / 3, 2: -1 / 12}
STEP = 0.05


def test_jacobians_are_finite_differences(model: Any) -> None:
    model = model.double()
    batch = Batch(inputs={"input_ids": torch.tensor(prompts(6, 6))})
    wanted = [f"blocks.1.{kind}" for kind in ("resid_post", "resid_mid", "attn_out", "mlp_out")]
    sites = [site for site in wanted if site in list_sites(model)]
    objective = margin(positive=[7, 9], negative=[3])
    found = site_gradients(model, batch, sites=sites, objective=objective, positions="last")
    generator = torch.Generator().manual_seed(4)
    for site in sites:
        jacobians = found[site].jacobians[:, 0]
        direction = torch.randn(jacobians.shape, generator=generator, dtype=torch.float64)
        direction /= direction.norm(dim=1, keepdim=True)
        slope = torch.zeros(2, dtype=torch.float64)
        for steps, weight in STENCIL.items():
            moved = direction * (steps * STEP)
            with (
                torch.no_grad(),
                edit_site(model, site, lambda rows, moved=moved: rows + moved, positions="last"),
            ):
                slope += weight / STEP * objective(model(**batch.inputs).logits[:, -1])[:, 0]
        error = (slope - (jacobians * direction).sum(1)).abs() / jacobians.norm(dim=1)
        assert error.max() <= 1e-4, site


def test_jacobians_of_a_padded_batch_are_those_of_each_prompt(model: Any) -> None:
    sites = [site for site in list_sites(model) if site.rsplit(".", 1)[-1] in ("resid_mid", "resid_post", "mlp_out")]
    objective = margin(positive=[7], negative=[3])
    alone = [
        site_gradients(model, Batch(inputs=text_inputs([prompt])), sites=sites, objective=objective, positions="last")
        for prompt in prompts()
    ]
    for side in ("left", "right"):
        batch = Batch(inputs=inputs(side))
        found = site_gradients(model, batch, sites=sites, objective=objective, positions="last")
        for site in sites:
            expected = torch.cat([one[site].jacobians for one in alone])
            assert found[site].jacobians == pytest.approx(expected, abs=1e-5 * float(expected.abs().max())), (site, side)


def test_nothing_is_left_behind(model: Any) -> None:
    sites = list_sites(model)
    with torch.no_grad():
        clean = model(**inputs()).logits
    before = state_of(model)

    def use(function: Any) -> None:
        for site in sites:
            if not resolve_site(model, site).read_only:
                with edit_site(model, site, function), read_sites(model, sites), torch.no_grad():
                    model(**inputs())

    use(lambda rows: rows * 0.5)
    site_gradients(
        model,
        Batch(inputs=inputs()),
        sites=["blocks.0.resid_mid" if "blocks.0.resid_mid" in sites else "blocks.0.resid_post"],
        objective=margin(positive=[1], negative=[2]),
        positions="last",
    )
    with pytest.raises(StopHereError):
        use(stop)
    assert state_of(model) == before
    with torch.no_grad():
        assert torch.equal(model(**inputs()).logits, clean)


def stop(_: Tensor) -> Tensor:
    raise StopHereError
