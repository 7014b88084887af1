"""The inline engine."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import pytest
import torch

from invariscope.parallel.inline import run_inline


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_a_job_has_one_thread_and_the_caller_keeps_its_own(two_threads: None):
    seen = []
    for index, outcome in run_inline("parallel.job_helpers:facts", ["{}", "{}"]):
        assert torch.get_num_threads() == 2
        assert outcome.result is not None
        seen.append((index, json.loads(outcome.result)))
    assert [(index, found["torch_threads"], found["pid"]) for index, found in seen] == [(0, 1, os.getpid()), (1, 1, os.getpid())]


def test_the_threads_come_back_after_a_failure_and_after_an_interrupt(two_threads: None, monkeypatch):
    (outcome,) = [found for _, found in run_inline("parallel.job_helpers:misbehave", ['{"how": "raise"}'])]
    assert outcome.error_type == "ValueError"
    assert torch.get_num_threads() == 2

    def interrupt(**_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("parallel.job_helpers.misbehave", interrupt)
    with pytest.raises(KeyboardInterrupt):
        list(run_inline("parallel.job_helpers:misbehave", ["{}"]))
    assert torch.get_num_threads() == 2
