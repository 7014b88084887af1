"""read_sites: the right rows of every kind of site and model, as copies, and nothing left behind."""

from __future__ import annotations

import gc
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from invariscope.errors import NoForwardError, PositionError, ShapeError, UnknownNameError
from invariscope.sites import edit_site, read_sites
from sites.toys import HuggingFaceLike, Keywords, Pooled, StopHereError, Tuples, padded, small_transformer, state_of, tokens_of

SITES = small_transformer().site_names()


def by_plain_hook(model: nn.Module, module: str, *inputs: Any) -> Tensor:
    """The module's output, seen by a hook of PyTorch's own."""
    seen: list[Tensor] = []
    handle = model.get_submodule(module).register_forward_hook(lambda m, i, out: seen.append(out.detach().clone()))
    model(*inputs)
    handle.remove()
    return seen[-1]


@pytest.mark.parametrize("site", SITES)
def test_every_site_of_our_transformer_gives_the_rows_of_its_tensor(site: str) -> None:
    model = small_transformer()
    whole = by_plain_hook(model, site, tokens_of())
    by_token = whole.movedim(2, 1) if site.endswith("attn_pattern") else whole
    with read_sites(model, [site], positions=slice(1, 3)) as seen:
        model(tokens_of())
    assert seen.index.tolist() == [[b, t] for b in range(3) for t in (1, 2)]
    assert torch.equal(seen[site], torch.stack([by_token[b, t] for b, t in seen.index.tolist()]))
    with read_sites(model, [site]) as seen:
        model(tokens_of())
    assert torch.equal(seen[site], by_token.flatten(0, 1))


@pytest.mark.parametrize(("kind", "shape"), [("attn_pattern", (3, 2, 5)), ("attn_heads", (3, 2, 3)), ("resid_post", (3, 6))])
def test_rows_have_the_shape_of_their_site(kind: str, shape: tuple[int, ...]) -> None:
    model = small_transformer()
    with read_sites(model, f"blocks.1.{kind}", positions="last") as seen:
        model(tokens_of())
    assert seen[f"blocks.1.{kind}"].shape == shape


def test_several_sites_come_from_one_forward() -> None:
    model = small_transformer()
    with read_sites(model, SITES, positions="last") as seen:
        logits = model(tokens_of())
    assert all(site in seen for site in SITES)
    assert "blocks.0" not in seen
    assert torch.equal(seen["logits"], logits[:, -1])
    total = seen["blocks.0.resid_mid"] + seen["blocks.0.mlp_out"]
    assert torch.equal(seen["blocks.1.resid_pre"], total)


def test_other_models_are_read_by_the_names_of_their_modules() -> None:
    x = torch.arange(12.0).reshape(2, 3, 2) - 5
    stack = nn.Sequential(nn.Identity(), nn.ReLU())
    with read_sites(stack, ["module:1", "module:1:in"], positions=-1) as seen:
        stack(x)
    assert torch.equal(seen["module:1:in"], x[:, -1])
    assert torch.equal(seen["module:1"], x[:, -1].relu())
    for named in (False, True):
        with read_sites(tuples := Tuples(named), ["module:block"], positions=0) as seen:
            tuples(x)
        assert torch.equal(seen["module:block"], 2 * x[:, 0])
    with read_sites(keywords := Keywords(), ["module:inner:in", "module:inner"], positions=0) as seen:
        keywords(x)
    assert torch.equal(seen["module:inner:in"] * 3, seen["module:inner"])
    assert torch.equal(seen["module:inner"], 3 * x[:, 0])


@pytest.mark.parametrize("positions", ["last", "all", 0])
def test_one_vector_a_sequence_is_one_row_a_sequence(positions: Any) -> None:
    model, x = Pooled(), torch.arange(24.0).reshape(2, 3, 4)
    with read_sites(model, ["module:pool"], positions=positions) as seen:
        model(x)
    assert torch.equal(seen["module:pool"], x.mean(1))
    assert seen.index.tolist() == [[0, 0], [1, 0]]


# --- padding


SEQUENCES = [[1, 2], [3, 4, 5], [6, 7, 1, 2]]


@pytest.mark.parametrize("positions", ["last", "all", 0, -2, slice(1, None)])
def test_left_and_right_padding_and_no_padding_give_the_same_rows(positions: Any) -> None:
    model, found = HuggingFaceLike(), []
    for side in ("left", "right"):
        with read_sites(model, ["module:after"], positions=positions) as seen:
            model(**padded(SEQUENCES, side))
        found.append(seen["module:after"])
    alone = []
    for sequence in SEQUENCES:
        with read_sites(model, ["module:after"], positions=positions) as seen:
            model(torch.tensor([sequence]))
        alone.append(seen["module:after"])
    for rows in found:
        torch.testing.assert_close(rows, torch.cat(alone), rtol=0, atol=1e-12)


