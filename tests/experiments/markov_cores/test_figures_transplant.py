"""The transplants' figures: every row of the table, the costliest of each chain."""

from __future__ import annotations

import dataclasses

from experiments.markov_cores import ideal
from invariscope.experiments.markov_cores import PRESETS
from invariscope.experiments.markov_cores.figures_transplant import ROWS, draw_hidden_transplants, draw_transplants

CONFIG = PRESETS["standard"]
GOOD = ideal.findings(PRESETS["quick"])


def test_every_row_is_drawn_with_its_number():
    figure = draw_transplants(PRESETS["quick"], GOOD)
    first = [row for row in figure.rows if row[0] == figure.rows[0][0]]
    assert [row[1] for row in first] == [label for label, _ in ROWS.values()]
    numbers = {row[1]: row[3] for row in first}
    assert numbers["the other seed's core"] == 2.024
    assert numbers["cores of one direction fewer"] == 2.18
    assert (numbers["before the unembedding: core"], numbers["before the unembedding: PCA"]) == (2.0238, 2.0239)
    roles = {row[1]: row[2] for row in first}
    assert roles["own core coordinates (ceiling)"] == "core"
    assert roles["before the unembedding: core"] == "control"
    assert "discriminates nothing" in figure.caption


def test_of_each_hidden_chain_the_two_that_cost_most_are_shown():
    def costing(chain: str, seeds: tuple[int, int], cost: float):
        return dataclasses.replace(ideal.hidden_transplant(chain, seeds), cost=ideal.near(cost))

    found = (
        *(costing("six_tokens", seeds, cost) for seeds, cost in (((0, 1), 0.001), ((1, 0), 0.004), ((1, 2), 0.003))),
        costing("mess3_blurred", (0, 1), 0.002),
    )
    figure = draw_hidden_transplants(CONFIG, dataclasses.replace(GOOD, hidden_transplants=found))
    assert list(dict.fromkeys(row[0] for row in figure.rows)) == [
        "six_tokens: seed 1 into seed 0",
        "six_tokens: seed 1 into seed 2",
        "mess3_blurred: seed 0 into seed 1",
    ]
    assert "The 3 of 4 transplants" in figure.caption
