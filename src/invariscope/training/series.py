"""The checkpoints of a run as a series: found by step, read for the task that they were trained on."""

from __future__ import annotations

import re
from pathlib import Path

from invariscope.errors import CheckpointError, ConfigError, ForeignFileError
from invariscope.models import Transformer
from invariscope.tasks import Task
from invariscope.training.checkpoints import list_checkpoints, load_model
from invariscope.training.seeds import Run

__all__ = ["find_checkpoints", "load_for"]


def find_checkpoints(source: Run | Path | str) -> list[tuple[int, Path]]:
    """Step and file of every checkpoint of a run, a run's folder or a folder of checkpoints, by step.

    Raises:
        ConfigError: for a run that was trained in memory. CheckpointError: where there is no checkpoint.
        ForeignFileError: for a safetensors file whose name says no step.
    """
    if isinstance(source, Run):
        if source.folder is None:
            raise ConfigError(
                f"the run of seed {source.seed}, which was trained in memory",
                expected="a run whose checkpoints are on disk",
                do="train with folder=... and checkpoint_every=...",
            )
        source = source.folder
    folder = Path(source)
    if (folder / "checkpoints").is_dir():
        files = list_checkpoints(folder)
    else:
        # A run's own folder holds state.safetensors beside its checkpoints: that is no series.
        files = [] if (folder / "manifest.json").exists() else list(folder.glob("*.safetensors"))
    if not files:
        raise CheckpointError(
            f"{folder}, which {'holds no checkpoints' if folder.is_dir() else 'is no folder'}",
            expected="the folder of one seed, or a folder of step-00000100.safetensors, step-00000200.safetensors, ...",
            do="give such a folder, or train with checkpoint_every=...",
        )
    return sorted((_step_of(path), path) for path in files)


def _step_of(path: Path) -> int:
    found = re.fullmatch(r"step-(\d+)", path.stem)
    if found is None:
        raise ForeignFileError(
            f"{path}, whose name says no step", expected="step-00001200.safetensors", do="move it out of the folder, or rename it"
        )
    return int(found[1])


def load_for(source: Path | Transformer, task: Task) -> Transformer:
    """The model of a checkpoint, or the one that is given, if the task fits it.

    Raises:
        ConfigError: for a task that does not fit; the file is named. ForeignFileError: for a damaged or foreign checkpoint.
    """
    model = load_model(source) if isinstance(source, Path) else source
    path = source if isinstance(source, Path) else "the initial model"
    shape = model.config
    outputs = shape.num_outputs or shape.vocab_size
    if shape.vocab_size < task.vocab_size or outputs != task.num_outputs or shape.context_length < task.sequence_length:
        raise ConfigError(
            f"{path}, a model of {shape.vocab_size} tokens, {outputs} outputs and context {shape.context_length}, for the task "
            f"{task.name!r}",
            expected=f"{task.vocab_size} tokens, {task.num_outputs} outputs and a context of at least {task.sequence_length}",
            do="give the task that the model was trained on",
        )
    return model
