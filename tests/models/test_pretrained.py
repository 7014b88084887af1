"""Loading by name, folder and file: what is refused and how, with the network off; the real models are in their own tests."""

from __future__ import annotations

import json
import socket
import sys
from pathlib import Path

import huggingface_hub
import pytest
import torch
import transformers

from invariscope.errors import ConfigError, ForeignFileError, ObjectiveError, UnknownNameError
from invariscope.models import load_language_model, pretrained
from tiny_language_models import save_tiny_folder, tiny_model


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


OWN_CODE = {"model_type": "own", "auto_map": {"AutoModelForCausalLM": "modeling.Own"}}


def test_a_model_with_code_of_its_own_is_refused_and_never_trusted_by_itself(folder, tmp_path):
    copy = change(folder, tmp_path, **OWN_CODE)
    with pytest.raises(
        ConfigError, match=r"whose own code would have to run .*; expected .*trust_remote_code=True if you trust it"
    ):
        load_language_model(copy)


def with_code(folder: Path) -> Path:
    """A file that says so once any of the folder's own code runs."""
    (folder / "modeling.py").write_text(
        f"open({str(folder / 'ran')!r}, 'w').close()\n"
        "from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast\n"
        "class OwnConfig(LlamaConfig):\n    model_type = 'own'\n"
        "class Own(LlamaForCausalLM):\n    config_class = OwnConfig\n"
        "class OwnTokenizer(PreTrainedTokenizerFast):\n    pass\n"
    )
    return folder / "ran"


@pytest.fixture
def modules_cache(tmp_path, monkeypatch):
    monkeypatch.setattr(transformers.dynamic_module_utils, "HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.setattr("sys.path", [*sys.path])


def test_own_code_runs_only_where_it_is_asked_for(folder, tmp_path, modules_cache):
    auto_map = {"AutoConfig": "modeling.OwnConfig", "AutoModelForCausalLM": "modeling.Own"}
    copy = change(folder, tmp_path, model_type="own", auto_map=auto_map)
    ran = with_code(copy)
    with pytest.raises(ConfigError, match=r"never set for you"):
        load_language_model(copy)
    assert not ran.exists()
    assert type(load_language_model(copy, trust_remote_code=True).model).__name__ == "Own"
    assert ran.exists()


def test_own_code_of_a_tokeniser_is_refused_by_its_name(folder, tmp_path, modules_cache):
    copy = change(folder, tmp_path)
    ran = with_code(copy)
    own = {"tokenizer_class": "OwnTokenizer", "auto_map": {"AutoTokenizer": [None, "modeling.OwnTokenizer"]}}
    path = copy / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | own))
    with pytest.raises(ConfigError, match=r"whose tokenizer's own code would have to run; .*never set for you"):
        load_language_model(copy)
    assert not ran.exists()
    assert type(load_language_model(copy, trust_remote_code=True).tokenizer).__name__ == "OwnTokenizer"


def test_a_model_that_transformers_has_taken_over_needs_no_code_of_its_own(folder, tmp_path):
    copy = change(folder, tmp_path, auto_map=OWN_CODE["auto_map"])
    ran = with_code(copy)
    assert type(load_language_model(copy).model).__module__.startswith("transformers.")
    assert not ran.exists()


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
    for content in ("{", "[]"):
        (tmp_path / "config.json").write_text(content)
        with pytest.raises(ForeignFileError, match=r"config\.json"):
            load_language_model(tmp_path)


def test_truncated_weights_are_named(folder, tmp_path):
    copy = change(folder, tmp_path)
    weights = copy / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:200])
    with pytest.raises(ForeignFileError, match="which transformers cannot load"):
        load_language_model(copy)


