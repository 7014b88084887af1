"""Experiments are listed without torch and loaded by name."""

from __future__ import annotations

import dataclasses
import inspect
import re
import subprocess
import sys
import typing

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


def configurations(kind: type) -> set[type]:
    """The class and those of its fields, down to the last."""
    inside = [part for hint in typing.get_type_hints(kind).values() for part in (hint, *typing.get_args(hint))]
    return {kind}.union(*(configurations(part) for part in inside if dataclasses.is_dataclass(part)))


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_option_has_its_line_of_help(name: str):
    """The command line shows the line that begins with the field's name; two names on one line would be none."""
    for kind in configurations(load_experiment(name).Config):
        text = "\n".join(inspect.getdoc(base) or "" for base in kind.__mro__)
        missing = [field.name for field in dataclasses.fields(kind) if not re.search(rf"(?m)^\s+{field.name}: \S", text)]
        assert not missing, f"{kind.__module__}.{kind.__name__}: {missing}"