def test_validity_that_the_caller_gives_is_followed() -> None:
    model, inputs = HuggingFaceLike(), padded(SEQUENCES, "left")
    with read_sites(model, ["module:after"], positions="last") as followed:
        model(**inputs)
    with read_sites(model, ["module:after"], positions="last", valid=inputs["attention_mask"].bool()) as given:
        model(**inputs)
    assert torch.equal(followed["module:after"], given["module:after"])
    assert torch.equal(followed.index, given.index)


def test_a_mask_that_selects_padding_is_refused_and_leaves_no_hook() -> None:
    model, inputs = HuggingFaceLike(), padded(SEQUENCES, "left")
    before = state_of(model)
    mask = torch.ones_like(inputs["attention_mask"], dtype=torch.bool)
    says = pytest.raises(PositionError, match=r"a mask that selects padding, first at \[0, 0\]; expected real tokens only")
    with says, read_sites(model, ["module:after"], positions=mask):
        model(**inputs)
    assert state_of(model) == before
    with read_sites(model, ["module:after"], positions=inputs["attention_mask"].bool()) as seen:
        model(**inputs)
    assert seen["module:after"].shape == (9, 4)


def test_validity_of_another_batch_is_refused() -> None:
    model = HuggingFaceLike()
    says = pytest.raises(ShapeError, match=r"valid of shape \[2, 4\] at 'module:after' with 3 rows and 5 tokens")
    with says, read_sites(model, ["module:after"], valid=torch.ones(2, 4, dtype=torch.bool)):
        model(**padded(SEQUENCES, "left"))


# --- what comes out


def test_rows_are_detached_unless_gradients_are_asked_for() -> None:
    model = small_transformer()
    with read_sites(model, ["blocks.0.resid_mid"]) as plain, read_sites(model, ["blocks.0.resid_mid"], gradients=True) as kept:
        model(tokens_of())
    assert not plain["blocks.0.resid_mid"].requires_grad
    rows = kept["blocks.0.resid_mid"]
    (gradient,) = torch.autograd.grad(rows.sum(), [model.token_embedding])
    assert float(gradient.abs().sum()) > 0


@pytest.mark.parametrize("gradients", [False, True])
@pytest.mark.parametrize("positions", ["all", "last"])
def test_rows_are_copies_that_neither_the_model_nor_the_reader_changes(positions: Any, gradients: bool) -> None:
    model, x = nn.Sequential(nn.Identity(), nn.ReLU(inplace=True)), torch.full((1, 2, 3), -1.0)
    with read_sites(model, ["module:0"], positions=positions, gradients=gradients) as seen:
        out = model(x)
    assert bool((out == 0).all())
    assert bool((seen["module:0"] == -1).all())
    seen["module:0"].fill_(7)
    assert bool((out == 0).all())


def test_a_few_rows_do_not_keep_the_whole_tensor_alive() -> None:
    model = nn.Sequential(nn.Identity())
    for positions, num in (("last", 2), ("all", 200)):
        with read_sites(model, ["module:0"], positions=positions) as seen:
            model(torch.zeros(2, 100, 3))
        assert seen["module:0"].untyped_storage().nbytes() == num * 3 * 4


def test_device_and_type_are_as_asked() -> None:
    model = small_transformer(torch.float32)
    with read_sites(model, ["embed"], dtype=torch.float64, device="cpu") as seen, read_sites(model, ["embed"]) as plain:
        model(tokens_of())
    assert seen["embed"].dtype == torch.float64
    assert plain["embed"].dtype == torch.float32
    assert torch.equal(seen["embed"], plain["embed"].double())
    with read_sites(model, ["embed"], device="meta") as seen:
        model(tokens_of())
    assert seen["embed"].device.type == "meta"


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_low_precision_is_read_as_it_is(dtype: torch.dtype) -> None:
    model = small_transformer(dtype)
    whole = by_plain_hook(model, "blocks.1.resid_post", tokens_of())
    with read_sites(model, ["blocks.1.resid_post"], positions="last") as seen:
        model(tokens_of())
    assert seen["blocks.1.resid_post"].dtype == dtype
    assert torch.equal(seen["blocks.1.resid_post"], whole[:, -1])


# --- forwards


def test_the_last_forward_is_the_one_that_is_seen() -> None:
    model = small_transformer()
    with read_sites(model, ["embed"]) as seen:
        model(tokens_of(seed=1))
        model(tokens_of(rows=1, seed=2))
    assert torch.equal(seen["embed"], by_plain_hook(model, "embed", tokens_of(rows=1, seed=2)).flatten(0, 1))


class Sometimes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.always, self.rarely = nn.Identity(), nn.Identity()

    def forward(self, x: Tensor, rarely: bool = False) -> Tensor:
        return self.rarely(self.always(x)) if rarely else self.always(x)


