"""site_gradients: what it refuses, what it says about the rows, and that the model is as before, whatever happened."""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from invariscope.batch import Batch
from invariscope.errors import InvariscopeError, NoForwardError, ObjectiveError, PositionError, ShapeError, UnknownNameError
from invariscope.sites import frozen, logits, site_gradients
from sites.toys import StopHereError, seeded, small_transformer, state_of, tokens_of

ARGUMENTS: dict[str, Any] = {"sites": ["embed", "blocks.1.resid_mid"], "objective": logits(), "positions": "all"}


def tokens_batch(**parts: Any) -> Batch:
    return Batch(inputs={"tokens": tokens_of()}, **parts)


def unusual(model: nn.Module) -> nn.Module:
    """In training mode but for a part, and with some weights frozen by the user."""
    model.train()
    model.get_submodule("blocks.0").eval()
    model.get_parameter("token_embedding").requires_grad_(False)
    return model


def test_the_model_is_as_before_and_no_weight_gets_a_gradient() -> None:
    model = unusual(small_transformer())
    before = state_of(model)
    site_gradients(model, tokens_batch(), **ARGUMENTS)
    assert state_of(model) == before
    assert all(parameter.grad is None for parameter in model.parameters())


def test_a_gradient_that_was_there_stays() -> None:
    model = small_transformer()
    model(tokens_of()).sum().backward()
    before = {name: parameter.grad.clone() for name, parameter in model.named_parameters() if parameter.grad is not None}
    site_gradients(model, tokens_batch(), **ARGUMENTS)
    assert before
    for name, gradient in before.items():
        assert torch.equal(model.get_parameter(name).grad, gradient)


def stop(*_: Any) -> Any:
    raise StopHereError


class Objective:
    num_outputs, name = 1, "own"

    def __init__(self, function: Callable[[Tensor], Any]) -> None:
        self.function = function

    def __call__(self, logits: Tensor, rows: object) -> Any:
        return self.function(logits)


