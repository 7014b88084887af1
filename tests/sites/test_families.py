"""The table of families: what is found, and what is said where a site or a family is not there."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from invariscope.errors import ConfigError, HookedSiteError, UnknownNameError
from invariscope.sites import edit_site, language_parts, list_sites, read_sites, resolve_site
from invariscope.sites.families import FAMILIES
from sites.toys import small_transformer
from tiny_language_models import tiny_model

TOKENS = torch.tensor([[3, 4, 5, 6], [7, 8, 9, 10]])


class Wrapper(nn.Module):
    """An adapter around a model, or two side by side."""

    def __init__(self, *models: nn.Module) -> None:
        super().__init__()
        self.models = nn.ModuleList(models)

    def forward(self, **inputs: Tensor) -> Any:
        return self.models[0](**inputs)


def bert() -> nn.Module:
    import transformers

    shape = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8, "vocab_size": 20}
    with torch.random.fork_rng(devices=[]):
        return transformers.BertModel(transformers.BertConfig(**shape)).eval()


@pytest.mark.parametrize("family", FAMILIES)
def test_in_the_last_block_what_follows_attention_is_local_to_its_token(family: str) -> None:
    model = tiny_model("gemma3" if family == "gemma3_text" else family)
    local = {name for name in list_sites(model) if resolve_site(model, name).token_local}
    kinds = {"attn_heads", "attn_out", "resid_mid", "mlp_pre", "mlp_post", "mlp_out", "resid_post"}
    kinds -= {"resid_mid"} if family == "gpt_neox" else set()
    assert local == {f"blocks.2.{kind}" for kind in kinds} | {"final_norm", "logits"}


def test_attention_patterns_need_the_eager_implementation_and_say_how_to_get_it() -> None:
    model = tiny_model("llama")
    with pytest.raises(ConfigError) as caught, read_sites(model, ["blocks.1.attn_pattern"]):
        pass
    assert caught.value.given == "site 'blocks.1.attn_pattern' with the attention implementation 'sdpa'"
    assert caught.value.expected == "'eager', the only one that returns attention weights"
    assert "model.set_attn_implementation('eager')" in caught.value.do
    model.set_attn_implementation("eager")
    with torch.no_grad(), read_sites(model, ["blocks.1.attn_pattern"], positions="last") as seen:
        model(input_ids=TOKENS)
    assert seen["blocks.1.attn_pattern"].shape == (2, 4, 4)
    assert seen["blocks.1.attn_pattern"].sum(-1) == pytest.approx(torch.ones(2, 4), abs=1e-5)


def test_attention_patterns_can_be_read_and_not_edited() -> None:
    model = tiny_model("gpt2", attention="eager")
    with pytest.raises(HookedSiteError) as caught, edit_site(model, "blocks.0.attn_pattern", lambda rows: rows):
        pass
    assert caught.value.given == "an edit at 'blocks.0.attn_pattern', which this model shows as a copy"
    assert caught.value.expected == "a site that the model goes on from"
    assert caught.value.do == "edit attn_heads or attn_out of the same block; the pattern can be read"
    assert not resolve_site(small_transformer(), "blocks.0.attn_pattern").read_only


def test_a_parallel_residual_has_no_middle_and_the_message_says_why() -> None:
    model = tiny_model("gpt_neox")
    with pytest.raises(UnknownNameError) as caught:
        resolve_site(model, "blocks.1.resid_mid")
    assert caught.value.given == "site 'blocks.1.resid_mid' of a gpt_neox whose residual is parallel"
    assert caught.value.expected.endswith("here both read the block's input")
    assert "blocks.1.attn_out and blocks.1.mlp_out" in caught.value.do
    assert resolve_site(tiny_model("gpt_neox-sequential"), "blocks.1.resid_mid").forked


@pytest.mark.parametrize("name", ["blocks.3.resid_post", "blocks.1.resid_middle", "embedding"])
def test_an_unknown_site_of_a_known_family_is_answered_with_the_nearest(name: str) -> None:
    with pytest.raises(UnknownNameError, match=f"unknown site '{name}'; expected one of its known names; nearest: "):
        resolve_site(tiny_model("llama"), name)


def test_an_unknown_family_is_read_by_module_and_the_message_lists_the_known_ones() -> None:
    model = bert()
    assert "module:encoder.layer.0.output" in list_sites(model)
    with pytest.raises(UnknownNameError) as caught:
        resolve_site(model, "blocks.0.resid_post")
    assert caught.value.given == "site 'blocks.0.resid_post' of a model of type 'bert'"
    assert caught.value.expected == f"module:<dotted name>, or a model of a family whose sites have names: {', '.join(FAMILIES)}"
    assert caught.value.do.startswith("name a submodule; nearest: module:")
    with torch.no_grad(), read_sites(model, "module:encoder.layer.0") as seen:
        output = model(input_ids=TOKENS)
    assert torch.equal(seen["module:encoder.layer.0"], output.last_hidden_state.flatten(0, 1))


def test_a_model_without_head_has_all_sites_but_the_logits() -> None:
    model = tiny_model("gemma2")
    base = language_parts(model).base
    assert list_sites(base) == list_sites(model)[:-1]
    with torch.no_grad(), read_sites(base, ["final_norm"]) as seen:
        output = base(input_ids=TOKENS)
    assert torch.equal(seen["final_norm"], output.last_hidden_state.flatten(0, 1))
    with pytest.raises(ConfigError, match=r"Gemma2Model, a gemma2 without an unembedding; .*AutoModelForCausalLM"):
        language_parts(base)


def test_a_wrapped_model_has_the_sites_of_what_it_wraps_and_two_have_none() -> None:
    model = tiny_model("qwen3")
    assert list_sites(Wrapper(model)) == list_sites(model)
    assert language_parts(Wrapper(model)).unembedding is model.lm_head
    wrapper = Wrapper(model)
    with torch.no_grad(), read_sites(wrapper, "blocks.1.mlp_out") as seen:
        wrapper(input_ids=TOKENS)
    assert seen["blocks.1.mlp_out"].shape == (8, 32)
    assert all(name.startswith("module:models") for name in list_sites(Wrapper(model, tiny_model("llama"))))


@pytest.mark.parametrize(
    ("model", "given"),
    [(small_transformer, "Transformer, taken for"), (bert, "BertModel of type 'bert', taken for a causal language model")],
)
def test_language_parts_of_another_model_are_refused(model: Any, given: str) -> None:
    with pytest.raises(ConfigError) as caught:
        language_parts(model())
    assert caught.value.given.startswith(given)
    assert caught.value.expected == f"one model of a known family: {', '.join(FAMILIES)}"
    assert "module:<dotted name>" in caught.value.do