def test_rows_of_an_earlier_forward_do_not_stand_for_those_of_the_last() -> None:
    model = Sometimes()
    with read_sites(model, ["module:always", "module:rarely"]) as seen:
        model(torch.zeros(1, 2), rarely=True)
        assert "module:rarely" in seen
        model(torch.ones(1, 2))
    assert "module:rarely" not in seen
    assert bool((seen["module:always"] == 1).all())
    with pytest.raises(NoForwardError, match="activations at 'module:rarely', which no forward pass reached"):
        seen["module:rarely"]


def test_what_was_not_read_is_an_error_with_what_to_do() -> None:
    model = small_transformer()
    with read_sites(model, ["embed", "logits"]) as seen:
        pass
    for look in (lambda: seen["embed"], lambda: seen.index):
        with pytest.raises(NoForwardError) as caught:
            look()
        assert caught.value.given == "activations at 'embed', which no forward pass reached"
        assert caught.value.expected == "a forward pass inside the context"
        assert caught.value.do.startswith("call model(...) inside `with read_sites(...)`")
    with pytest.raises(UnknownNameError, match=r"unknown site among those that are read 'final_norm'.*nearest: "):
        seen["final_norm"]


def test_leaving_without_a_forward_is_no_error_by_itself() -> None:
    model = small_transformer()
    before = state_of(model)
    with read_sites(model, SITES):
        pass
    assert state_of(model) == before


# --- nothing is left behind


def stop(*_: object) -> None:
    raise StopHereError


class Breaks(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.part = nn.Tanh()

    def forward(self, x: Tensor) -> Tensor:
        self.part(x)
        raise StopHereError


def test_hooks_go_modes_and_random_states_stay_after_success_and_after_an_error_inside() -> None:
    model = small_transformer().train()
    model.blocks[0].eval()
    model.token_embedding.requires_grad_(False)
    before = state_of(model)
    with read_sites(model, SITES, positions="last"):
        assert state_of(model)["hooks"] != before["hooks"]
        model(tokens_of())
    assert state_of(model) == before
    with pytest.raises(StopHereError), read_sites(model, SITES):
        stop(model(tokens_of()))
    assert state_of(model) == before


def test_hooks_go_after_an_error_in_the_model() -> None:
    model = Breaks()
    before = state_of(model)
    with pytest.raises(StopHereError), read_sites(model, ["module:part"]):
        model(torch.zeros(1, 2))
    assert state_of(model) == before


def test_hooks_go_after_an_error_in_the_reader_and_no_hook_comes_where_a_name_is_wrong() -> None:
    model = small_transformer()
    before = state_of(model)
    with pytest.raises(PositionError, match="position 9 in row 0"), read_sites(model, SITES, positions=9):
        model(tokens_of())
    assert state_of(model) == before
    with pytest.raises(UnknownNameError), read_sites(model, ["embed", "nowhere"]):
        pass
    assert state_of(model) == before


def test_a_hook_of_the_users_own_stays_and_sees_the_same() -> None:
    model, seen_by_user = small_transformer(), []
    model.get_submodule("blocks.0.resid_mid").register_forward_hook(lambda m, i, out: seen_by_user.append(out.detach()))
    before = state_of(model)
    with read_sites(model, ["blocks.0.resid_mid"]) as seen:
        model(tokens_of())
    assert state_of(model) == before
    model(tokens_of())
    assert torch.equal(seen_by_user[0], seen_by_user[1])
    assert torch.equal(seen["blocks.0.resid_mid"], seen_by_user[0].flatten(0, 1))


def test_readers_nest_and_a_reader_inside_an_edit_sees_what_goes_on_from_there() -> None:
    model = small_transformer()
    site = "blocks.0.resid_mid"
    plain = by_plain_hook(model, site, tokens_of())[:, -1]
    before = state_of(model)
    with read_sites(model, [site], positions="last") as outside, edit_site(model, site, lambda rows: rows + 1):
        with read_sites(model, [site], positions="last") as inside:
            model(tokens_of())
        model(tokens_of(seed=2))
    assert torch.equal(inside[site], plain + 1)
    assert torch.equal(outside[site], by_plain_hook(model, site, tokens_of(seed=2))[:, -1])
    assert state_of(model) == before


def live_tensors() -> int:
    gc.collect()
    return sum(issubclass(type(thing), Tensor) for thing in gc.get_objects())


@pytest.mark.parametrize("gradients", [False, True])
def test_fifty_repeats_keep_memory_flat(gradients: bool) -> None:
    model = small_transformer()

    def once() -> None:
        with read_sites(model, SITES, gradients=gradients) as seen:
            model(tokens_of())
        assert seen["logits"].shape == (15, 5)

    once()
    before, hooks = live_tensors(), state_of(model)["hooks"]
    for _ in range(50):
        once()
    assert live_tensors() == before
    assert state_of(model)["hooks"] == hooks
