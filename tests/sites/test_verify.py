"""verify_model: a sound model passes, each kind of fault is found where it is, and bad input is answered."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from invariscope.errors import ConfigError, TooFewSamplesError
from invariscope.sites import families, verify, verify_model
from sites.toys import state_of
from tiny_language_models import tiny_model

PROMPTS = [[3, 4, 5, 6, 7], [8, 9], [10, 11, 12]]


def test_a_sound_model_passes_and_is_as_before() -> None:
    model = tiny_model("llama").train()
    model.lm_head.weight.requires_grad_(False)
    verify_model(model, PROMPTS)  # transformers installs its recording hooks once
    before = state_of(model)
    found = verify_model(model, PROMPTS)
    assert state_of(model) == before
    assert found.ok
    assert found.worst <= 1e-5
    assert found.identity_edits == 0
    assert found.num_edited == 27
    assert (found.lengths, found.dtype, found.tolerance) == ((5, 2, 3), "float32", 1e-5)


def test_the_table_has_a_line_a_layer_and_the_verdict() -> None:
    lines = verify_model(tiny_model("gpt_neox"), PROMPTS).table().splitlines()
    assert lines[0] == "GPTNeoXForCausalLM (gpt_neox), float32; 3 prompts of 2 to 5 tokens"
    assert lines[2].split() == ["resid_pre", "attn_out", "resid_mid", "mlp_out", "resid_post", "sums"]
    assert [line.split()[0] for line in lines[3:8]] == ["blocks.0", "blocks.1", "blocks.2", "final_norm", "logits"]
    # The middle of a parallel block does not exist.
    assert lines[4].split()[7] == "-"
    assert lines[8] == "identity edits at 24 sites at once: 0.0e+00"
    assert lines[-1].startswith("as plain Hugging Face: worst ")
    assert lines[-1].endswith("tolerance 1.0e-05")


def test_positions_that_padding_moves_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = verify.text_inputs

    def without_positions(*args: Any, **kwargs: Any) -> dict[str, Tensor]:
        found = right(*args, **kwargs)
        return {**found, "position_ids": torch.arange(found["input_ids"].shape[1]).expand_as(found["input_ids"])}

    monkeypatch.setattr(verify, "text_inputs", without_positions)
    found = verify_model(tiny_model("gpt2"), PROMPTS)
    assert not found.ok
    first = found.layers[0].by_site
    assert first["resid_pre", "left"] > 0.1
    assert first["resid_pre", "right"] == 0
    assert "NOT as plain Hugging Face" in found.table()


def test_a_batch_that_attends_to_padding_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_model("llama")
    forward = model.model.forward

    def blind(**inputs: Any) -> Any:
        mask = inputs.pop("attention_mask", None)
        return forward(**inputs, attention_mask=None if mask is None else torch.ones_like(mask))

    monkeypatch.setattr(model.model, "forward", blind)
    found = verify_model(model, PROMPTS)
    assert not found.ok
    assert found.layers[0].by_site["resid_pre", "left"] == 0
    assert found.layers[0].by_site["attn_out", "left"] > 1e-3
    # Causal attention never sees what stands on the right.
    assert found.layers[0].by_site["attn_out", "right"] < 1e-5


def test_a_site_that_is_not_what_is_added_is_found_by_its_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    gemma = families.FAMILIES["gemma3_text"]
    before_norm = {**gemma.block, "attn_out": families.Place(path="self_attn")}
    monkeypatch.setitem(families.FAMILIES, "gemma3_text", replace(gemma, block=before_norm))
    found = verify_model(tiny_model("gemma3"), PROMPTS)
    assert not found.ok
    assert found.layers[1].by_site["sums", "left"] > 0.01
    assert found.layers[1].by_site["attn_out", "left"] <= 1e-5


def test_numbers_that_are_none_do_not_pass() -> None:
    model = tiny_model("llama")
    with torch.no_grad():
        model.model.layers[1].mlp.down_proj.weight.fill_(math.nan)
    found = verify_model(model, PROMPTS)
    assert math.isnan(found.worst)
    assert not found.ok


def test_what_is_not_as_before_is_named_and_does_not_pass() -> None:
    model = tiny_model("llama")
    calls = 0

    def forgetful(*_: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == 8:
            model.model.norm.weight.data.mul_(1 + 1e-7)
            model.model.norm.register_forward_hook(lambda *_: None)

    model.register_forward_hook(forgetful)
    found = verify_model(model, PROMPTS)
    assert found.changed == ("weights", "hooks")
    assert not found.ok
    assert "afterwards changed: weights, hooks" in found.table()


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.bfloat16, 2**-4), (torch.float16, 2**-7), (torch.float64, 1e-5)])
def test_the_tolerance_follows_the_type_of_the_weights(dtype: torch.dtype, tolerance: float) -> None:
    found = verify_model(tiny_model("llama").to(dtype), PROMPTS)
    assert found.tolerance == tolerance
    assert found.ok, found.table()
    assert verify_model(tiny_model("llama"), PROMPTS, tolerance=1e-12).ok is False


@pytest.mark.parametrize(("prompts", "given"), [([[1, 2], [3, 4]], "2 prompts of one length"), ([], "0 prompts of no length")])
def test_prompts_that_need_no_padding_are_refused(prompts: list[list[int]], given: str) -> None:
    with pytest.raises(TooFewSamplesError) as caught:
        verify_model(tiny_model("llama"), prompts)
    assert caught.value.given == given
    assert caught.value.expected.startswith("at least two of different length")
    assert caught.value.do == "add a shorter or a longer prompt"


@pytest.mark.parametrize("tolerance", [0.0, -1.0, math.inf, math.nan])
def test_a_tolerance_that_nothing_or_everything_passes_is_refused(tolerance: float) -> None:
    with pytest.raises(ConfigError, match=f"tolerance {tolerance}; expected a positive number; leave it out"):
        verify_model(tiny_model("llama"), PROMPTS, tolerance=tolerance)
