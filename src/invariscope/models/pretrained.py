"""Pretrained language models by short name, hub id, folder or GGUF file, with their tokeniser and what is known of both.

    lm = load_language_model("smollm2-135m")       # its file comes inside a Python package: read, never executed
    lm = load_language_model("out/my-fine-tuned")  # a folder that save_pretrained wrote
    lm = load_language_model("model.gguf")         # dequantised once, kept in the user's cache
    lm = load_language_model("org/name")           # a hub id: the only case that may ask the network

The module that transformers builds runs as it is: no weight is folded or centred, and sites are hooks on its named modules
(:mod:`invariscope.sites`). Needs the extra ``llm``.
"""

from __future__ import annotations

import importlib.util
import json
import re
import reprlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import nn

from invariscope.errors import ConfigError, ForeignFileError, ObjectiveError, UnknownNameError, nearest_names, unknown_name
from invariscope.models.converted import converted_copy, quiet_transformers
from invariscope.sites import language_parts, list_sites
from invariscope.storage.shipped_models import SHIPPED_MODELS

__all__ = ["LanguageModel", "load_language_model"]

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16, "float64": torch.float64}
PADDING_SIDES = ("left", "right")
WEIGHTS = ("*.safetensors", "*.bin", "*.safetensors.index.json", "*.bin.index.json")
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_EXTRA = "pip install 'invariscope[llm]'"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LanguageModel:
    """A causal language model and its tokeniser.

    Args:
        name: as it was asked for.
        model: in evaluation mode. tokenizer: transformers' own.
        source: where the files come from. licence: where it is known.
        bos: the token that stands before every text, or "none": what the tokeniser does by default.
    """

    name: str
    model: nn.Module
    tokenizer: Any
    source: str
    licence: str
    bos: str

    def encode(self, text: str) -> list[int]:
        """Token ids of a text, the BOS token among them where the tokeniser adds one."""
        return list(self.tokenizer(text)["input_ids"])

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """The text of each token."""
        return [self.tokenizer.decode([token]) for token in ids]

    def single_token(self, text: str) -> int:
        """The id of a text that is one token after some other text, such as `` are``.

        Raises:
            ObjectiveError: where it is several, with its pieces.
        """
        ids = list(self.tokenizer(text, add_special_tokens=False)["input_ids"])
        if len(ids) != 1:
            raise ObjectiveError(
                f"{text!r}, which {self.name} splits into {self.pieces(ids)}",
                expected="one token",
                do="choose another form; most tokenisers want the leading space",
            )
        return ids[0]

    def sites(self) -> tuple[str, ...]:
        """The names of all sites, in the order of the forward pass."""
        return list_sites(self.model)

    @property
    def num_layers(self) -> int:
        """Blocks."""
        return len(language_parts(self.model).blocks)

    @property
    def width(self) -> int:
        """D of the residual stream."""
        return int(_config(self.model).hidden_size)

    @property
    def context_length(self) -> int | None:
        """The longest text in tokens, where the model has one."""
        found = getattr(_config(self.model), "max_position_embeddings", None)
        return int(found) if found else None

    def describe(self) -> dict[str, Any]:
        """What a manifest says of it; JSON."""
        parts = language_parts(self.model)
        return {
            "name": self.name,
            "source": self.source,
            "licence": self.licence,
            "family": parts.model_type,
            "layers": len(parts.blocks),
            "width": self.width,
            "dtype": str(next(self.model.parameters()).dtype).removeprefix("torch."),
            "bos": self.bos,
            "chat template": "not used",
        }


