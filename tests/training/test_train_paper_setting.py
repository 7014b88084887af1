"""Post-LN, dropout and a fixed set of sequences: resumed = never stopped, engines agree, and it learns."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import torch

from invariscope.errors import ConfigError, FolderError
from invariscope.models import Transformer, TransformerConfig
from invariscope.storage.records import to_json_record
from invariscope.tasks import MarkovChain, SampledBatches, describe_task
from invariscope.training import Run, TrainConfig, seed_folder, train
from invariscope.training.epochs import EpochBatches
from invariscope.training.events import read_events
from invariscope.training.seeds import train_job
from invariscope.training.train import train_in_folder
from training.toy_tasks import CHAIN, POST, SMALL, FirstPlusLast, run_bytes

# Epochs of four steps, the last of three sequences; no checkpoint falls on the end of one.
CONFIG = TrainConfig(
    steps=23, batch_size=4, num_sequences=15, warmup_steps=3, eval_every=5, eval_sequences=16, checkpoint_every=7
)


class StopError(Exception):
    """What interrupts a training here."""


def go(folder: Path, *, until: int | None = None, config: TrainConfig = CONFIG, model: TransformerConfig = POST) -> Transformer:
    def stop(done: int) -> None:
        if done == until:
            raise StopError

    return train_in_folder(CHAIN, model, config, seed=3, folder=folder, on_step=stop)


@pytest.mark.parametrize("num_sequences", [None, 15])
def test_interrupted_at_any_step_it_ends_as_if_never_stopped(num_sequences: int | None, tmp_path: Path) -> None:
    config = dataclasses.replace(CONFIG, num_sequences=num_sequences)
    go(tmp_path / "whole", config=config)
    for until in (1, 6, 7, 8, 14, 20, 22):
        with pytest.raises(StopError):
            go(tmp_path / "stopped", until=until, config=config)
    go(tmp_path / "stopped", config=config)
    assert run_bytes(tmp_path / "stopped") == run_bytes(tmp_path / "whole")


def test_every_choice_reaches_the_weights(tmp_path: Path) -> None:
    runs: dict[str, dict[str, Any]] = {
        "as it is": {},
        "without dropout": {"model": dataclasses.replace(POST, dropout=0.0)},
        "norms first": {"model": dataclasses.replace(POST, norm="pre")},
        "fresh sequences": {"config": dataclasses.replace(CONFIG, num_sequences=None)},
        "another set": {"config": dataclasses.replace(CONFIG, num_sequences=14)},
    }
    weights = {name: go(tmp_path / name, **choices).unembedding.weight for name, choices in runs.items()}
    names = list(weights)
    for index, name in enumerate(names):
        for other in names[:index]:
            assert not torch.equal(weights[name], weights[other]), f"{name} trains the weights of {other}"


def batches_read(task: Any, config: TrainConfig, monkeypatch: pytest.MonkeyPatch, folder: Path) -> list[torch.Tensor]:
    """The tokens of every training step, as the model sees them."""
    seen: list[torch.Tensor] = []
    forward = Transformer.forward

    def spy(self: Transformer, tokens: torch.Tensor) -> torch.Tensor:
        if self.training:
            seen.append(tokens)
        return forward(self, tokens)

    monkeypatch.setattr(Transformer, "forward", spy)
    train_in_folder(task, POST, config, seed=3, folder=folder)
    monkeypatch.undo()
    return seen


def test_a_training_reads_its_set_epoch_by_epoch_and_else_fresh_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fixed = batches_read(CHAIN, CONFIG, monkeypatch, tmp_path / "fixed")
    expected = EpochBatches(CHAIN, 15, batch_size=4, seed=3)
    assert [len(tokens) for tokens in fixed] == [4, 4, 4, 3] * 5 + [4, 4, 4]
    assert all(torch.equal(tokens, expected[step].inputs["tokens"]) for step, tokens in enumerate(fixed))
    fresh = batches_read(CHAIN, dataclasses.replace(CONFIG, num_sequences=None), monkeypatch, tmp_path / "fresh")
    stream = SampledBatches(CHAIN, 23 * 4, batch_size=4, seed=3, pool="train")
    assert all(torch.equal(tokens, stream[step].inputs["tokens"]) for step, tokens in enumerate(fresh))


def masks_drawn(seed: int, config: TrainConfig, monkeypatch: pytest.MonkeyPatch, folder: Path) -> list[int]:
    """What identifies the generator of each step's masks."""
    seeds: list[int] = []
    forward = Transformer.forward

    def spy(self: Transformer, tokens: torch.Tensor) -> torch.Tensor:
        if self.training:
            assert self.dropout.generator is not None
            seeds.append(self.dropout.generator.initial_seed())
        return forward(self, tokens)

    monkeypatch.setattr(Transformer, "forward", spy)
    train_in_folder(CHAIN, POST, config, seed=seed, folder=folder)
    monkeypatch.undo()
    return seeds


