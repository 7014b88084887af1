"""One training: resumed = never stopped, whatever stopped it; it learns; and it says what is wrong."""

from __future__ import annotations

import dataclasses
import importlib
import math
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from invariscope.batch import Batch
from invariscope.errors import CheckpointError, ConfigError, ForeignFileError, NonFiniteError
from invariscope.models import Transformer, TransformerConfig
from invariscope.tasks import MarkovChain
from invariscope.tasks.task import Task
from invariscope.training import TrainConfig
from invariscope.training.checkpoints import save_state
from invariscope.training.events import read_events
from invariscope.training.train import evaluate, initial_model, train_in_folder
from training.toy_tasks import CHAIN, POST, SMALL, TINY, FirstPlusLast, Padded, Silent, run_bytes

CONFIG = TrainConfig(steps=23, batch_size=4, warmup_steps=3, eval_every=5, eval_sequences=16, checkpoint_every=7)


class StopError(Exception):
    """What interrupts a training here."""


def go(folder: Path, *, until: int | None = None, config: TrainConfig = CONFIG, task: Task = CHAIN, **more: Any) -> Transformer:
    def stop(done: int) -> None:
        if done == until:
            raise StopError

    return train_in_folder(task, more.pop("model", TINY), config, seed=3, folder=folder, on_step=stop)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("whole")
    go(folder)
    return run_bytes(folder)


def test_a_training_begins_with_the_initial_model_of_its_seed(tmp_path: Path):
    still = dataclasses.replace(CONFIG, steps=2, learning_rate=0.0)
    first, other = initial_model(TINY, 3), initial_model(TINY, 4)
    assert not first.training
    trained = go(tmp_path, config=still).state_dict()
    assert all(torch.equal(value, trained[name]) for name, value in first.state_dict().items())
    assert not all(torch.equal(value, trained[name]) for name, value in other.state_dict().items())


def test_what_a_training_leaves(whole: dict[str, bytes], tmp_path: Path):
    assert list(whole) == [
        "metrics.jsonl",
        "state.safetensors",
        *(f"checkpoints/step-{step:08d}.safetensors" for step in (7, 14, 21, 23)),
    ]
    (tmp_path / "metrics.jsonl").write_bytes(whole["metrics.jsonl"])
    events = read_events(tmp_path / "metrics.jsonl")
    assert [event["step"] for event in events] == [5, 10, 15, 20, 23]
    assert events[0].keys() >= {"train_loss", "heldout_cross_entropy", "heldout_accuracy", "heldout_divergence", "learning_rate"}
    assert events[0]["learning_rate"] > events[-1]["learning_rate"]


def test_interrupted_at_any_step_it_ends_as_if_never_stopped(whole: dict[str, bytes], tmp_path: Path):
    for until in (1, 6, 7, 8, 14, 20, 22):
        with pytest.raises(StopError):
            go(tmp_path, until=until)
    go(tmp_path)
    assert run_bytes(tmp_path) == whole
    go(tmp_path)  # what is finished stays as it is
    assert run_bytes(tmp_path) == whole


