"""The figures of a followed core: frames for its steps, groups of states, and what stands beside the curves."""

from __future__ import annotations

import dataclasses

from cores.made_up_series import at_step, series
from experiments.markov_cores import ideal
from invariscope.experiments.markov_cores import PRESETS
from invariscope.experiments.markov_cores.figures import make_figures
from invariscope.experiments.markov_cores.figures_follow import draw_followed
from invariscope.experiments.markov_cores.findings import Findings, FollowFindings

SMALL = PRESETS["quick"]
MEANS = tuple((float(token), -2.0, 0.5) for token in range(12))
MADE_UP = FollowFindings(
    arm="twelve",
    seed=5,
    series=series(
        tokens=tuple(range(12)),
        checkpoints=(at_step(0, means=((0.0, 0.1, 0.2),) * 12), at_step(50, means=MEANS)),
    ),
)


def test_both_figures_move_over_its_steps():
    planes, curves = draw_followed(SMALL, Findings(followed=(MADE_UP,)))
    labels = ["step 0", "step 50"]
    assert [frame.label for frame in planes.frames] == [frame.label for frame in curves.frames] == labels
    assert planes.name == "core_over_training"
    assert "spread_12, seed 5" in planes.title
    # spread_12 has four groups of three states.
    states = [trace["name"] for trace in planes.plot["data"] if trace["name"].startswith("states ")]
    assert states == ["states 1, 5, 9", "states 2, 6, 10", "states 3, 7, 11", "states 4, 8, 12"]
    state = next(row for row in planes.rows if row[:3] == (50, "state", "12"))
    assert state[4:] == (11.0, -2.0)
    assert "Step 0 is the model before training." in planes.caption


def test_curves_stand_beside_chance_the_rank_and_the_mark_of_the_claim():
    _, curves = draw_followed(SMALL, Findings(followed=(MADE_UP,)))
    keys = [note["text"] for note in curves.plot["layout"]["annotations"] if note["name"] == "key"]
    assert keys == ["– – the task's 2", "– – the task's 2", "– – chance 0.05", "– – mark 0.03"]
    assert [row[1] for row in curves.rows] == [0, 50]


def test_the_report_has_them_where_a_model_was_followed_and_only_there():
    good = ideal.findings(SMALL)
    names = {figure.name for figure in make_figures(SMALL, dataclasses.replace(good, followed=(MADE_UP,)))}
    assert names - {figure.name for figure in make_figures(SMALL, good)} == {"core_over_training", "core_over_training_curves"}