def test_every_step_of_every_seed_draws_masks_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seeds = [seed for number in (0, 1) for seed in masks_drawn(number, CONFIG, monkeypatch, tmp_path / str(number))]
    assert len(seeds) == len(set(seeds)) == 46


def test_a_job_of_json_values_gives_the_same_bytes_and_the_global_generator_stays(tmp_path: Path) -> None:
    config = dataclasses.replace(CONFIG, steps=9)
    before = torch.get_rng_state()
    (run,) = train(CHAIN, POST, config, seeds=[4], folder=tmp_path / "inline", progress=False)
    assert torch.equal(torch.get_rng_state(), before)
    values = {"task": describe_task(CHAIN), "model": to_json_record(POST), "config": to_json_record(config)}
    train_job(**json.loads(json.dumps(values)), seed=4, folder=str(tmp_path / "job"))
    assert run_bytes(seed_folder(tmp_path / "inline", 4)) == run_bytes(seed_folder(tmp_path / "job", 4))
    check_that_nothing_is_left(run)


def check_that_nothing_is_left(run: Run) -> None:
    assert not run.model.training
    assert run.model.dropout.generator is None
    tokens = torch.tensor([[0, 1, 1, 0, 1, 0]])
    assert torch.equal(run.model(tokens), run.model(tokens))
    with pytest.raises(ConfigError, match=r"no generator of masks; .*model\.eval\(\)"):
        run.model.train()(tokens)


def test_a_set_of_another_size_is_another_configuration(tmp_path: Path) -> None:
    config = dataclasses.replace(CONFIG, steps=2)
    train(CHAIN, POST, config, seeds=[0], folder=tmp_path, progress=False)
    with pytest.raises(FolderError, match=r"train\.num_sequences is 15 there and None here"):
        train(CHAIN, POST, dataclasses.replace(config, num_sequences=None), seeds=[0], folder=tmp_path, progress=False)


def test_dropout_trains_by_the_last_forward_too(tmp_path: Path) -> None:
    shape = dataclasses.replace(SMALL, norm="post", dropout=0.1)
    config = dataclasses.replace(CONFIG, steps=300, learning_rate=1e-2, num_sequences=81, batch_size=27, eval_every=0)
    (run,) = train(FirstPlusLast(), shape, config, seeds=[0], folder=tmp_path, progress=False)
    assert run.metrics[-1]["heldout_cross_entropy"] < 0.2
    assert run.metrics[-1]["heldout_accuracy"] > 0.95


def test_post_norm_with_dropout_on_a_fixed_set_learns_a_chain_to_near_the_optimum(tmp_path: Path) -> None:
    task = MarkovChain([[0.9, 0.1], [0.2, 0.8]], 8)
    shape = dataclasses.replace(POST, context_length=8, width=16, mlp_width=32)
    config = TrainConfig(steps=240, batch_size=32, num_sequences=500, learning_rate=1e-2, eval_every=0)
    train_in_folder(task, shape, config, seed=0, folder=tmp_path)
    (event,) = read_events(tmp_path / "metrics.jsonl")
    assert event["heldout_divergence"] < 0.005
