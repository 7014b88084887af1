"""Jobs mapped over engines: the same numbers, the same errors."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from invariscope.errors import ConfigError, JobError, NonFiniteError, RankError, UnknownNameError
from invariscope.parallel import map_jobs, resolve_engine

TRAIN, FACTS, MISBEHAVE = (f"parallel.job_helpers:{name}" for name in ("train", "facts", "misbehave"))


def misbehaviours(*how: str, **more: Any) -> list[dict[str, Any]]:
    return [{"how": each, "index": index} | more for index, each in enumerate(how)]


def test_auto_depends_on_the_number_of_jobs_alone():
    assert [resolve_engine("auto", num) for num in (0, 1, 2, 99)] == ["inline", "inline", "processes", "processes"]
    assert [resolve_engine(engine, num) for engine in ("inline", "processes") for num in (1, 9)] == [
        "inline", "inline", "processes", "processes",
    ]  # fmt: skip


def test_engines_agree_bit_for_bit_whatever_the_callers_threads():
    jobs = [{"seed": seed} for seed in range(3)]
    before = torch.get_num_threads()
    done: list[tuple[int, Any]] = []
    try:
        torch.set_num_threads(2)
        inline = map_jobs(TRAIN, jobs, engine="inline")
        processes = map_jobs(TRAIN, jobs, engine="auto", num_workers=2, on_done=lambda *seen: done.append(seen))
    finally:
        torch.set_num_threads(before)
    assert processes == inline
    assert [result["seed"] for result in processes] == [0, 1, 2]
    assert len({tuple(result["losses"]) for result in inline}) == 3
    assert sorted(done, key=lambda seen: seen[0]) == list(enumerate(inline))


def test_on_done_is_called_in_order_inline_and_results_are_json():
    done = []
    results = map_jobs(FACTS, [{}, {}], engine="inline", on_done=lambda index, result: done.append((index, result["pid"])))
    assert done == [(0, os.getpid()), (1, os.getpid())]
    assert results[0]["tuple"] == [1, 2]
    assert map_jobs(FACTS, [], engine="auto") == []


@pytest.mark.parametrize("engine", ["inline", "processes"])
def test_a_job_that_raises_does_not_stop_the_others(engine: str, tmp_path: Path):
    jobs = misbehaviours("", "raise", "leave", "", folder=str(tmp_path))
    done: list[int] = []
    with pytest.raises(JobError) as caught:
        map_jobs(MISBEHAVE, jobs, engine=engine, num_workers=1, on_done=lambda index, _: done.append(index))
    assert sorted(done) == [0, 3]
    assert sorted(os.listdir(tmp_path)) == ["finished-0", "finished-3"]
    error = caught.value
    assert error.given.startswith(f'job 1 of 4, {MISBEHAVE} with {{"how": "raise", "index": 1, ')
    assert error.given.endswith("which raised ValueError: loss is negative in job 1")
    assert error.expected == "every job to finish (2 did not)"
    assert "--debug" in error.do
    assert "\n" not in str(error)
    assert "Traceback" not in str(error)
    traceback = getattr(error, "traceback", "")
    assert "in misbehave" in traceback
    assert "ValueError: loss is\nnegative in job 1" in traceback


def test_our_own_errors_are_raised_as_themselves():
    with pytest.raises(RankError) as caught:
        map_jobs(MISBEHAVE, misbehaviours("", "own error", "raise"), engine="inline")
    assert str(caught.value) == "rank 9; expected at most 3; ask for a smaller rank"
    assert "in misbehave" in getattr(caught.value, "traceback", "")


def test_an_error_of_ours_whose_class_cannot_be_found_is_still_reported(monkeypatch):
    monkeypatch.setattr(RankError, "__module__", "parallel.nowhere")
    with pytest.raises(JobError, match=re.escape("which raised RankError: rank 9; expected at most 3; ask for a smaller rank")):
        map_jobs(MISBEHAVE, misbehaviours("own error"), engine="inline")


def test_what_is_no_json_is_refused_going_in_and_coming_out():
    with pytest.raises(JobError, match="raised TypeError: Object of type set is not JSON serializable"):
        map_jobs(MISBEHAVE, misbehaviours("not JSON"), engine="inline")
    with pytest.raises(JobError, match="raised ValueError: Out of range float"):
        map_jobs(MISBEHAVE, misbehaviours("not a number"), engine="inline")
    with pytest.raises(ConfigError, match="the arguments of job 1 that JSON does not have"):
        map_jobs(MISBEHAVE, [{"how": ""}, {"how": Path()}], engine="inline")
    with pytest.raises(NonFiniteError, match="the arguments of job 0"):
        map_jobs(MISBEHAVE, [{"how": float("nan")}], engine="inline")


def test_long_arguments_are_shortened():
    with pytest.raises(JobError) as caught:
        map_jobs(MISBEHAVE, misbehaviours("raise", folder="x" * 5000), engine="inline")
    assert len(str(caught.value)) < 700
    assert "xxx… , which".replace(" ", "") in str(caught.value).replace(" ", "")


def test_bad_requests_are_refused_before_any_job_runs(tmp_path: Path):
    jobs = misbehaviours("", "", folder=str(tmp_path))
    with pytest.raises(UnknownNameError, match=r"unknown engine 'process'; .*nearest: processes"):
        map_jobs(MISBEHAVE, jobs, engine="process")
    with pytest.raises(ConfigError, match=r"0 workers; expected at least 1; leave it out"):
        map_jobs(MISBEHAVE, jobs, num_workers=0)
    with pytest.raises(ConfigError, match=r"the job function 'parallel\.job_helpers:nothing'"):
        map_jobs("parallel.job_helpers:nothing", jobs)
    assert os.listdir(tmp_path) == []