def test_interrupted_between_checkpoint_and_state(whole: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def fail_at_14(*args: Any, step: int, **kwargs: Any) -> None:
        if step == 14:
            raise StopError
        save_state(*args, step=step, **kwargs)

    # The package's function of the same name stands in front of the module.
    monkeypatch.setattr(importlib.import_module("invariscope.training.train"), "save_state", fail_at_14)
    with pytest.raises(StopError):
        go(tmp_path)
    assert (tmp_path / "checkpoints" / "step-00000014.safetensors").exists()
    monkeypatch.undo()
    go(tmp_path)
    assert run_bytes(tmp_path) == whole


def test_a_log_ahead_of_the_state_and_cut_short_is_mended(whole: dict[str, bytes], tmp_path: Path):
    with pytest.raises(StopError):
        go(tmp_path, until=11)
    with (tmp_path / "metrics.jsonl").open("a") as log:
        log.write('{"step": 12, "train_loss": 9.0}\n{"step": 15, "trai')
    go(tmp_path)
    assert run_bytes(tmp_path) == whole


# Everything that may be random is: the order of a fixed set, and the masks of POST's dropout.
KILL_CONFIG = dataclasses.replace(CONFIG, steps=200, eval_every=7, checkpoint_every=10, num_sequences=15)

# Imports once; each training is a fork that is killed at a random moment. It stops of itself 40 steps on, so that it does not end
# before it is killed however slow the killer is.
KILLER = """
import os, random, signal, sys, time
from dataclasses import replace
from pathlib import Path
import torch
torch.set_num_threads(1)
from invariscope.training.train import train_in_folder
from training.test_train import KILL_CONFIG
from training.toy_tasks import CHAIN, POST

folder, rng = Path(sys.argv[1]), random.Random(int(sys.argv[2]))

def checkpoints():
    return len(list(folder.glob("checkpoints/step-*.safetensors")))

def training():
    calls = []
    def pause(done):
        calls.append(done)
        if len(calls) == 40:
            time.sleep(600)
    train_in_folder(CHAIN, POST, KILL_CONFIG, seed=3, folder=folder, on_step=pause)

# What torch imports at its first optimiser step takes seconds; each fork would do it anew.
train_in_folder(CHAIN, POST, replace(KILL_CONFIG, steps=1), seed=3, folder=folder.with_name("warm"))
for _ in range(4):
    before, child = checkpoints(), os.fork()
    if child == 0:
        training()
        os._exit(0)
    while checkpoints() == before:
        time.sleep(0.001)
    time.sleep(rng.uniform(0, 0.03))
    os.kill(child, signal.SIGKILL)
    print(os.waitpid(child, 0)[1], checkpoints())
"""


def test_kill_9_at_random_moments_and_the_same_command_gives_the_same_bytes(tmp_path: Path):
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1]), "OMP_NUM_THREADS": "1"}
    killed = tmp_path / "killed"
    command = [sys.executable, "-c", KILLER, str(killed), "5"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    statuses, checkpoints = zip(*(map(int, line.split()) for line in done.stdout.splitlines()), strict=True)
    assert statuses == (signal.SIGKILL,) * 4
    assert 0 < checkpoints[0] < checkpoints[1] < checkpoints[2] < checkpoints[3] < 20
    go(killed, config=KILL_CONFIG, model=POST)
    go(tmp_path / "whole", config=KILL_CONFIG, model=POST)
    assert run_bytes(killed) == run_bytes(tmp_path / "whole")


def test_a_damaged_state_is_refused_and_nothing_is_overwritten(tmp_path: Path):
    with pytest.raises(StopError):
        go(tmp_path, until=8)
    state = tmp_path / "state.safetensors"
    raw = state.read_bytes()
    state.write_bytes(raw[:-5])
    before = (tmp_path / "metrics.jsonl").read_bytes()
    with pytest.raises(ForeignFileError, match=r"state\.safetensors, which is cut off"):
        go(tmp_path)
    assert (tmp_path / "metrics.jsonl").read_bytes() == before
    state.write_bytes(raw)
    with pytest.raises(CheckpointError, match="belongs to this configuration"):
        go(tmp_path, model=dataclasses.replace(TINY, width=16))
    assert (tmp_path / "metrics.jsonl").read_bytes() == before


def test_it_learns_a_chain_to_near_the_optimum(tmp_path: Path):
    task = MarkovChain([[0.9, 0.1], [0.2, 0.8]], 8)
    shape = TransformerConfig(vocab_size=2, context_length=8, width=8, num_heads=2, mlp_width=16)
    config = TrainConfig(steps=250, batch_size=32, learning_rate=1e-2, eval_every=0)
    model = train_in_folder(task, shape, config, seed=0, folder=tmp_path)
    (event,) = read_events(tmp_path / "metrics.jsonl")
    optimum = task.optimum()
    assert event["heldout_divergence"] < 0.002
    assert event["heldout_cross_entropy"] == pytest.approx(optimum.cross_entropy, abs=0.02)
    assert event["heldout_accuracy"] == pytest.approx(optimum.accuracy, abs=0.01)
    assert not model.training
    law = model(torch.tensor([[0, 1, 0, 1, 1, 0, 0, 1]])).softmax(-1)[0]
    assert torch.allclose(law[-2:], task.transition.float(), atol=0.05)


def test_the_last_forward_trains_the_same_numbers_as_the_plain_one(tmp_path: Path):
    task, events, weights = FirstPlusLast(), {}, {}
    for forward in ("plain", "last", "auto"):
        config = dataclasses.replace(CONFIG, steps=40, forward=forward)  # pyright: ignore[reportArgumentType]
        weights[forward] = train_in_folder(task, SMALL, config, seed=0, folder=tmp_path / forward).state_dict()
        events[forward] = read_events(tmp_path / forward / "metrics.jsonl")
    assert run_bytes(tmp_path / "auto") == run_bytes(tmp_path / "last")
    for name, tensor in weights["plain"].items():
        assert torch.allclose(tensor, weights["last"][name], atol=1e-4), name
    for a, b in zip(events["plain"], events["last"], strict=True):
        assert a == pytest.approx(b, abs=1e-4)
    assert events["plain"][-1]["train_loss"] < events["plain"][0]["train_loss"]
    assert "heldout_divergence" not in events["plain"][0]  # the task does not tell its law


def test_loss_positions_of_any_kind_are_the_ones_that_count(tmp_path: Path):
    first_half = MarkovChain([[0.9, 0.1], [0.3, 0.7]], 6)
    first_half.loss_positions = slice(0, 3)
    model = go(tmp_path, task=first_half, config=dataclasses.replace(CONFIG, steps=3))
    moved = (model.state_dict()["position_embedding"] - initial().state_dict()["position_embedding"]).abs().amax(1)
    assert bool((moved[:3] > 1e-3).all())
    assert float(moved[3:].max()) < 3e-4  # weight decay alone


def initial() -> Transformer:
    from invariscope.tasks import derive_seed

    return Transformer(TINY, generator=torch.Generator().manual_seed(derive_seed(3, "weights")))


def test_divergence_names_the_step(tmp_path: Path):
    config = dataclasses.replace(CONFIG, learning_rate=1e6, warmup_steps=0, weight_decay=0.0)
    with pytest.raises(NonFiniteError) as caught:
        go(tmp_path, config=config, model=dataclasses.replace(TINY, initial_scale=1e12))
    assert caught.value.given.startswith("the loss of step ")
    assert caught.value.given.rpartition(" ")[2] in ("nan", "inf")
    assert "the training diverged" in caught.value.expected
    assert caught.value.do == "lower learning_rate, or lengthen warmup_steps"


def test_divergence_in_the_very_last_update_is_noticed(tmp_path: Path):
    config = dataclasses.replace(CONFIG, steps=1, learning_rate=1e30, warmup_steps=0)
    with pytest.raises(NonFiniteError, match="the held-out cross-entropy after 1 steps, which is nan"):
        go(tmp_path, config=config)
    assert not list(tmp_path.rglob("*.safetensors"))


@pytest.mark.parametrize(
    ("changes", "given"),
    [
        ({"vocab_size": 1}, "a model of 1 tokens, 1 outputs, context 6 for the task 'two states'"),
        ({"num_outputs": 1}, "a model of 2 tokens, 1 outputs, context 6 for the task 'two states'"),
        ({"context_length": 5}, "a model of 2 tokens, 2 outputs, context 5 for the task 'two states'"),
    ],
)
def test_a_task_that_does_not_fit_is_refused_before_anything_is_written(changes: dict[str, int], given: str, tmp_path: Path):
    with pytest.raises(ConfigError) as caught:
        go(tmp_path / "new", model=dataclasses.replace(TINY, **changes))
    assert caught.value.given == given
    assert caught.value.expected == "at least 2 tokens, 2 outputs and context 6"
    assert not (tmp_path / "new").exists()


def test_a_model_with_more_outputs_than_the_task_trains(tmp_path: Path):
    go(tmp_path, model=dataclasses.replace(TINY, num_outputs=5), config=dataclasses.replace(CONFIG, steps=5))
    (event,) = read_events(tmp_path / "metrics.jsonl")
    assert event["heldout_divergence"] == pytest.approx(event["heldout_cross_entropy"] - CHAIN.entropy_rate, abs=0.1)


def test_what_a_task_must_give_is_said(tmp_path: Path):
    with pytest.raises(ConfigError, match="without targets; expected the answer at every loss position"):
        go(tmp_path / "a", task=Silent(), model=SMALL)
    with pytest.raises(ConfigError, match=r"padding on the right, trained by forward='last'.*; use forward='plain'"):
        go(tmp_path / "b", task=Padded(), model=SMALL)
    go(tmp_path / "c", task=Padded(), model=SMALL, config=dataclasses.replace(CONFIG, steps=2, forward="plain"))
    assert (tmp_path / "c" / "metrics.jsonl").exists()


def test_evaluation_by_value_and_without_traces():
    model = Transformer(dataclasses.replace(TINY, initial_scale=0.0), generator=torch.Generator()).train()
    batches = CHAIN.batches(400, batch_size=100, seed=0, pool="heldout")
    scores = evaluate(model, batches, CHAIN)
    ones = [batch.inputs["tokens"] for batch in batches]
    share = float(torch.cat(ones).double().mean())
    entropy = [-(p * math.log(p) + (1 - p) * math.log(1 - p)) for p in (0.9, 0.3)]
    assert scores["cross_entropy"] == pytest.approx(math.log(2), abs=1e-6)
    assert scores["accuracy"] == pytest.approx(0.9 * (1 - share) + 0.3 * share, abs=1e-6)
    assert scores["divergence"] == pytest.approx(math.log(2) - entropy[0] * (1 - share) - entropy[1] * share, abs=1e-6)
    assert model.training
    sampled = [Batch(inputs=batch.inputs, targets=batch.targets) for batch in batches]
    assert evaluate(model, sampled, CHAIN).keys() == {"cross_entropy", "accuracy"}