def load_language_model(
    name: str | Path,
    *,
    dtype: str | torch.dtype | None = None,
    device: torch.device | str | None = None,
    device_map: Any = None,
    attention: str | None = None,
    padding_side: str = "left",
    trust_remote_code: bool = False,
    cache: Path | None = None,
) -> LanguageModel:
    """Load a language model and its tokeniser.

    Args:
        name: a shipped name (``invariscope list --models``), a folder, a .gguf file, or a hub id.
        dtype: of the weights; None: float32.
        device: where it goes; None: where it was loaded. device_map: as in transformers, with accelerate, for weights that all
            stay in memory; not with ``device``.
        attention: transformers' implementation, such as ``eager``, which attention patterns need; None: its own choice.
        padding_side: left or right, for batches that the tokeniser itself makes. Where it has no padding token, its end of text
            stands there, or else id 0: the mask hides it.
        trust_remote_code: run code that comes with the model; never set unless you do.
        cache: where dequantised copies are kept; None: the user's cache folder.

    Raises:
        ConfigError: where the extra ``llm`` or a model's package is missing, for a folder without weights, a model or tokeniser
            that needs its own code, quantised weights, and a device map that transformers refuses or that leaves weights on the
            disk; each with what to do.
        UnknownNameError: for a name that is none of the four, an unknown dtype or padding side, with the nearest ones.
        ForeignFileError: for a damaged or truncated file.
    """
    _require_transformers()
    number = _dtype(dtype)
    if padding_side not in PADDING_SIDES:
        raise unknown_name("padding side", padding_side, PADDING_SIDES)
    if device is not None and device_map is not None:
        given = f"device {device!r} and device_map {reprlib.repr(device_map)}"
        raise ConfigError(given, expected="one of the two", do="leave one out")
    where, source, licence, local = _locate(str(name), cache)
    description = _folder_description(Path(where)) if local else _hub_description(where)
    _check_description(where, description, trust_remote_code=trust_remote_code)
    model, tokenizer = _from_pretrained(
        where, dtype=number, device_map=device_map, attention=attention, local=local, trust_remote_code=trust_remote_code
    )
    _check_in_memory(where, model, device_map)
    if device is not None:
        model = model.to(device)
    if not local and (commit := getattr(model.config, "_commit_hash", None)):
        source = f"{source} at {commit}"
    tokenizer.padding_side = padding_side
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token or tokenizer.convert_ids_to_tokens(0)
    ids = list(tokenizer("a")["input_ids"])
    first = ids[0] if ids and ids[0] == tokenizer.bos_token_id is not None else None
    bos = "none" if first is None else f"{tokenizer.bos_token!r} before every text"
    return LanguageModel(name=str(name), model=model.eval(), tokenizer=tokenizer, source=source, licence=licence, bos=bos)


def _require_transformers() -> None:
    missing = [name for name in ("transformers", "accelerate", "gguf", "platformdirs") if importlib.util.find_spec(name) is None]
    if missing:
        raise ConfigError(f"language models without {', '.join(missing)}", expected="the extra 'llm'", do=_EXTRA)


def _dtype(dtype: str | torch.dtype | None) -> torch.dtype:
    if isinstance(dtype, torch.dtype):
        return dtype
    if dtype is None:
        return torch.float32
    if dtype not in DTYPES:
        raise unknown_name("dtype", dtype, DTYPES)
    return DTYPES[dtype]


def _locate(name: str, cache: Path | None) -> tuple[str, str, str, bool]:
    """Folder or hub id, source, licence, and whether it is a folder."""

    def say(line: str) -> None:
        print(line, file=sys.stderr)

    if name in SHIPPED_MODELS:
        shipped = SHIPPED_MODELS[name]
        folder = converted_copy(shipped.paths(), sha256=shipped.sha256, cache=cache, say=say)
        packages = ", ".join(f"{package} {version}" for package, version in shipped.packages)
        return str(folder), f"packages {packages}", shipped.licence, True
    path = Path(name).expanduser()
    if path.is_dir():
        return str(path), f"folder {path}", "", True
    if path.suffix == ".gguf":
        if not path.is_file():
            raise ForeignFileError(f"{path}, which is not there", expected="a .gguf file", do="correct the path")
        return str(converted_copy([path], cache=cache, say=say)), f"file {path}", "", True
    if _HUB_ID.fullmatch(name) and not path.exists():
        return name, f"hub {name}", "", False
    near = ", ".join(nearest_names(name, SHIPPED_MODELS))
    raise UnknownNameError(
        f"language model {name!r}",
        expected=f"a shipped name ({near}), a folder, a .gguf file, or a hub id such as org/name",
        do="see invariscope list --models, or correct the path",
    )


def _folder_description(folder: Path) -> dict[str, Any]:
    """Its config.json, beside which weights lie."""
    try:
        description = json.loads((folder / "config.json").read_text("utf-8"))
        if not isinstance(description, dict):
            raise ValueError("no JSON object")
    except FileNotFoundError:
        raise ConfigError(
            f"{folder} without config.json", expected="a folder that save_pretrained wrote", do="save model and tokenizer into it"
        ) from None
    except (OSError, ValueError) as error:
        raise ForeignFileError(
            f"{folder / 'config.json'} ({error})", expected="the model's configuration as JSON", do="save the model again"
        ) from error
    if not any(any(folder.glob(pattern)) for pattern in WEIGHTS):
        raise ConfigError(
            f"{folder} without weights", expected="a .safetensors file beside config.json", do="model.save_pretrained(folder)"
        )
    return description


