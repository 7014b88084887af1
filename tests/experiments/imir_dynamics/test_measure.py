"""Trajectories, emergence and the grid of a tiny study."""

import math

import pytest

from experiments.imir_dynamics.tiny import TINY, findings
from invariscope.experiments.imir_dynamics.measure import Moment, measure_job, sentence
from invariscope.storage.records import to_json_record


def test_descent_goes_down_and_is_kept_at_its_moments():
    found = findings()
    assert [one.seed for one in found.trajectories] == [0, 1]
    for one in found.trajectories:
        assert [moment.step for moment in one.moments] == [0, 10, 20, 30, 40]
        assert one.moments[-1].loss < one.moments[0].loss
        assert all(0 <= moment.share <= 1 for moment in one.moments)
        assert not {name for name, _ in one.moments[-1].largest} & {"L1 [x|x] same(1, 0)", "L2 [x|a1] identity"}
    assert found.dim == 86
    # Two layers of 14 and 28 wide streams, and 8 answers over 56.
    assert found.weights == 14**2 + 28**2 + 8 * 56


def test_longer_contexts_take_longer_and_exponents_rise():
    found = findings()
    assert list(found.emergence) == sorted(found.emergence)
    assert found.exponents[0] < found.exponents[1] < 2
    assert found.exponents[0] == pytest.approx(math.log2(found.emergence[1] / found.emergence[0]))


def test_a_beginning_nearer_to_the_circuit_is_sooner():
    axis, grid = findings().axis, findings().grid
    assert axis == (-1.0, 0.5, 2.0)
    assert grid[2][2] < grid[1][1]
    # Where both are negative the circuit is as good: their product counts, where it is large enough.
    assert grid[0][2] is None or grid[0][2] > grid[2][2]


@pytest.mark.parametrize(("accuracy", "said"), [(0.15, "not learnt"), (0.5, "half learnt"), (1.0, "learnt")])
def test_a_moment_in_words(accuracy, said):
    moment = Moment(step=3, loss=1.0, accuracy=accuracy, circuits=(0.1, 2.0, -1.0), share=0.25, largest=())
    assert sentence(moment, 0.1) == (
        f"Step 3: {said} (accuracy {accuracy:.2f}, loss 1.00 nats); of the induction circuit the match leads "
        "(α 0.1, β 2.0, γ -1.0), which is 25 % of the weights."
    )


def test_a_job_is_the_same_in_json(tmp_path):
    assert measure_job(config=to_json_record(TINY), folder=str(tmp_path)) == to_json_record(findings())
