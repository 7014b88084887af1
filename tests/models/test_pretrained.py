"""Loading by name, folder and file: what is refused and how, with the network off; the real models are in their own tests."""

from __future__ import annotations

import json
import socket

import pytest
import torch

from invariscope.errors import ConfigError, ForeignFileError, ObjectiveError, UnknownNameError
from invariscope.models import load_language_model, pretrained
from tiny_language_models import save_tiny_folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_tiny_folder(tmp_path_factory.mktemp("tiny") / "model")


@pytest.fixture
def offline(monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("somebody asked the network")

    monkeypatch.setattr(socket, "create_connection", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


def test_a_folder_loads_with_the_network_off(folder, offline, capsys):
    lm = load_language_model(folder)
    assert (lm.num_layers, lm.width, lm.context_length) == (3, 32, 2048)
    assert not lm.model.training
    assert next(lm.model.parameters()).dtype == torch.float32
    assert lm.bos == "none"
    assert lm.describe()["family"] == "llama"
    assert lm.describe()["source"] == f"folder {folder}"
    assert "blocks.2.resid_post" in lm.sites()
    # Neither bars nor chatter.
    assert capsys.readouterr() == ("", "")


def test_tokens_are_the_tokeniser_s(folder):
    lm = load_language_model(folder)
    ids = lm.encode("the old key")
    assert lm.pieces(ids) == ["the", "old", "key"]
    assert lm.single_token("key") == ids[-1]
    with pytest.raises(ObjectiveError, match=r"'old key', which .* splits into \['old', 'key'\]; expected one token"):
        lm.single_token("old key")


@pytest.mark.parametrize(("dtype", "expected"), [("bfloat16", torch.bfloat16), (torch.float64, torch.float64)])
def test_numbers_are_of_the_type_that_is_asked_for(folder, dtype, expected):
    assert next(load_language_model(folder, dtype=dtype).model.parameters()).dtype == expected


def test_attention_can_be_chosen(folder):
    assert load_language_model(folder, attention="eager").model.config._attn_implementation == "eager"


def change(folder, tmp_path, **entries):
    copy = tmp_path / "copy"
    copy.mkdir()
    for path in folder.iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    config = json.loads((copy / "config.json").read_text()) | entries
    (copy / "config.json").write_text(json.dumps(config))
    return copy


def test_a_model_with_code_of_its_own_is_refused_and_never_trusted_by_itself(folder, tmp_path):
    copy = change(folder, tmp_path, auto_map={"AutoModelForCausalLM": "modeling.Own"})
    with pytest.raises(
        ConfigError, match=r"whose own code would have to run .*; expected .*trust_remote_code=True if you trust it"
    ):
        load_language_model(copy)


def test_quantised_weights_are_refused(folder, tmp_path):
    copy = change(folder, tmp_path, quantization_config={"quant_method": "gptq"})
    with pytest.raises(ConfigError, match=r"whose weights are quantised \(gptq\); expected weights that gradients pass through"):
        load_language_model(copy)


def test_a_folder_without_weights_or_configuration_is_refused(folder, tmp_path):
    with pytest.raises(ConfigError, match=r"without config\.json"):
        load_language_model(tmp_path)
    (tmp_path / "config.json").write_text((folder / "config.json").read_text())
    with pytest.raises(ConfigError, match=r"without weights; expected a \.safetensors file"):
        load_language_model(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(ForeignFileError, match=r"config\.json"):
        load_language_model(tmp_path)


def test_truncated_weights_are_named(folder, tmp_path):
    copy = change(folder, tmp_path)
    weights = copy / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:200])
    with pytest.raises(ForeignFileError, match="which transformers cannot load"):
        load_language_model(copy)


@pytest.mark.parametrize("name", ["smollm", "nowhere/at/all", "out"])
def test_a_name_that_is_nothing_gets_the_four_kinds(name, offline):
    with pytest.raises(UnknownNameError, match=r"a shipped name \(.*smollm2-135m.*a folder, a \.gguf file, or a hub id"):
        load_language_model(name)


def test_a_missing_file_and_an_unknown_dtype_are_refused(folder):
    with pytest.raises(ForeignFileError, match=r"model\.gguf, which is not there"):
        load_language_model("model.gguf")
    with pytest.raises(UnknownNameError, match="int4"):
        load_language_model(folder, dtype="int4")
    with pytest.raises(ConfigError, match="leave one out"):
        load_language_model(folder, device="cpu", device_map="auto")


def test_a_missing_extra_names_the_command(folder, monkeypatch):
    monkeypatch.setattr(pretrained.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"without transformers, accelerate, gguf; .*pip install 'invariscope\[llm\]'"):
        load_language_model(folder)
