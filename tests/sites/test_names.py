"""Sites: names find modules, unknown ones are answered with their neighbours, and compiled modules are refused."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable

import pytest
import torch
from torch import nn

from invariscope.errors import CompiledModelError, UnknownNameError
from invariscope.sites import edit_site, list_sites, read_sites, resolve_site, site_gradients
from invariscope.sites.names import refuse_compiled, resolve_sites
from sites.toys import Keywords, small_transformer, tokens_of


def stack() -> nn.Sequential:
    return nn.Sequential(nn.Identity(), nn.Sequential(nn.Tanh(), nn.ReLU()))


def test_sites_of_our_models_are_their_own_and_of_others_every_module() -> None:
    model = small_transformer(mlp_width=(8, 0))
    assert list_sites(model) == model.site_names()
    assert list_sites(stack()) == ("module:0", "module:1", "module:1.0", "module:1.1")


def test_every_site_resolves_to_the_module_of_its_name() -> None:
    model = small_transformer()
    for name in model.site_names():
        site = resolve_site(model, name)
        assert site.module is model.get_submodule(name)
        assert site.side == "out"
        assert site.token_axis == (2 if name.endswith("attn_pattern") else 1)


def test_only_sites_above_the_last_attention_are_local_to_their_token() -> None:
    model = small_transformer()
    local = {name for name in model.site_names() if resolve_site(model, name).token_local}
    kinds = ("attn_heads", "attn_out", "resid_mid", "mlp_pre", "mlp_post", "mlp_out", "resid_post")
    assert local == {f"blocks.1.{kind}" for kind in kinds} | {"final_norm", "logits"}
    assert not resolve_site(model, "module:final_norm").token_local


def test_a_module_is_named_with_its_side() -> None:
    model = Keywords()
    assert resolve_site(model, "module:inner").side == "out"
    assert resolve_site(model, "module:inner:in").side == "in"
    assert resolve_site(model, "module:inner:in").module is model.inner


def test_a_module_under_two_names_has_two_names() -> None:
    shared = nn.Tanh()
    model = nn.Sequential(shared, nn.Identity(), shared)
    assert resolve_site(model, "module:0").module is resolve_site(model, "module:2").module is shared


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("blocks.0.resid_middle", "blocks.0.resid_mid"),
        ("blocks.2.mlp_out", "blocks.0.mlp_out"),
        ("Embed", "embed"),
        ("module:blocks.0.atention", "module:blocks.0.attention"),
        ("module:embed:out", "module:embed"),
        ("module:", "module:embed"),
        ("", "embed"),
    ],
)
def test_an_unknown_site_is_answered_with_the_three_nearest(name: str, nearest: str) -> None:
    with pytest.raises(UnknownNameError) as caught:
        resolve_site(small_transformer(), name)
    assert caught.value.given == f"unknown site {name!r}"
    found = caught.value.do.removeprefix("nearest: ").split(", ")
    assert len(found) == 3
    assert nearest in found or not name.strip("module:")


def test_sites_are_found_once_each_in_the_given_order_and_one_name_is_a_list_of_one() -> None:
    model = small_transformer()
    found = resolve_sites(model, ["logits", "embed", "logits"])
    assert [site.name for site in found] == ["logits", "embed"]
    assert [site.name for site in resolve_sites(model, "embed")] == ["embed"]


def test_no_site_at_all_is_an_error_that_names_some() -> None:
    for call in (
        lambda: resolve_sites(small_transformer(), []),
        lambda: read_sites(small_transformer(), []).__enter__(),
    ):
        with pytest.raises(UnknownNameError, match=r"no site; expected the name of at least one; .*blocks\.0\.resid_post"):
            call()


# --- compiled modules


def wrapped() -> nn.Module:
    return torch.compile(stack(), backend="eager")


def compiled_in_place() -> nn.Module:
    model = stack()
    model.compile(backend="eager")
    return model


def part_wrapped() -> nn.Module:
    model = stack()
    model[1] = torch.compile(model[1], backend="eager")
    return model


def part_compiled_in_place() -> nn.Module:
    model = stack()
    model[1][0].compile(backend="eager")
    return model


def forward_compiled() -> nn.Module:
    model = stack()
    model[1].forward = torch.compile(model[1].forward, backend="eager")
    return model


COMPILED: dict[str, tuple[Callable[[], nn.Module], str, str, str]] = {
    "wrapper": (wrapped, "OptimizedModule, which", "pass the module as it was before", "(model._orig_mod)"),
    "in place": (compiled_in_place, "Sequential, which", "pass copy.deepcopy(model)", "compile() on this module"),
    "part, wrapper": (
        part_wrapped,
        "Sequential, of which module '1'",
        "put the module as it was",
        "get_submodule('1')._orig_mod)",
    ),
    "part, in place": (
        part_compiled_in_place,
        "Sequential, of which module '1.0'",
        "pass copy.deepcopy",
        "compile() on this module",
    ),
    "forward": (forward_compiled, "Sequential, of which module '1'", "put this module's forward", "before torch.compile back"),
}


@pytest.mark.parametrize("name", COMPILED)
def test_a_compiled_module_is_refused_with_the_advice_that_fits_it(name: str) -> None:
    build, given, do, detail = COMPILED[name]
    with pytest.raises(CompiledModelError) as caught:
        resolve_site(build(), "module:0")
    assert caught.value.given == f"{given} is compiled"
    assert caught.value.expected == "a plain module: compiled ones drop hooks silently"
    assert caught.value.do.startswith(do)
    assert caught.value.do.endswith(detail)


def test_the_advice_helps() -> None:
    refuse_compiled(wrapped()._orig_mod)  # pyright: ignore[reportArgumentType]  # a module
    refuse_compiled(copy.deepcopy(compiled_in_place()))
    refuse_compiled(copy.deepcopy(part_compiled_in_place()))
    model = part_wrapped()
    model.set_submodule("1", model.get_submodule("1")._orig_mod)  # pyright: ignore[reportArgumentType]  # a module
    refuse_compiled(model)


def test_a_forward_that_is_kept_from_compiling_is_plain() -> None:
    model = stack()
    model[1].forward = torch.compiler.disable(model[1].forward)
    refuse_compiled(model)


@pytest.mark.parametrize("name", ["read", "edit", "gradient"])
def test_every_way_to_a_site_refuses_a_compiled_model_and_leaves_no_hook(name: str) -> None:
    model = small_transformer()
    model.compile(backend="eager")
    ways = {
        "read": lambda: read_sites(model, ["embed"]).__enter__(),
        "edit": lambda: edit_site(model, "embed", lambda rows: rows).__enter__(),
        "gradient": functools.partial(site_gradients, model, None, sites=["embed"], objective=None, positions="last"),
    }
    with pytest.raises(CompiledModelError):
        ways[name]()
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    copy.deepcopy(model)(tokens_of())
