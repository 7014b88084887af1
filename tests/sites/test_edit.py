"""edit_site: what goes on from there is the function of the rows, the report counts it, and nothing is left behind."""

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


def with_plain_hook(model: nn.Module, module: str, function: Any, *inputs: Any) -> Tensor:
    """The output where a hook of PyTorch's own replaces the module's output by a function of it."""
    handle = model.get_submodule(module).register_forward_hook(lambda m, i, out: function(out.clone()))
    out = model(*inputs)
    handle.remove()
    return out


@pytest.mark.parametrize("site", SITES)
@pytest.mark.parametrize("positions", ["all", 1])
def test_every_site_of_our_transformer_can_be_edited(site: str, positions: Any) -> None:
    model = small_transformer()

    def by_hand(whole: Tensor) -> Tensor:
        by_token = whole.movedim(2, 1) if site.endswith("attn_pattern") else whole
        chosen = slice(None) if positions == "all" else positions
        by_token[:, chosen] = by_token[:, chosen] * 0.5 + 0.1
        return whole

    expected = with_plain_hook(model, site, by_hand, tokens_of())
    with edit_site(model, site, lambda rows: rows * 0.5 + 0.1, positions=positions) as report:
        found = model(tokens_of())
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    assert not torch.allclose(found, model(tokens_of()), atol=1e-3)
    assert (report.forwards, report.num_positions) == (1, 15 if positions == "all" else 3)


@pytest.mark.parametrize(("kind", "shape"), [("attn_pattern", (6, 2, 5)), ("attn_heads", (6, 2, 3)), ("mlp_pre", (6, 8))])
def test_the_function_gets_rows_of_the_shape_of_the_site(kind: str, shape: tuple[int, ...]) -> None:
    model, shapes = small_transformer(), []
    with edit_site(model, f"blocks.0.{kind}", lambda rows: shapes.append(rows.shape) or rows, positions=slice(0, 2)):
        model(tokens_of())
    assert shapes == [shape]


def test_an_edit_before_the_last_token_does_not_reach_earlier_ones() -> None:
    model = small_transformer()
    plain = model(tokens_of())
    with edit_site(model, "blocks.0.resid_mid", lambda rows: rows + 1, positions=2):
        changed = (model(tokens_of()) - plain).abs().amax((0, 2))
    assert bool((changed[:2] == 0).all())
    assert bool((changed[2:] > 1e-6).all())


def test_other_models_are_edited_by_the_names_of_their_modules() -> None:
    x = torch.arange(12.0).reshape(2, 3, 2) - 5
    stack = nn.Sequential(nn.Identity(), nn.ReLU())
    with edit_site(stack, "module:1:in", torch.neg, positions="last"):
        out = stack(x)
    assert torch.equal(out[:, -1], (-x[:, -1]).relu())
    assert torch.equal(out[:, :-1], x[:, :-1].relu())
    for named in (False, True):
        tuples = Tuples(named)
        with edit_site(tuples, "module:block", torch.zeros_like, positions=0):
            out = tuples(x)
        assert torch.equal(out, torch.cat([torch.ones(2, 1, 2), 2 * x[:, 1:] + 1], 1))
        assert tuples.last_extra == (("extra",) if named else ("extra", 3))
    keywords = Keywords()
    with edit_site(keywords, "module:inner:in", lambda rows: rows + 1):
        assert torch.equal(keywords(x), 3 * (x + 1))
    pooled = Pooled()
    with edit_site(pooled, "module:pool", lambda rows: rows * 2, positions="last") as report:
        assert torch.equal(pooled(x), (2 * x.mean(1)) ** 2)
    assert report.num_positions == 2


@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_is_not_edited(side: str) -> None:
    model, inputs = HuggingFaceLike(), padded([[1, 2], [3, 4, 5]], side)
    with read_sites(model, ["module:mixed"], positions="all", valid=torch.ones(2, 4, dtype=torch.bool)) as before:
        model(**inputs)
    with (
        edit_site(model, "module:mixed", lambda rows: rows + 1) as report,
        read_sites(model, ["module:mixed"], positions="all", valid=torch.ones(2, 4, dtype=torch.bool)) as after,
    ):
        model(**inputs)
    changed = (after["module:mixed"] - before["module:mixed"]).reshape(2, 4, 4)
    torch.testing.assert_close(changed, inputs["attention_mask"][..., None].expand(2, 4, 4).double())
    assert report.num_positions == 5
    assert report.mean_change == pytest.approx(2.0)


def test_a_mask_that_selects_padding_is_refused() -> None:
    model, inputs = HuggingFaceLike(), padded([[1, 2], [3, 4, 5]], "right")
    before = state_of(model)
    says = pytest.raises(PositionError, match=r"a mask that selects padding, first at \[0, 2\]")
    with says, edit_site(model, "module:mixed", lambda rows: rows, positions=torch.ones(2, 4, dtype=torch.bool)):
        model(**inputs)
    assert state_of(model) == before


