"""Many seeds: the same bits on every engine, in memory or in a folder, and folders that belong to one configuration."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from invariscope.errors import ConfigError, FolderError, ForeignFileError, UnknownNameError
from invariscope.tasks import MarkovChain
from invariscope.training import Run, TrainConfig, load_run, seed_folder, train
from training.toy_tasks import CHAIN, POST, SMALL, TINY, Described, FirstPlusLast, run_bytes

CONFIG = TrainConfig(steps=6, batch_size=4, warmup_steps=2, eval_every=3, eval_sequences=16, checkpoint_every=4)


def go(seeds: Any = (0,), **more: Any) -> list[Run]:
    arguments: dict[str, Any] = {"engine": "inline", "progress": False, "config": CONFIG, "task": CHAIN, "model": TINY} | more
    task, model, config = (arguments.pop(name) for name in ("task", "model", "config"))
    return train(task, model, config, seeds=seeds, **arguments)


def same_weights(a: Run, b: Run) -> bool:
    return all(torch.equal(x, b.model.state_dict()[name]) for name, x in a.model.state_dict().items())


def test_engines_agree_bit_for_bit_and_seeds_differ(tmp_path: Path):
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        inline = go([0, 5], folder=tmp_path / "inline", model=POST)
    finally:
        torch.set_num_threads(before)
    processes = go([0, 5], folder=tmp_path / "processes", model=POST, engine="auto", num_workers=1)
    for seed in (0, 5):
        a, b = (run_bytes(seed_folder(tmp_path / engine, seed)) for engine in ("inline", "processes"))
        assert a == b
    assert [run.seed for run in processes] == [0, 5]
    assert [run.folder for run in processes] == [tmp_path / "processes" / f"seed-000{seed}" for seed in (0, 5)]
    assert same_weights(inline[0], processes[0])
    assert not same_weights(inline[0], inline[1])
    assert [event["step"] for event in processes[1].metrics] == [3, 6]


def test_without_a_folder_the_numbers_are_the_same(tmp_path: Path):
    (in_memory,), (on_disk,) = go(), go(folder=tmp_path)
    assert in_memory.folder is None
    assert in_memory.metrics == on_disk.metrics
    assert same_weights(in_memory, on_disk)
    assert not in_memory.model.training


def test_what_is_finished_is_kept_and_new_seeds_join(tmp_path: Path):
    go([0], folder=tmp_path)
    weights = seed_folder(tmp_path, 0) / "checkpoints" / "step-00000006.safetensors"
    before = weights.stat().st_mtime_ns
    runs = go([1, 0], folder=str(tmp_path))
    assert [run.seed for run in runs] == [1, 0]
    assert weights.stat().st_mtime_ns == before


def test_a_folder_of_another_configuration_is_refused_naming_the_difference(tmp_path: Path):
    go(folder=tmp_path)
    before = run_bytes(seed_folder(tmp_path, 0))
    with pytest.raises(FolderError, match=r"seed-0000, which holds run .*train\.steps is 6 there and 7 here") as caught:
        go(folder=tmp_path, config=dataclasses.replace(CONFIG, steps=7))
    assert "another --out" in caught.value.do
    with pytest.raises(FolderError, match=r"task\.arguments\.transition"):
        go(folder=tmp_path, task=MarkovChain([[0.8, 0.2], [0.3, 0.7]], 6, name=CHAIN.name))
    assert run_bytes(seed_folder(tmp_path, 0)) == before


def test_a_task_of_your_own_trains_inline_without_a_description(tmp_path: Path):
    (run,) = go(task=FirstPlusLast(), model=SMALL, folder=tmp_path)
    assert run.metrics[-1]["step"] == 6
    (again,) = go(task=FirstPlusLast(), model=SMALL, folder=tmp_path)
    assert again.metrics == run.metrics


def test_two_tasks_of_one_name_are_told_apart_by_what_they_draw(tmp_path: Path):
    go(task=FirstPlusLast(1), model=SMALL, folder=tmp_path)
    with pytest.raises(FolderError, match=r"task\.first_rows is '[0-9a-f]{16}' there"):
        go(task=FirstPlusLast(2), model=SMALL, folder=tmp_path)


def test_a_described_task_that_no_other_process_can_import_still_trains_inline():
    class Local(Described):
        pass

    (run,) = go(task=Local(), model=SMALL)
    assert run.metrics[-1]["step"] == 6
    with pytest.raises(ConfigError, match="a class at the top of a module"):
        go(task=Local(), model=SMALL, engine="processes")


def test_a_task_without_a_description_is_refused_for_processes_with_advice(tmp_path: Path):
    with pytest.raises(ConfigError) as caught:
        go([0, 1], task=FirstPlusLast(), model=SMALL, engine="auto", folder=tmp_path)
    assert caught.value.given == "a task of type FirstPlusLast, which has no describe()"
    assert "implement describe()" in caught.value.do
    assert "engine='inline'" in caught.value.do
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("seeds", [[], [1, 1], [-1]])
def test_seeds_are_different_and_not_negative(seeds: list[int]):
    with pytest.raises(ConfigError) as caught:
        go(seeds)
    assert caught.value.given == f"seeds {seeds}"
    assert caught.value.expected == "one or more different seeds from 0 on"


def test_seeds_may_be_any_integers_and_any_iterable():
    assert [run.seed for run in go(iter(np.array([4])))] == [4]


def test_an_unknown_engine_lists_the_nearest():
    with pytest.raises(UnknownNameError, match=r"unknown engine 'process'; .*nearest: processes"):
        go(engine="process")


def test_reading_what_is_no_finished_run_is_refused(tmp_path: Path):
    with pytest.raises(ForeignFileError, match=r"manifest\.json"):
        load_run(tmp_path)
    with pytest.raises(ConfigError, match="context 3"):
        go(folder=tmp_path, model=dataclasses.replace(TINY, context_length=3))
    with pytest.raises(FolderError, match="holds a run whose status is 'failed'") as caught:
        load_run(seed_folder(tmp_path, 0))
    assert "run the same training again" in caught.value.do


def test_a_truncated_last_checkpoint_is_refused_on_reading(tmp_path: Path):
    go(folder=tmp_path)
    path = seed_folder(tmp_path, 0) / "checkpoints" / "step-00000006.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ForeignFileError, match=r"step-00000006\.safetensors, which is cut off"):
        load_run(seed_folder(tmp_path, 0))
