"""Manifests and the hash of a configuration."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from invariscope.errors import ForeignFileError, NonFiniteError
from invariscope.storage.atomic import read_json
from invariscope.storage.manifest import Manifest, config_hash

CONFIG = {"model": {"width": 64, "layers": 1}, "seeds": (0, 1), "rate": 3e-3}


def manifest() -> Manifest:
    return Manifest.start(
        config=CONFIG,
        experiment="markov-cores",
        preset="quick",
        summary="one line",
        seeds=range(2),
        engine="processes",
        forward="plain",
        command="run",
    )


def test_a_manifest_comes_back_as_it_went(tmp_path: Path):
    started = manifest()
    started.save(tmp_path)
    loaded = Manifest.load(tmp_path)
    assert loaded.config == {"model": {"width": 64, "layers": 1}, "seeds": [0, 1], "rate": 3e-3}
    assert loaded.config_hash == started.config_hash == config_hash(CONFIG)
    assert loaded.seeds == (0, 1)
    assert (loaded.kind, loaded.experiment, loaded.preset) == ("experiment", "markov-cores", "quick")
    assert loaded.summary == "one line"
    assert (loaded.engine, loaded.forward, loaded.device) == ("processes", "plain", "cpu")
    assert loaded.environment == started.environment
    assert (loaded.status, loaded.finished, loaded.seconds) == ("running", None, None)


def test_the_end_is_recorded(tmp_path: Path):
    manifest().ended("failed", since=time.monotonic() - 5).save(tmp_path)
    loaded = Manifest.load(tmp_path)
    assert loaded.status == "failed"
    assert loaded.seconds is not None
    assert loaded.seconds >= 5
    assert loaded.finished is not None
    assert loaded.finished >= loaded.started
    assert loaded.started.endswith("+00:00")


@given(config=st.dictionaries(st.text(max_size=3), st.integers() | st.floats(allow_nan=False, allow_infinity=False), max_size=5))
@settings(deadline=None, derandomize=True, max_examples=50)
def test_the_hash_ignores_the_order_of_keys_and_survives_json(config):
    backwards = dict(reversed(config.items()))
    assert config_hash(config) == config_hash(backwards) == config_hash(json.loads(json.dumps(config)))


def test_the_hash_sees_every_value():
    variants = [{"a": 1}, {"a": 2}, {"a": 1.0}, {"a": "1"}, {"a": True}, {"a": [1]}, {"a": {"b": 1}}, {"b": 1}, {"a": None}, {}]
    assert len({config_hash(config) for config in variants}) == len(variants)
    with pytest.raises(NonFiniteError, match="the configuration"):
        config_hash({"a": float("nan")})


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"schema_version": 2}, "schema version 2"),
        ({"extra": 1}, "missing or unknown: extra"),
        ({"seeds": "0"}, "wrong type: seeds"),
        ({"status": "done"}, "status 'done'"),
        ({"config": {"model": 1}}, "config_hash does not fit"),
    ],
)
def test_a_manifest_that_is_not_ours_is_refused(change, problem: str, tmp_path: Path):
    manifest().save(tmp_path)
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps(read_json(path) | change))
    with pytest.raises(
        ForeignFileError, match=rf"manifest\.json, which is no manifest of ours \(.*{problem}.*; expected a .*; pass"
    ):
        Manifest.load(tmp_path)


def test_a_list_and_a_missing_file_are_refused(tmp_path: Path):
    with pytest.raises(ForeignFileError, match=r"manifest\.json, which cannot be read"):
        Manifest.load(tmp_path)
    (tmp_path / "manifest.json").write_text("[]")
    with pytest.raises(ForeignFileError, match="a list, not an object"):
        Manifest.load(tmp_path)
