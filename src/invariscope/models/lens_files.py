"""Files of TransformerLens state dicts: one becomes a model, a folder of them a series over training.

Two formats are read: safetensors, and what ``torch.save(model.state_dict(), path)`` writes (``.pt``, ``.pth``). The latter is a
pickle, which can run any code when it is read, so it goes through PyTorch's restricted reader (``weights_only=True``) and never
through another: that builds tensors and containers and calls nothing. A file that holds a whole model or a configuration object
is refused before any of it runs. Only safetensors is written.

>>> import tempfile, torch
>>> from invariscope.models.transformer import TransformerConfig
>>> config = TransformerConfig(vocab_size=5, context_length=4, width=6, num_heads=2, mlp_width=8, activation="relu")
>>> folder = Path(tempfile.mkdtemp())
>>> for step in (1000, 500):
...     save_lens(folder / f"step_{step}.safetensors", Transformer(config, generator=torch.Generator().manual_seed(step)))
>>> [step for step, path in lens_series(folder)]
[500, 1000]
>>> load_lens(lens_series(folder)[0][1]).config == config
True
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from invariscope.errors import CheckpointError, ForeignFileError
from invariscope.models.lens import LensLayout, from_lens, to_lens
from invariscope.models.transformer import Activation, Transformer, TransformerConfig
from invariscope.storage.atomic import read_bytes, write_bytes

__all__ = ["lens_series", "load_lens", "read_lens", "save_lens"]

SUFFIXES = (".safetensors", ".pt", ".pth")
# What training loops call the state dict in a file that holds more.
_CONTAINERS = ("model", "state_dict", "model_state_dict")
# How a file begins: an archive, as torch.save writes it; its older format, which begins with a magic number; any other pickle.
_ZIP, _OLD, _PICKLE = b"PK\x03\x04", b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.", b"\x80"
# Where a step stands in a name: behind the first of these words that a number follows, before "steps", or last.
_STEP = (
    *(rf"{word}s?[-_=. ]*(\d+)" for word in ("step", "iter(?:ation)?", "checkpoint", "ckpt", "epoch")),
    r"(\d+)[-_ ]?(?:step|iter(?:ation)?|epoch)s?(?![a-z])",
    r"(\d+)(?!.*\d)",
)


def load_lens(
    path: Path | str,
    *,
    config: TransformerConfig | None = None,
    activation: Activation = "relu",
    num_heads: int | None = None,
    causal: bool = True,
    folded_norm: bool = False,
) -> Transformer:
    """The transformer in a file of a TransformerLens state dict, in evaluation mode, on the CPU.

    Args:
        path: ``.safetensors``, ``.pt`` or ``.pth``.
        config, activation, num_heads, causal, folded_norm: what the file does not say; see :func:`from_lens`.

    Raises:
        ForeignFileError: as :func:`read_lens`. CheckpointError, ConfigError: as :func:`from_lens`.
    """
    return from_lens(
        read_lens(path),
        config=config,
        activation=activation,
        num_heads=num_heads,
        causal=causal,
        folded_norm=folded_norm,
        name=str(path),
    )


def save_lens(path: Path | str, model: Transformer, *, layout: LensLayout = "hooked") -> None:
    """Write the TransformerLens state dict of ``model`` as safetensors, as a whole or not at all.

    Args:
        path: ends with ``.safetensors``; folders on the way are made.
        model, layout: as for :func:`to_lens`.

    Raises:
        ForeignFileError: for another ending. ConfigError: for a model that TransformerLens does not have. FolderError: where
            the disk refuses.
    """
    from safetensors.torch import save

    if Path(path).suffix != ".safetensors":
        raise ForeignFileError(f"{path}, to be written", expected="a name that ends with .safetensors", do="change the ending")
    tensors = {key: tensor.cpu() for key, tensor in to_lens(model, layout=layout).items()}
    write_bytes(path, save(tensors, {"format": "pt"}))


def read_lens(path: Path | str) -> dict[str, Tensor]:
    """The state dict in a file, on the CPU.

    A file that holds more than a state dict (an optimiser, a step) is understood where the state dict stands under ``model``,
    ``state_dict`` or ``model_state_dict``.

    Raises:
        ForeignFileError: where the file is missing, damaged, of another ending, holds no state dict, or would have to be
            unpickled.
    """
    path = Path(path)
    if path.suffix not in SUFFIXES:
        raise ForeignFileError(f"{path}", expected=f"a name that ends with {', '.join(SUFFIXES)}", do="give a state dict's file")
    raw = read_bytes(path)
    stored = _read_safetensors(raw, path) if path.suffix == ".safetensors" else _read_weights_only(raw, path)
    found = _state_dict_in(stored)
    if not found:
        holds = ", ".join(map(str, list(stored)[:5])) if isinstance(stored, Mapping) else type(stored).__name__
        raise ForeignFileError(
            f"{path}, which holds {holds or 'nothing'}",
            expected=f"a state dict, alone or under {', '.join(_CONTAINERS)}",
            do="write it with torch.save(model.state_dict(), path)",
        )
    return found


def lens_series(folder: Path | str) -> list[tuple[int, Path]]:
    """All state dicts of a folder by step, which their names say: ``step_501.pt``, ``checkpoint-00501.pth``, ``501.safetensors``.

    Returns:
        Step and path of each; no file is opened.

    Raises:
        CheckpointError: where there is none, where one has no number, and where two have the same step.
    """
    folder = Path(folder)
    files = sorted(path for path in folder.glob("*") if path.suffix in SUFFIXES and path.is_file())
    if not files:
        raise CheckpointError(
            f"{folder}", expected=f"a folder with files {', '.join(SUFFIXES)}", do="give that of the state dicts"
        )
    series: dict[int, Path] = {}
    for path in files:
        step = _step_in(path.stem)
        if step is None or step in series:
            what = "no step in its name" if step is None else f"step {step}, as {series[step].name}"
            raise CheckpointError(
                f"{path}, with {what}", expected="one file a step, such as step_501.pt", do="rename it, or move it elsewhere"
            )
        series[step] = path
    return sorted(series.items())


def _step_in(stem: str) -> int | None:
    for pattern in _STEP:
        found = re.search(pattern, stem, re.IGNORECASE)
        if found:
            return int(found[1])
    return None


def _state_dict_in(stored: Any) -> dict[str, Tensor]:
    """The named tensors of a container, which lie flat or under a name of one; empty where there are none."""
    if not isinstance(stored, Mapping):
        return {}
    for name in _CONTAINERS:
        if isinstance(stored.get(name), Mapping):
            return _state_dict_in(stored[name])
    return {str(key): value for key, value in stored.items() if isinstance(value, Tensor)}


def _read_safetensors(raw: bytes, path: Path) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        return load(raw)
    # A type of number that torch does not have is a KeyError.
    except (SafetensorError, KeyError) as error:
        raise _damaged(path, str(error)) from error


def _read_weights_only(raw: bytes, path: Path) -> Any:
    if not raw.startswith((_ZIP, _OLD)):
        raise _unpickled(path, "a plain pickle") if raw.startswith(_PICKLE) else _damaged(path, "not what torch.save writes")
    try:
        return torch.load(io.BytesIO(raw), map_location="cpu", weights_only=True)
    # UnpicklingError, RuntimeError, EOFError and whatever else a damaged pickle makes of itself: never read further.
    except Exception as error:
        needed = re.search(r"Unsupported (?:global|class): ?(?:GLOBAL )?([\w.]+)|(TorchScript)", str(error))
        if needed is None:
            raise _damaged(path, str(error).strip().splitlines()[-1] if str(error).strip() else type(error).__name__) from error
        raise _unpickled(path, needed[1] or needed[2]) from error


def _unpickled(path: Path, what: str) -> ForeignFileError:
    return ForeignFileError(
        f"{path}, which holds more than tensors ({what}) and would run code when it is read",
        expected="a state dict alone",
        do="where you trust it, load it with what wrote it and write torch.save(model.state_dict(), path)",
    )


def _damaged(path: Path, why: str) -> ForeignFileError:
    return ForeignFileError(
        f"{path}, which is cut off, damaged, or no file of tensors ({why})",
        expected="what safetensors or torch.save(model.state_dict(), path) writes",
        do="restore it from a copy, or write it anew",
    )