# --- the report


def test_the_report_counts_forwards_and_tokens_and_measures_the_mean_length_of_the_change() -> None:
    model = nn.Sequential(nn.Identity())
    step = iter([torch.tensor([3.0, 4.0]), torch.tensor([0.0, 1.0])])
    with edit_site(model, "module:0", lambda rows: rows + next(step), positions="last") as report:
        assert report.mean_change == 0
        model(torch.zeros(2, 3, 2))
        assert (report.forwards, report.num_positions, report.mean_change) == (1, 2, 5.0)
        model(torch.zeros(4, 3, 2))
    assert (report.forwards, report.num_positions) == (2, 6)
    assert report.mean_change == pytest.approx((2 * 5 + 4 * 1) / 6)


def test_an_edit_of_size_zero_is_reported_and_no_error() -> None:
    model = small_transformer()
    with edit_site(model, "blocks.0.resid_mid", lambda rows: rows) as report:
        found = model(tokens_of())
    assert (report.num_positions, report.mean_change) == (15, 0.0)
    assert torch.equal(found, model(tokens_of()))


def test_the_size_of_a_change_is_measured_in_float64() -> None:
    model = small_transformer(torch.float64)
    with edit_site(model, "blocks.0.attn_heads", lambda rows: rows + 1e-12) as report:
        model(tokens_of())
    assert report.mean_change == pytest.approx(6**0.5 * 1e-12, rel=1e-3)


@pytest.mark.parametrize("positions", ["all", "last"])
def test_an_edit_in_place_is_seen_and_applied(positions: Any) -> None:
    model, x = nn.Sequential(nn.Identity()), torch.ones(1, 3, 2)

    def double(rows: Tensor) -> Tensor:
        rows *= 2
        return rows

    with edit_site(model, "module:0", double, positions=positions) as report:
        out = model(x)
    assert report.mean_change == pytest.approx(2**0.5)
    assert torch.equal(x, torch.ones(1, 3, 2)), "the model's own input has changed"
    assert float(out.sum()) == (12 if positions == "all" else 8)


def test_the_tensor_that_is_put_in_stays_the_callers() -> None:
    model, donor = nn.Sequential(nn.Identity(), nn.ReLU(inplace=True)), torch.full((2, 3), -1.0)
    with edit_site(model, "module:0", lambda rows: donor):
        assert bool((model(torch.ones(1, 2, 3)) == 0).all())
    assert bool((donor == -1).all())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_the_result_takes_the_type_of_the_rows(dtype: torch.dtype) -> None:
    model = small_transformer(dtype)
    with edit_site(model, "blocks.0.resid_mid", lambda rows: rows.double() * 0.5, positions="last") as report:
        found = model(tokens_of())
    assert found.dtype == dtype
    expected = with_plain_hook(
        model, "blocks.0.resid_mid", lambda x: torch.cat([x[:, :-1], (x[:, -1:].double() * 0.5).to(dtype)], 1), tokens_of()
    )
    assert torch.equal(found, expected)
    assert report.mean_change > 0


def test_gradients_flow_through_an_edit() -> None:
    model, scale = small_transformer(), torch.tensor(0.5, dtype=torch.float64, requires_grad=True)
    with edit_site(model, "blocks.0.resid_mid", lambda rows: rows * scale):
        out = model(tokens_of()).square().sum()
    weight, own = torch.autograd.grad(out, [model.token_embedding, scale])
    assert float(weight.abs().sum()) > 0

    def loss(value: float) -> float:
        with torch.no_grad(), edit_site(model, "blocks.0.resid_mid", lambda rows: rows * value):
            return float(model(tokens_of()).square().sum())

    assert float(own) == pytest.approx((loss(0.5 + 1e-5) - loss(0.5 - 1e-5)) / 2e-5, rel=1e-6)


# --- errors, and nothing left behind


@pytest.mark.parametrize(
    ("function", "given"),
    [
        (lambda rows: rows[:1], "[15, 6] into [1, 6]"),
        (lambda rows: rows[:, :3], "[15, 6] into [15, 3]"),
        (lambda rows: rows.sum(), "[15, 6] into []"),
        (lambda rows: None, "[15, 6] into NoneType"),
        (lambda rows: 0.0, "[15, 6] into float"),
    ],
    ids=["fewer rows", "narrower rows", "one number", "nothing", "no tensor"],
)
def test_an_edit_that_changes_the_shape_is_refused(function: Any, given: str) -> None:
    model = small_transformer()
    before = state_of(model)
    with pytest.raises(ShapeError) as caught, edit_site(model, "blocks.0.resid_mid", function):
        model(tokens_of())
    assert caught.value.given == f"an edit at 'blocks.0.resid_mid' that turns rows of shape {given}"
    assert caught.value.expected == "rows of the same shape"
    assert caught.value.do == "return one edited row for each row"
    assert state_of(model) == before


