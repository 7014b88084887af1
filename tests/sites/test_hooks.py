"""Hooks: every shape of output and input is reached, padding is followed, rows go out and come back where they were."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from invariscope.errors import ShapeError
from invariscope.positions import select_positions
from invariscope.sites import resolve_site
from invariscope.sites.hooks import gather_rows, hook_site, scatter_rows, watch_validity
from invariscope.sites.names import Site
from sites.toys import HuggingFaceLike, Keywords, Pair, Tuples, padded, state_of


def add_one(tensor: Tensor) -> Tensor:
    return tensor + 1


@pytest.mark.parametrize("named", [False, True])
def test_the_first_entry_of_a_tuple_is_replaced_and_the_others_and_the_kind_of_tuple_stay(named: bool) -> None:
    model, x = Tuples(named), torch.arange(6.0).reshape(1, 3, 2)
    with hook_site(resolve_site(model, "module:block"), add_one):
        assert torch.equal(model(x), x * 2 + 2)
    assert model.last_extra == (("extra",) if named else ("extra", 3))
    with hook_site(resolve_site(model, "module:block"), add_one):
        assert isinstance(model.block(x), Pair) == named


def test_a_callback_that_returns_nothing_changes_nothing() -> None:
    model, x = Tuples(), torch.arange(6.0).reshape(1, 3, 2)
    seen: list[Tensor] = []
    with hook_site(resolve_site(model, "module:block"), seen.append):
        assert torch.equal(model(x), x * 2 + 1)
    assert torch.equal(seen[0], x * 2)


def test_an_input_by_keyword_is_the_first_tensor_among_them() -> None:
    model, x = Keywords(), torch.ones(1, 2, 3)
    with hook_site(resolve_site(model, "module:inner:in"), add_one):
        assert torch.equal(model(x), torch.full((1, 2, 3), 6.0))
    with hook_site(resolve_site(model, "module:inner"), add_one):
        assert torch.equal(model(x), torch.full((1, 2, 3), 4.0))


def test_an_input_by_place_is_replaced_before_the_module_runs() -> None:
    model = nn.Sequential(nn.Identity(), nn.ReLU())
    with hook_site(resolve_site(model, "module:1:in"), add_one):
        assert model(torch.tensor([[-0.5, -2.0]])).tolist() == [[0.5, 0.0]]


class Gives(nn.Module):
    def __init__(self, output: object) -> None:
        super().__init__()
        self.part, self.output = nn.Identity(), output
        self.part.forward = lambda *_: output

    def forward(self, x: Tensor) -> Tensor:
        self.part(x)
        return x


@pytest.mark.parametrize(
    ("output", "given"),
    [
        (None, "NoneType"),
        ((), "NoneType"),
        (("text", 1), "str"),
        ({"hidden": 1}, "dict"),
        (torch.zeros(3), "a tensor of shape [3]"),
        (torch.tensor(1.0), "a tensor of shape []"),
    ],
    ids=str,
)
def test_what_is_no_activation_is_named(output: object, given: str) -> None:
    model = Gives(output)
    before = state_of(model)
    with pytest.raises(ShapeError) as caught, hook_site(resolve_site(model, "module:part"), add_one):
        model(torch.zeros(1, 2))
    assert caught.value.given == f"site 'module:part', which gives {given}"
    assert caught.value.expected == "a tensor [B, T, ...] or [B, D], alone or first in a tuple"
    assert caught.value.do == "choose a module whose output is a tensor"
    assert state_of(model) == before


def test_an_input_without_a_tensor_is_named() -> None:
    model = Gives(None)
    says = pytest.raises(ShapeError, match="site 'module:part:in', which gives a call without a tensor")
    with says, hook_site(resolve_site(model, "module:part:in"), add_one):
        model.part(1, x=2)


# --- padding


def chosen(model: nn.Module, site: str, call: object, valid: Tensor | None = None) -> list[list[int]]:
    """What ``last`` selects at the site while ``call`` runs."""
    found: list[Tensor] = []
    resolved = resolve_site(model, site)
    with (
        watch_validity(model, valid) as validity,
        hook_site(resolved, lambda tensor: found.append(validity.select("last", resolved, tensor))),
    ):
        call()  # pyright: ignore[reportCallIssue]  # a lambda
    return found[-1].tolist()


@pytest.mark.parametrize("by_place", [False, True])
@pytest.mark.parametrize(("side", "expected"), [("left", [[0, 3], [1, 3]]), ("right", [[0, 1], [1, 2]])])
def test_the_attention_mask_of_the_call_is_followed_by_keyword_and_by_place(side: str, expected: object, by_place: bool) -> None:
    model, inputs = HuggingFaceLike(), padded([[1, 2], [3, 4, 5]], side)
    ids, mask = inputs["input_ids"], inputs["attention_mask"]
    found = chosen(model, "module:mixed", lambda: model(ids, mask) if by_place else model(input_ids=ids, attention_mask=mask))
    assert found == expected


def test_a_mask_holds_for_its_own_forward_only() -> None:
    model, inputs = HuggingFaceLike(), padded([[1, 2], [3, 4, 5]], "right")

    def twice() -> None:
        model(**inputs)
        model(inputs["input_ids"])

    assert chosen(model, "module:mixed", twice) == [[0, 3], [1, 3]]


def test_what_the_caller_says_about_padding_comes_before_the_mask() -> None:
    model, inputs = HuggingFaceLike(), padded([[1, 2], [3, 4, 5]], "right")
    valid = torch.tensor([[1, 0, 0, 0], [1, 1, 0, 0]], dtype=torch.bool)
    assert chosen(model, "module:mixed", lambda: model(**inputs), valid) == [[0, 0], [1, 1]]


def test_a_mask_of_queries_against_keys_is_no_padding() -> None:
    class Own(HuggingFaceLike):
        def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> object:
            return super().forward(input_ids)

    model = Own()
    found = chosen(model, "module:mixed", lambda: model(torch.zeros(1, 3, dtype=torch.long), torch.ones(1, 1, 3, 3)))
    assert found == [[0, 2]]


def test_a_mask_that_also_covers_cached_tokens_leaves_the_new_ones_real() -> None:
    class Cached(HuggingFaceLike):
        def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> object:
            return super().forward(input_ids)

    model = Cached()
    ids, mask = torch.zeros(1, 1, dtype=torch.long), torch.tensor([[0, 0, 1, 1, 1]])
    assert chosen(model, "module:mixed", lambda: model(input_ids=ids, attention_mask=mask)) == [[0, 0]]


def test_one_vector_a_sequence_is_real_where_its_sequence_has_a_real_token() -> None:
    model, valid = nn.Sequential(nn.Identity()), torch.tensor([[True, False, False], [False, True, True]])
    assert chosen(model, "module:0", lambda: model(torch.zeros(2, 4)), valid) == [[0, 0], [1, 0]]


@pytest.mark.parametrize("shape", [(2, 4, 3), (3, 3, 3), (6, 3)])
def test_validity_of_another_shape_is_refused_with_both(shape: tuple[int, ...]) -> None:
    model, valid = nn.Sequential(nn.Identity()), torch.ones(2, 3, dtype=torch.bool)
    with pytest.raises(ShapeError) as caught:
        chosen(model, "module:0", lambda: model(torch.zeros(shape)), valid)
    tokens = shape[1] if len(shape) == 3 else 1
    assert caught.value.given == f"valid of shape [2, 3] at 'module:0' with {shape[0]} rows and {tokens} tokens"
    assert caught.value.expected == f"[{shape[0]}, {tokens}]"
    assert "one entry a token" in caught.value.do


def test_a_site_whose_rows_are_not_those_of_the_attention_mask_is_refused() -> None:
    class Flat(HuggingFaceLike):
        def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> object:
            out = super().forward(input_ids, attention_mask)
            self.after(out.logits.flatten(0, 1))
            return out

    model, inputs = Flat(), padded([[1, 2], [3, 4, 5]], "left")
    with pytest.raises(ShapeError, match=r"an attention_mask of shape \[2, 4\] at 'module:after' with 8 rows and 1 tokens"):
        chosen(model, "module:after", lambda: model(**inputs))


# --- rows


SHAPES = st.tuples(st.integers(1, 3), st.integers(1, 4), st.lists(st.integers(1, 3), min_size=0, max_size=2))


@given(SHAPES, st.sampled_from([1, 2]), st.data())
@settings(deadline=None, derandomize=True)
def test_rows_come_back_to_where_they_were_taken_from(
    shape: tuple[int, int, list[int]], token_axis: int, data: st.DataObject
) -> None:
    rows, tokens, rest = shape
    axes = [rows, tokens, *(rest or [2])]
    tensor = torch.arange(float(torch.tensor(axes).prod())).reshape(axes)
    tensor = tensor.movedim(1, token_axis).contiguous()
    site = Site(name="x", module=nn.Identity(), token_axis=token_axis)
    picked = data.draw(st.lists(st.booleans(), min_size=rows * tokens, max_size=rows * tokens).filter(any))
    index = select_positions(torch.tensor(picked).reshape(rows, tokens), shape=(rows, tokens))
    found = gather_rows(site, tensor, index)
    by_token = tensor.movedim(token_axis, 1)
    assert torch.equal(found, torch.stack([by_token[b, t] for b, t in index.tolist()]))
    assert torch.equal(scatter_rows(site, tensor, index, found), tensor)
    changed = scatter_rows(site, tensor, index, found + 100)
    assert changed.shape == tensor.shape
    touched = (changed != tensor).movedim(token_axis, 1).flatten(2).all(2)
    assert torch.equal(touched, torch.tensor(picked).reshape(rows, tokens))
    assert float((changed - tensor).sum()) == 100 * found.numel()


def test_scattering_is_differentiable_in_rows_and_in_the_rest() -> None:
    site = Site(name="x", module=nn.Identity())
    tensor = torch.zeros(2, 3, 2, requires_grad=True)
    index = torch.tensor([[0, 1], [1, 2]])
    rows = torch.zeros(2, 2, requires_grad=True)
    weight = torch.arange(12.0).reshape(2, 3, 2)
    d_tensor, d_rows = torch.autograd.grad((scatter_rows(site, tensor, index, rows) * weight).sum(), [tensor, rows])
    assert torch.equal(d_rows, weight[[0, 1], [1, 2]])
    expected = weight.clone()
    expected[[0, 1], [1, 2]] = 0
    assert torch.equal(d_tensor, expected)


def test_a_vector_a_sequence_is_a_row_whatever_token_is_meant() -> None:
    site, tensor = Site(name="x", module=nn.Identity()), torch.arange(6.0).reshape(3, 2)
    index = torch.tensor([[0, 4], [2, 1]])
    assert gather_rows(site, tensor, index).tolist() == [[0, 1], [4, 5]]
    assert scatter_rows(site, tensor, index, torch.full((2, 2), 9.0)).tolist() == [[9, 9], [2, 3], [9, 9]]
