"""Checkpoints are found by step, and read for the task that they were trained on."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from invariscope.errors import CheckpointError, ConfigError, ForeignFileError
from invariscope.models import Transformer
from invariscope.training import find_checkpoints
from invariscope.training.checkpoints import save_weights
from invariscope.training.series import load_for
from training.toy_tasks import CHAIN, SMALL, TINY


def test_steps_are_ordered_as_numbers(tmp_path: Path) -> None:
    for name in ("step-100", "step-20", "step-3"):
        (tmp_path / f"{name}.safetensors").touch()
    assert [step for step, _ in find_checkpoints(tmp_path)] == [3, 20, 100]


def test_what_is_no_series_is_said(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="which holds no checkpoints; expected the folder of one seed"):
        find_checkpoints(tmp_path)
    with pytest.raises(CheckpointError, match="which is no folder"):
        find_checkpoints(tmp_path / "nowhere")
    (tmp_path / "final.safetensors").touch()
    with pytest.raises(ForeignFileError, match=r"final\.safetensors, whose name says no step"):
        find_checkpoints(tmp_path)


def test_a_checkpoint_is_read_for_its_task(tmp_path: Path) -> None:
    model = Transformer(TINY, generator=torch.Generator().manual_seed(0))
    path = tmp_path / "step-00000003.safetensors"
    save_weights(path, model, step=3)
    assert torch.equal(load_for(path, CHAIN).token_embedding, model.token_embedding)
    assert load_for(model, CHAIN) is model
    save_weights(path, Transformer(SMALL, generator=torch.Generator()), step=3)
    with pytest.raises(ConfigError, match="give the task that the model was trained on"):
        load_for(path, CHAIN)