ERRORS: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "site": ({"sites": ["embed", "nowhere"]}, UnknownNameError, "unknown site 'nowhere'"),
    "no site": ({"sites": []}, UnknownNameError, "no site; expected the name of at least one"),
    "position": ({"positions": 7}, PositionError, "position 7 in row 0, which has 5 real tokens"),
    "outputs": ({"positions": 0, "outputs_at": 5}, PositionError, "position 5 in row 0"),
    "reach": ({"reach": "earlier"}, PositionError, "reach 'earlier'; expected 'same' or 'later'"),
    "same, several others": (
        {"positions": 0, "outputs_at": "all"},
        PositionError,
        "reach='same' with several outputs a sequence at other tokens than the site is read at; expected outputs_at equal to "
        "positions, or one output a sequence; use reach='later'",
    ),
    "rows that are no vectors": (
        {"sites": ["embed", "blocks.0.attn_heads"]},
        ShapeError,
        "site 'blocks.0.attn_heads' with a tensor of shape [3, 5, 2, 3] and type torch.float64; expected one vector a token",
    ),
    "no generator": ({"sketch": 4}, ObjectiveError, "a sketch of 5 outputs without a generator; expected a torch.Generator"),
    "sketch of nothing": ({"sketch": 0}, ObjectiveError, "sketch = 0; expected 'auto', None or a positive int"),
    "sketch of a word": ({"sketch": "some"}, ObjectiveError, "sketch = 'some'"),
    "token": ({"objective": logits([9])}, ObjectiveError, "tokens [9] with 5 logits"),
    "objective's shape": (
        {"objective": Objective(lambda x: x.sum(-1))},
        ObjectiveError,
        "an objective 'own' that gives [15] for 15 rows; expected [15, K]; return K numbers a row",
    ),
    "objective's rows": ({"objective": Objective(lambda x: x[:4])}, ObjectiveError, "an objective 'own' that gives [4, 5]"),
    "objective stops": ({"objective": Objective(stop)}, StopHereError, ""),
    "objective is cut off": (
        {"objective": Objective(lambda x: x.detach())},
        ObjectiveError,
        "an objective that does not depend on the site 'blocks.1.resid_mid'; expected a path of differentiable operations",
    ),
    "logits_of": ({"logits_of": lambda out: out[0, 0]}, ObjectiveError, "a model output whose logits are [5]"),
    "logits of fewer tokens": (
        {"logits_of": lambda out: out[:, -1:]},
        ObjectiveError,
        "logits of shape [3, 1, 5] for inputs of 3 rows and 5 tokens; expected [3, 5, V] or [3, V]; pass logits_of=",
    ),
    "flat logits": ({"logits_of": lambda out: out.flatten(0, 1)}, ObjectiveError, "logits of shape [15, 5] for inputs"),
    "targets": ({"batch": tokens_batch(targets=torch.zeros(3, 2, dtype=torch.long))}, ShapeError, "targets with 2 entries"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_after_any_error_the_model_is_as_before(name: str) -> None:
    changes, error, says = ERRORS[name]
    model = unusual(small_transformer())
    before = state_of(model)
    arguments = {"batch": tokens_batch()} | ARGUMENTS | changes
    with pytest.raises(error) as caught:
        site_gradients(model, **arguments)
    assert str(caught.value).startswith(says)
    if isinstance(caught.value, InvariscopeError):
        assert caught.value.given
        assert caught.value.expected
        assert caught.value.do
    assert state_of(model) == before


def test_an_error_in_the_model_leaves_it_as_before() -> None:
    model = unusual(small_transformer())
    handle = model.get_submodule("blocks.1.mlp_out").register_forward_hook(stop)
    before = state_of(model)
    with pytest.raises(StopHereError):
        site_gradients(model, tokens_batch(), **ARGUMENTS)
    assert state_of(model) == before
    handle.remove()


# --- gradient modes


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_a_caller_without_gradients_gets_the_same_numbers_and_keeps_the_mode(mode: Callable[[], Any]) -> None:
    model = small_transformer()
    expected = site_gradients(model, tokens_batch(), **ARGUMENTS)
    with mode():
        found = site_gradients(model, tokens_batch(), **ARGUMENTS)
        assert not torch.is_grad_enabled()
        assert torch.is_inference_mode_enabled() == (mode is torch.inference_mode)
    for site in ARGUMENTS["sites"]:
        assert torch.equal(found[site].jacobians, expected[site].jacobians)


class Within(nn.Module):
    """Part of its forward runs without gradients."""

    def __init__(self, cut: str) -> None:
        super().__init__()
        self.before, self.after, self.aside, self.cut = nn.Identity(), nn.Identity(), nn.Identity(), cut

    def forward(self, x: Tensor) -> Tensor:
        with torch.set_grad_enabled(self.cut not in ("all", "first")):
            x = self.before(x * 2)
        self.aside(x)
        with torch.set_grad_enabled(self.cut != "all"):
            return self.after(x.detach() if self.cut == "detach" else x) * 3


@pytest.mark.parametrize(
    ("cut", "lost"), [("all", "module:before"), ("first", "module:before"), ("detach", "module:before"), ("none", "module:aside")]
)
def test_a_site_from_which_no_gradient_comes_is_named_not_given_zeros(cut: str, lost: str) -> None:
    model, batch = Within(cut), Batch(inputs={"x": torch.ones(2, 3, 4)})
    call = functools.partial(site_gradients, model, batch, objective=logits(), positions="last")
    with pytest.raises(ObjectiveError) as caught:
        call(sites=["module:after", lost])
    named = "module:after" if cut == "all" else lost
    assert caught.value.given == f"an objective that does not depend on the site {named!r}"
    assert "no_grad" in caught.value.do
    if cut != "all":
        assert call(sites="module:after")["module:after"].jacobians.shape == (2, 4, 4)


# --- sites that do not fit


class Parts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.ids, self.twice, self.unused = nn.Identity(), nn.Identity(), nn.Identity()
        self.flat, self.pool = nn.Identity(), nn.Identity()

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.ids(tokens)[..., None] * torch.ones(4, dtype=torch.float64)
        x = self.twice(self.twice(x))
        x = self.flat(x.flatten(0, 1)).reshape(x.shape)
        return x + self.pool(x.mean(1))[:, None]


@pytest.mark.parametrize(
    ("site", "error", "given"),
    [
        ("module:unused", NoForwardError, "site 'module:unused', which the forward pass did not reach"),
        ("module:twice", ShapeError, "site 'module:twice', which one forward pass reaches several times"),
        ("module:ids", ShapeError, "site 'module:ids' with a tensor of shape [3, 5] and type torch.int64"),
        ("module:flat", ShapeError, "site 'module:flat' of shape [15, 4] for inputs of 3 rows and 5 tokens"),
        ("module:pool", ShapeError, "site 'module:pool' of shape [3, 4], one vector a sequence, at several tokens of a sequence"),
    ],
)
def test_a_site_that_has_not_one_vector_a_token_is_refused(site: str, error: type[InvariscopeError], given: str) -> None:
    model = Parts()
    before = state_of(model)
    with pytest.raises(error) as caught:
        site_gradients(model, tokens_batch(), sites=[site], objective=logits(), positions="all")
    assert caught.value.given == given
    assert caught.value.expected
    assert caught.value.do
    assert state_of(model) == before


# --- rows


def test_rows_are_those_of_the_site() -> None:
    parts = {
        "targets": torch.tensor([[7], [8], [9]]),
        "labels": torch.tensor([1, 0, 1]),
        "weights": torch.tensor([0.5, 0.3, 0.2]),
    }
    found = site_gradients(small_transformer(), tokens_batch(**parts), **ARGUMENTS | {"positions": slice(0, 2)})["embed"].rows
    assert found.b.tolist() == [0, 0, 1, 1, 2, 2]
    assert found.t.tolist() == [0, 1] * 3
    assert found.targets.tolist() == [7, 7, 8, 8, 9, 9]
    assert found.labels.tolist() == [1, 1, 0, 0, 1, 1]
    torch.testing.assert_close(found.weights, torch.tensor([0.25, 0.25, 0.15, 0.15, 0.1, 0.1]))


@pytest.mark.parametrize(
    ("num", "expected"),
    [(1, [0] * 5 + [1] * 5 + [2] * 5), (5, list(range(15))), (2, None)],
    ids=["a sequence", "a token", "an output"],
)
def test_where_outputs_are_elsewhere_rows_know_only_the_targets_that_are_theirs(num: int, expected: list[int] | None) -> None:
    targets = torch.arange(3 * num).reshape(3, num)
    arguments = ARGUMENTS | {"outputs_at": slice(3, None), "reach": "later"}
    found = site_gradients(small_transformer(), tokens_batch(targets=targets), **arguments)["embed"].rows
    assert found.num == 15
    assert (found.targets is None) == (expected is None)
    assert expected is None or found.targets.tolist() == expected


def test_the_objective_sees_the_rows_of_the_outputs() -> None:
    seen: list[Any] = []

    class Own:
        num_outputs, name = 1, "own"

        def __call__(self, logits: Tensor, rows: Any) -> Tensor:
            seen.append(rows)
            return logits.gather(1, rows.targets[:, None])

    targets = torch.tensor([[1], [0], [4]])
    found = site_gradients(
        small_transformer(), tokens_batch(targets=targets), sites="embed", objective=Own(), positions="all", outputs_at="last"
    )["embed"]
    assert seen[0].targets.tolist() == [1, 0, 4]
    assert seen[0].t.tolist() == [4, 4, 4]
    assert found.jacobians.shape == (15, 1, 6)


# --- frozen, memory


def test_frozen_is_evaluation_mode_without_weight_gradients_and_ends_with_the_context() -> None:
    model = unusual(small_transformer())
    before = state_of(model)
    with frozen(model):
        assert not any(module.training for module in model.modules())
        assert not any(parameter.requires_grad for parameter in model.parameters())
        with frozen(model):
            pass
        assert not any(parameter.requires_grad for parameter in model.parameters())
    assert state_of(model) == before
    with pytest.raises(StopHereError), frozen(model):
        stop()
    assert state_of(model) == before


def test_fifty_repeats_keep_memory_flat() -> None:
    model = small_transformer()

    def live_tensors() -> int:
        gc.collect()
        return sum(issubclass(type(thing), Tensor) for thing in gc.get_objects())

    def once() -> None:
        site_gradients(model, tokens_batch(), **ARGUMENTS | {"positions": "last", "sketch": 2, "generator": seeded()})

    once()
    before, hooks = live_tensors(), state_of(model)["hooks"]
    for _ in range(50):
        once()
    assert live_tensors() == before
    assert state_of(model)["hooks"] == hooks