def _hub_description(name: str) -> dict[str, Any]:
    """Its config.json, which runs nothing."""
    from transformers import PretrainedConfig

    try:
        with quiet_transformers():
            description, _ = PretrainedConfig.get_config_dict(name)
    except Exception as error:
        raise _unloadable(name, error, local=False) from error
    return description


def _check_description(where: str, description: dict[str, Any], *, trust_remote_code: bool) -> None:
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    # Many models that transformers has taken over still name their own code: transformers' own class runs them.
    known = description.get("model_type") in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    if "auto_map" in description and not known and not trust_remote_code:
        raise _own_code(f"{where}, a model whose own code would have to run (auto_map in config.json)")
    if quantised := description.get("quantization_config"):
        kind = quantised.get("quant_method", "an unnamed method")
        raise ConfigError(
            f"{where}, whose weights are quantised ({kind})",
            expected="weights that gradients pass through",
            do="load the model that it was made from, or a GGUF file, which is dequantised",
        )


def _from_pretrained(
    where: str, *, dtype: torch.dtype, device_map: Any, attention: str | None, local: bool, trust_remote_code: bool
) -> tuple[Any, Any]:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    options: dict[str, Any] = {"local_files_only": local, "trust_remote_code": trust_remote_code}
    chosen = {} if attention is None else {"attn_implementation": attention}
    try:
        with quiet_transformers():
            model = AutoModelForCausalLM.from_pretrained(where, dtype=dtype, device_map=device_map, **chosen, **options)
            tokenizer = AutoTokenizer.from_pretrained(where, **options)
    except Exception as error:
        # Its configuration is known by now: what is left is code of the tokeniser.
        if not trust_remote_code and "trust_remote_code=True" in str(error):
            raise _own_code(f"{where}, whose tokenizer's own code would have to run") from error
        if device_map is not None and not isinstance(error, OSError | SafetensorError):
            raise ConfigError(
                f"device_map {reprlib.repr(device_map)} for {where}, which transformers cannot load so ({_cause(error)})",
                expected="'auto', a device, or a device for every part of the model",
                do="correct it, or leave it out",
            ) from error
        raise _unloadable(where, error, local=local) from error
    return model, tokenizer


def _check_in_memory(where: str, model: nn.Module, device_map: Any) -> None:
    """Refuse weights that accelerate fetches anew for each forward: no gradient and no fingerprint is taken of those."""
    if any(tensor.is_meta for tensor in model.parameters()):
        raise ConfigError(
            f"{where} with device_map {reprlib.repr(device_map)}, which leaves some weights outside the devices' memory",
            expected="weights that are all on a device",
            do="name devices that they fit on, load fewer bytes with dtype='bfloat16', or take a smaller model",
        )


def _own_code(given: str) -> ConfigError:
    return ConfigError(
        given,
        expected="a class that transformers knows",
        do="read that code, and pass trust_remote_code=True if you trust it; it is never set for you",
    )


def _cause(error: Exception) -> str:
    # Whatever transformers, safetensors or the hub raises is about what was given; its own words say what.
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


def _unloadable(where: str, error: Exception, *, local: bool) -> ForeignFileError:
    if type(error).__name__ == "UnpicklingError":
        # PyTorch's own words end with how to run what is in the file.
        return ForeignFileError(
            f"{where}, whose .bin file holds more than tensors; nothing in it was run",
            expected="a file of tensors, best a .safetensors",
            do="save the model again where you trust it: save_pretrained writes safetensors",
        )
    if local:
        do = "check the files"
    elif _told_to_stay_offline():
        do = "unset HF_HUB_OFFLINE, which forbids asking the hub for what is not cached yet, or give a folder"
    else:
        do = "check the id and the network, or give a folder"
    return ForeignFileError(
        f"{where}, which transformers cannot load ({_cause(error)})",
        expected="a causal language model with its tokenizer",
        do=do,
    )


def _told_to_stay_offline() -> bool:
    from huggingface_hub import constants

    return bool(constants.HF_HUB_OFFLINE)


def _config(model: nn.Module) -> Any:
    config: Any = model.config
    return config.get_text_config() if hasattr(config, "get_text_config") else config
