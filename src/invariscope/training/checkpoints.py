"""Checkpoints: the weights at a step, and the one state file from which a killed training goes on.

``checkpoints/step-00001200.safetensors`` holds weights alone, for whoever reads a series. ``state.safetensors`` holds weights,
optimiser and step of the last checkpoint, replaced atomically after it: whichever moment a kill strikes, one whole state is
there. There is no random state to keep: every batch is a function of (seed, step), and so is every dropout mask.

>>> import tempfile
>>> config = TransformerConfig(vocab_size=2, context_length=4, width=8, num_heads=2, mlp_width=8)
>>> path = checkpoint_path(Path(tempfile.mkdtemp()), 1200)
>>> save_weights(path, Transformer(config, generator=torch.Generator().manual_seed(0)), step=1200)
>>> path.name, load_model(path).config == config
('step-00001200.safetensors', True)
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from invariscope.errors import CheckpointError
from invariscope.models import Transformer, TransformerConfig
from invariscope.storage.records import from_json_record, to_json_record
from invariscope.storage.tensors import load_tensors, save_tensors

__all__ = [
    "checkpoint_path",
    "list_checkpoints",
    "load_checkpoint",
    "load_model",
    "load_state",
    "load_weights",
    "save_state",
    "save_weights",
]

WEIGHTS, STATE = "checkpoint", "training state"
LOG_DIGEST = "log_sha256"


def checkpoint_path(folder: Path, step: int) -> Path:
    """Where the weights at ``step`` stand."""
    return folder / "checkpoints" / f"step-{step:08d}.safetensors"


def list_checkpoints(folder: Path) -> list[Path]:
    """All checkpoints of a run, by step.

    Raises:
        CheckpointError: where there is none.
    """
    found = sorted((folder / "checkpoints").glob("step-*.safetensors"))
    if not found:
        raise CheckpointError(
            f"{folder}", expected="a run with checkpoints", do="give the folder of one trained model, or train it"
        )
    return found


def save_weights(path: Path, model: Transformer, *, step: int, log_digest: str | None = None) -> None:
    """Write the weights, the configuration that rebuilds the model, and the SHA-256 of the log of the training so far."""
    metadata = {"step": step, "model": to_json_record(model.config)} | _digest_entry(log_digest)
    save_tensors(path, model.state_dict(), kind=WEIGHTS, metadata=metadata)


def load_model(path: Path | str) -> Transformer:
    """The model of a checkpoint, in evaluation mode.

    Raises:
        ForeignFileError: for a truncated, damaged or foreign file.
        CheckpointError: where weights and configuration do not fit each other.
    """
    return load_checkpoint(path)[0]


def load_checkpoint(path: Path | str) -> tuple[Transformer, str | None]:
    """The model of a checkpoint as :func:`load_model`, and the SHA-256 of the training's log at its step, where it says one."""
    tensors, metadata = load_tensors(Path(path), kind=WEIGHTS)
    config = from_json_record(TransformerConfig, _entry(metadata, "model", path))
    # The initial weights are replaced at once; any generator does.
    model = Transformer(config, generator=torch.Generator().manual_seed(0))
    load_weights(model, tensors, str(path))
    return model.eval(), metadata.get(LOG_DIGEST)


def load_weights(model: nn.Module, tensors: Mapping[str, Tensor], name: str) -> None:
    """Copy ``tensors`` into ``model``.

    Raises:
        CheckpointError: where a weight is missing, surplus, or of another shape.
    """
    own = model.state_dict()
    wrong = [f"{key} missing" for key in own if key not in tensors]
    wrong += [f"{key} surplus" for key in tensors if key not in own]
    wrong += [
        f"{key} {list(tensors[key].shape)} for {list(value.shape)}"
        for key, value in own.items()
        if key in tensors and tensors[key].shape != value.shape
    ]
    if wrong:
        raise CheckpointError(
            f"{name}: {', '.join(wrong[:3])}{' ...' if len(wrong) > 3 else ''}",
            expected="exactly the weights of this model",
            do="give the checkpoint that belongs to this configuration",
        )
    model.load_state_dict(dict(tensors))


def save_state(
    path: Path,
    model: nn.Module,
    optimiser: torch.optim.Optimizer,
    *,
    step: int,
    losses: list[float],
    log_digest: str | None = None,
) -> None:
    """Write all that a resumed training needs."""
    tensors = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    for name, parameter in model.named_parameters():
        for key, value in optimiser.state[parameter].items():
            tensors[f"optimiser.{name}.{key}"] = value
    save_tensors(path, tensors, kind=STATE, metadata={"step": step, "losses": losses} | _digest_entry(log_digest))


def load_state(path: Path, model: nn.Module, optimiser: torch.optim.Optimizer) -> tuple[int, list[float], str | None]:
    """Bring ``model`` and ``optimiser`` to the state in ``path``.

    Returns:
        Its step, the losses since the last evaluation, and the SHA-256 of the log at that step, where the state says one.

    Raises:
        CheckpointError, ForeignFileError: as for :func:`load_model`.
    """
    tensors, metadata = load_tensors(path, kind=STATE)
    weights = {name.removeprefix("model."): tensor for name, tensor in tensors.items() if name.startswith("model.")}
    load_weights(model, weights, str(path))
    for name, parameter in model.named_parameters():
        prefix = f"optimiser.{name}."
        state: dict[str, Any] = {key.removeprefix(prefix): tensors[key] for key in tensors if key.startswith(prefix)}
        if not state:
            raise CheckpointError(f"{path}: no optimiser state for {name}", expected="one for each weight", do="train anew")
        optimiser.state[parameter] = state
    return _entry(metadata, "step", path), _entry(metadata, "losses", path), metadata.get(LOG_DIGEST)


def _digest_entry(digest: str | None) -> dict[str, str]:
    return {} if digest is None else {LOG_DIGEST: digest}


def _entry(metadata: Mapping[str, Any], name: str, path: Path | str) -> Any:
    if name not in metadata:
        raise CheckpointError(f"{path}, which does not say its {name}", expected="a file of this version", do="train anew")
    return metadata[name]
