"""One job, text in and text out."""

from __future__ import annotations

import pytest

from invariscope.errors import ConfigError
from invariscope.parallel.outcome import Outcome, resolve_function, run_job


def test_a_result_comes_back_as_text():
    assert run_job("parallel.job_helpers:misbehave", '{"how": "", "index": 3}') == Outcome(result="3")


def test_an_exception_comes_back_in_words_with_its_traceback():
    outcome = run_job("parallel.job_helpers:misbehave", '{"how": "raise", "index": 3}')
    assert (outcome.result, outcome.error_type, outcome.error_text) == (None, "ValueError", "loss is\nnegative in job 3")
    assert outcome.error_parts is None
    assert "in misbehave" in outcome.traceback


def test_our_own_errors_come_back_in_parts():
    outcome = run_job("parallel.job_helpers:misbehave", '{"how": "own error"}')
    assert outcome.error_parts == ("invariscope.errors:RankError", "rank 9", "at most 3", "ask for a smaller rank")


@pytest.mark.parametrize(("how", "error"), [("leave", "SystemExit"), ("not JSON", "TypeError"), ("not a number", "ValueError")])
def test_leaving_and_returning_no_json_are_failures(how: str, error: str):
    assert run_job("parallel.job_helpers:misbehave", f'{{"how": "{how}"}}').error_type == error


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("misbehave", "not of that form"),
        ("parallel.job_helpers:a.b", "not of that form"),
        ("__main__:train", "not of that form"),
        ("parallel.nowhere:train", "No module named 'parallel.nowhere'"),
        ("parallel.job_helpers:trian", "has no attribute 'trian'"),
        ("parallel.job_helpers:NOT_A_FUNCTION", "a int, not a function"),
    ],
)
def test_a_function_that_cannot_be_found_is_named(name: str, reason: str):
    with pytest.raises(ConfigError) as caught:
        resolve_function(name)
    assert repr(name) in caught.value.given
    assert reason in caught.value.given
    assert "package.module:name" in caught.value.expected
    assert "importable" in caught.value.expected
    assert "move the function" in caught.value.do
