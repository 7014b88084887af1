"""Experiments are listed without torch and loaded by name."""

from __future__ import annotations

import subprocess
import sys

import pytest

from invariscope.errors import UnknownNameError
from invariscope.experiments import EXPERIMENTS, find_experiment, load_experiment


def test_unknown_experiment_names_the_nearest():
    with pytest.raises(UnknownNameError, match=r"unknown experiment 'markov-core'.*markov-cores"):
        find_experiment("markov-core")


def test_listing_loads_no_torch():
    code = "import sys; import invariscope.experiments as e; assert e.EXPERIMENTS; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_entries_keep_what_they_promise(name: str):
    entry, experiment = EXPERIMENTS[name], load_experiment(name)
    assert entry.name == name
    assert set(entry.presets) == set(experiment.PRESETS)
    for preset in experiment.PRESETS.values():
        assert isinstance(preset, experiment.Config)
        assert len(preset.with_first_seed(100).all_seeds()) == len(preset.all_seeds())
    assert callable(experiment.run)