def test_an_edit_that_no_forward_reached_is_an_error_on_leaving() -> None:
    model = small_transformer()
    before = state_of(model)
    with pytest.raises(NoForwardError) as caught, edit_site(model, "embed", lambda rows: rows):
        pass
    assert caught.value.given == "an edit at 'embed' that no forward pass reached"
    assert caught.value.expected == "a forward pass inside the context"
    assert "with edit_site(...)" in caught.value.do
    assert state_of(model) == before


def test_another_error_under_way_is_not_hidden() -> None:
    model = small_transformer()
    before = state_of(model)
    with pytest.raises(StopHereError) as caught, edit_site(model, "embed", lambda rows: rows):
        raise StopHereError
    assert caught.value.__context__ is None
    assert state_of(model) == before


def fail(rows: Tensor) -> Tensor:
    raise StopHereError


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"function": fail}, StopHereError),
        ({"positions": 7}, PositionError),
        ({"positions": slice(7, 9)}, PositionError),
        ({"site": "nowhere"}, UnknownNameError),
        ({"valid": torch.ones(2, 2, dtype=torch.bool)}, ShapeError),
    ],
    ids=["function", "position", "selects nothing", "site", "valid"],
)
def test_after_any_error_the_model_is_as_before(arguments: dict[str, Any], error: type[Exception]) -> None:
    model = small_transformer().train()
    before = state_of(model)
    call: dict[str, Any] = {"site": "embed", "function": lambda rows: rows} | arguments
    with pytest.raises(error), edit_site(model, call.pop("site"), call.pop("function"), **call):
        model(tokens_of())
    assert state_of(model) == before


@pytest.mark.parametrize(
    ("positions", "given"),
    [
        (slice(7, 9), "positions '7:9:' on a batch of shape [3, 5], which select no token"),
        (torch.zeros(3, 5, dtype=torch.bool), "positions 'mask[3, 5]' on a batch of shape [3, 5], which select no token"),
        (7, "position 7 in row 0, which has 5 real tokens"),
    ],
    ids=["slice", "mask", "index"],
)
def test_an_edit_that_touches_no_position_is_refused_before_the_function_is_called(positions: Any, given: str) -> None:
    model = small_transformer()
    with pytest.raises(PositionError) as caught, edit_site(model, "blocks.0.resid_mid", fail, positions=positions) as report:
        model(tokens_of())
    assert caught.value.given == given
    assert caught.value.expected in ("at least one token", "a token that every row has")
    assert caught.value.do
    assert (report.forwards, report.num_positions) == (0, 0)


def test_edits_nest_and_each_reports_its_own() -> None:
    model = nn.Sequential(nn.Identity(), nn.Identity())
    before = state_of(model)
    with edit_site(model, "module:0", lambda rows: rows + 1) as first:
        with edit_site(model, "module:0", lambda rows: rows * 10, positions="last") as second:
            both = model(torch.zeros(1, 2, 1))
        one = model(torch.zeros(1, 2, 1))
    assert both.flatten().tolist() == [1, 10]
    assert one.flatten().tolist() == [1, 1]
    assert (first.num_positions, first.mean_change) == (4, 1.0)
    assert (second.num_positions, second.mean_change) == (1, 9.0)
    assert state_of(model) == before


def test_a_hook_of_the_users_own_stays_and_still_acts() -> None:
    model = nn.Sequential(nn.Identity())
    model[0].register_forward_hook(lambda m, i, out: out + 100)
    before = state_of(model)
    with edit_site(model, "module:0", torch.neg):
        assert model(torch.ones(1, 1, 1)).item() == -101
    assert state_of(model) == before
    assert model(torch.ones(1, 1, 1)).item() == 101


def test_modes_flags_weights_and_random_states_are_as_before() -> None:
    model = small_transformer().train()
    model.blocks[1].eval()
    model.token_embedding.requires_grad_(False)
    before = state_of(model)
    with edit_site(model, "blocks.0.resid_mid", torch.neg):
        model(tokens_of())
    assert state_of(model) == before


def test_fifty_repeats_keep_memory_flat() -> None:
    model = small_transformer()

    def live_tensors() -> int:
        gc.collect()
        return sum(issubclass(type(thing), Tensor) for thing in gc.get_objects())

    def once() -> None:
        with edit_site(model, "blocks.0.resid_mid", torch.neg):
            model(tokens_of())

    once()
    before, hooks = live_tensors(), state_of(model)["hooks"]
    for _ in range(50):
        once()
    assert live_tensors() == before
    assert state_of(model)["hooks"] == hooks
