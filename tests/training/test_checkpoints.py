"""Checkpoints: bit for bit there and back, and refused by name where they are not whole or not ours."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch
from torch import nn

from invariscope.errors import CheckpointError, ForeignFileError
from invariscope.models import Transformer
from invariscope.storage.tensors import load_tensors, save_tensors
from invariscope.training import list_checkpoints, load_model
from invariscope.training.checkpoints import checkpoint_path, load_state, save_state, save_weights
from training.toy_tasks import TINY


def model(seed: int = 0, **changes: int) -> Transformer:
    return Transformer(dataclasses.replace(TINY, **changes), generator=torch.Generator().manual_seed(seed))


def optimiser_of(net: nn.Module, steps: int = 0) -> torch.optim.AdamW:
    optimiser = torch.optim.AdamW(net.parameters(), fused=True)
    for _ in range(steps):
        optimiser.zero_grad()
        net(torch.zeros(2, 6, dtype=torch.long)).logsumexp(-1).sum().backward()
        optimiser.step()
    return optimiser


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = checkpoint_path(tmp_path, 1200)
    save_weights(found, model(), step=1200)
    return found


def test_weights_and_configuration_come_back_bit_for_bit(path: Path):
    loaded, original = load_model(path), model()
    assert loaded.config == original.config
    assert not loaded.training
    for (name, a), (other, b) in zip(loaded.state_dict().items(), original.state_dict().items(), strict=True):
        assert name == other
        assert torch.equal(a, b)
    assert load_tensors(path, kind="checkpoint")[1]["step"] == 1200


def test_equal_models_give_equal_bytes(path: Path):
    first = path.read_bytes()
    save_weights(path, model(), step=1200)
    assert path.read_bytes() == first


def test_checkpoints_are_listed_by_step(path: Path):
    folder = path.parents[1]
    for step in (5, 100_000_000, 300):
        save_weights(checkpoint_path(folder, step), model(), step=step)
    (path.parent / ".step-00000007.safetensors.0123abcd.tmp").touch()
    assert [found.name for found in list_checkpoints(folder)] == [
        "step-00000005.safetensors",
        "step-00000300.safetensors",
        "step-00001200.safetensors",
        "step-100000000.safetensors",
    ]


def test_a_folder_without_checkpoints_is_refused(tmp_path: Path):
    with pytest.raises(CheckpointError) as caught:
        list_checkpoints(tmp_path)
    assert caught.value.given == str(tmp_path)
    assert caught.value.expected == "a run with checkpoints"
    assert "train it" in caught.value.do


@pytest.mark.parametrize("share", [0.0, 0.001, 0.5, 0.999])
def test_a_truncated_checkpoint_is_refused_by_name(path: Path, share: float):
    raw = path.read_bytes()
    path.write_bytes(raw[: int(share * len(raw))])
    with pytest.raises(ForeignFileError, match=rf"{path.name}, which is cut off, damaged") as caught:
        load_model(path)
    assert "restore it" in caught.value.do


@pytest.mark.parametrize("share", [0.3, 0.7, 0.9999])
def test_one_bit_is_noticed(path: Path, share: float):
    raw = bytearray(path.read_bytes())
    raw[int(share * len(raw))] ^= 1
    path.write_bytes(raw)
    with pytest.raises(ForeignFileError, match=path.name):
        load_model(path)


def test_a_foreign_file_is_refused_by_name(path: Path):
    save_tensors(path, {"mean": torch.zeros(2)}, kind="core", metadata={})
    with pytest.raises(ForeignFileError, match=rf"{path.name}, which holds a core; expected a checkpoint"):
        load_model(path)
    path.write_text("not a model")
    with pytest.raises(ForeignFileError, match=path.name):
        load_model(path)
    save_tensors(path, {"mean": torch.zeros(2)}, kind="checkpoint", metadata={"step": 3})
    with pytest.raises(CheckpointError, match=rf"{path.name}, which does not say its model"):
        load_model(path)


def test_weights_that_do_not_fit_the_configuration_are_named(path: Path):
    tensors, metadata = load_tensors(path, kind="checkpoint")
    tensors["token_embedding"] = torch.zeros(2, 5)
    tensors["extra"] = torch.zeros(1)
    del tensors["position_embedding"]
    save_tensors(path, tensors, kind="checkpoint", metadata=metadata)
    with pytest.raises(CheckpointError) as caught:
        load_model(path)
    assert caught.value.given == (
        f"{path}: position_embedding missing, extra surplus, token_embedding [2, 5] for [2, 8]"
    )  # fmt: skip
    assert caught.value.expected == "exactly the weights of this model"


def test_only_the_first_three_faults_are_listed(path: Path):
    tensors, metadata = load_tensors(path, kind="checkpoint")
    save_tensors(path, {"extra": tensors["unembedding.weight"]}, kind="checkpoint", metadata=metadata)
    with pytest.raises(CheckpointError) as caught:
        load_model(path)
    assert caught.value.given.endswith(" ...")
    assert caught.value.given.count("missing") == 3


def test_the_state_brings_weights_and_optimiser_back_bit_for_bit(tmp_path: Path):
    net = model()
    optimiser = optimiser_of(net, steps=3)
    save_state(tmp_path / "state.safetensors", net, optimiser, step=3, losses=[0.1, 1 / 3], log_digest="ab")
    other = model(seed=1)
    restored = optimiser_of(other)
    assert load_state(tmp_path / "state.safetensors", other, restored) == (3, [0.1, 1 / 3], "ab")
    for (name, a), (_, b) in zip(net.named_parameters(), other.named_parameters(), strict=True):
        assert torch.equal(a, b), name
        assert optimiser.state[a].keys() == restored.state[b].keys() == {"step", "exp_avg", "exp_avg_sq"}
        assert all(torch.equal(optimiser.state[a][key], restored.state[b][key]) for key in restored.state[b])


def test_the_state_of_another_model_is_refused_by_name(tmp_path: Path):
    net, path = model(width=16), tmp_path / "state.safetensors"
    save_state(path, net, optimiser_of(net, steps=1), step=1, losses=[])
    other = model()
    with pytest.raises(CheckpointError, match=r"state\.safetensors: token_embedding \[2, 16\] for \[2, 8\]"):
        load_state(path, other, optimiser_of(other))


def test_a_state_without_optimiser_or_step_is_refused(tmp_path: Path):
    net, path = model(), tmp_path / "state.safetensors"
    save_state(path, net, optimiser_of(net), step=1, losses=[])
    with pytest.raises(CheckpointError, match=r"no optimiser state for token_embedding; expected one for each weight"):
        load_state(path, net, optimiser_of(net))
    save_state(path, net, optimiser_of(net, steps=1), step=1, losses=[])
    tensors, _ = load_tensors(path, kind="training state")
    save_tensors(path, tensors, kind="training state", metadata={})
    with pytest.raises(CheckpointError, match="does not say its step"):
        load_state(path, net, optimiser_of(net))


def test_a_checkpoint_is_no_state(path: Path):
    net = model()
    with pytest.raises(ForeignFileError, match="holds a checkpoint; expected a training state"):
        load_state(path, net, optimiser_of(net))