class Runs:
    """Unpickling it creates a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def test_a_pickle_of_tensors_is_read_without_running_anything_and_another_is_refused(folder, tmp_path):
    copy, model = change(folder, tmp_path), tiny_model("llama")
    (copy / "model.safetensors").unlink()
    torch.save(model.state_dict(), copy / "pytorch_model.bin")
    ids = torch.tensor([[1, 2, 3]])
    assert torch.equal(load_language_model(copy).model(ids).logits, model(ids).logits)
    torch.save(model.state_dict() | {"more": Runs(tmp_path / "ran")}, copy / "pytorch_model.bin")
    with pytest.raises(
        ForeignFileError, match=r"whose \.bin file holds more than tensors; nothing in it was run; .*writes safetensors"
    ):
        load_language_model(copy)
    assert not (tmp_path / "ran").exists()


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


@pytest.mark.parametrize("side", ["left", "right"])
def test_the_tokeniser_pads_on_the_side_that_is_asked_for_with_an_id_that_the_mask_hides(folder, side):
    lm = load_language_model(folder, padding_side=side)
    padded = lm.tokenizer(["old", "the old key"], padding=True)
    number = padded["input_ids"][0].index(lm.single_token("old"))
    assert number == (2 if side == "left" else 0)
    assert padded["attention_mask"][0] == [int(place == number) for place in range(3)]
    # What the tokeniser has; id 0, where it has no end of text.
    assert lm.tokenizer.pad_token_id == 0


def test_an_end_of_text_stands_on_padding_and_a_padding_token_of_its_own_stays(folder, tmp_path):
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    copy = change(folder, tmp_path)
    tokenizer.eos_token = "keys"
    tokenizer.save_pretrained(copy)
    assert load_language_model(copy).tokenizer.pad_token == "keys"
    # Id 0 is a token like any other, not a missing one.
    tokenizer.pad_token = "<unk>"
    tokenizer.save_pretrained(copy)
    assert load_language_model(copy).tokenizer.pad_token_id == 0


def test_an_unknown_padding_side_is_refused(folder):
    with pytest.raises(UnknownNameError, match="unknown padding side 'middle'"):
        load_language_model(folder, padding_side="middle")


@pytest.mark.parametrize(
    ("description", "message"),
    [
        ({"quantization_config": {"quant_method": "bitsandbytes"}}, r"org/name, whose weights are quantised \(bitsandbytes\)"),
        (OWN_CODE, "org/name, a model whose own code would have to run"),
    ],
)
def test_a_hub_id_is_refused_by_its_description_before_its_weights_are_fetched(description, message, offline, monkeypatch):
    monkeypatch.setattr(transformers.PretrainedConfig, "get_config_dict", lambda name: (description, {}))
    with pytest.raises(ConfigError, match=message):
        load_language_model("org/name")


def test_a_hub_id_that_is_not_there_says_what_to_do_with_and_without_a_network(offline, monkeypatch):
    def fail(name):
        raise OSError("no connection")

    monkeypatch.setattr(transformers.PretrainedConfig, "get_config_dict", fail)
    with pytest.raises(ForeignFileError, match=r"org/name, .*OSError: no connection.*check the id and the network"):
        load_language_model("org/name")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(ForeignFileError, match="unset HF_HUB_OFFLINE"):
        load_language_model("org/name")


def test_the_hub_s_commit_stands_in_the_source(folder, monkeypatch):
    found = load_language_model(folder)
    found.model.config._commit_hash = "0123abc"
    monkeypatch.setattr(transformers.PretrainedConfig, "get_config_dict", lambda name: ({}, {}))
    monkeypatch.setattr(pretrained, "_from_pretrained", lambda where, **options: (found.model, found.tokenizer))
    assert load_language_model("org/name").source == "hub org/name at 0123abc"


def test_a_missing_extra_names_the_command(folder, monkeypatch):
    monkeypatch.setattr(pretrained.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(
        ConfigError, match=r"without transformers, accelerate, gguf, platformdirs; .*pip install 'invariscope\[llm\]'"
    ):
        load_language_model(folder)
