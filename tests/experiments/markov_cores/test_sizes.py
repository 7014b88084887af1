"""A size of model is trained and measured by a job of JSON values."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.markov_cores.test_subjects import SMALL
from invariscope.errors import ConfigError
from invariscope.experiments.markov_cores import PRESETS, Config
from invariscope.experiments.markov_cores.findings import SizeFindings
from invariscope.experiments.markov_cores.sizes import size_job
from invariscope.storage.records import from_json_record, to_json_record
from invariscope.training import load_run, seed_folder


def test_a_job_trains_the_size_it_was_asked_for(tmp_path: Path):
    record = size_job(config=to_json_record(SMALL), folder=str(tmp_path), width=12, num_heads=3, num_layers=2)
    found = from_json_record(SizeFindings, record)
    assert found.title == "width 12, 3 heads, 2 layers"
    assert found.scanned == 8
    # Two steps teach nothing: no rule applies.
    assert (found.sufficient, found.necessary) == (None, None)
    model = load_run(seed_folder(tmp_path / "runs" / "size-12-3-2", 0)).model.config
    assert (model.width, model.num_heads, model.num_layers, model.mlp_width, model.vocab_size) == (12, 3, 2, 48, 12)


def test_standard_covers_the_range_that_was_promised():
    widths, heads, layers = (set(column) for column in zip(*PRESETS["standard"].sizes, strict=True))
    assert (min(widths), max(widths), min(heads), max(heads), layers) == (16, 256, 1, 8, {1, 2})


@pytest.mark.parametrize(("sizes", "message"), [(((30, 4, 1),), "width 30 with 4 heads"), (((16, 4, 1),) * 2, "each size once")])
def test_sizes_that_cannot_be_are_refused(sizes, message: str):
    with pytest.raises(ConfigError, match=message):
        Config(sizes=sizes)
