"""Figures show the findings' numbers, each named by a claim."""

from __future__ import annotations

import dataclasses

from experiments.markov_cores import ideal
from invariscope.experiments.markov_cores import PRESETS
from invariscope.experiments.markov_cores.claims import make_claims
from invariscope.experiments.markov_cores.figures import make_figures
from invariscope.experiments.markov_cores.findings import Findings

CONFIG = PRESETS["quick"]
GOOD = ideal.findings(CONFIG)
FIGURES = {figure.name: figure for figure in make_figures(CONFIG, GOOD)}


def test_every_claim_names_a_figure_that_exists_and_every_figure_is_named():
    assert {claim.figure for claim in make_claims(GOOD, preset="quick")} == set(FIGURES)


def test_tables_hold_the_numbers():
    losses = [row for row in FIGURES["rank_curve"].rows if row[0] == "four states (four_real)"]
    assert len({row[1] for row in losses}) == 3
    bars = {(row[1], row[2]): row[4] for row in FIGURES["ablation_bars"].rows if "four_real" in str(row[0])}
    assert bars["keep", "random"] == 1.33
    assert bars["full", "core"] == 0.92
    values = [row for row in FIGURES["transplant"].rows if row[1] == "the other seed's core"]
    assert [row[3] for row in values] == [2.024, 2.024]
    steps = [row for row in FIGURES["training_curves"].rows if row[0] == "twelve states (spread_12)"]
    assert {row[-1] for row in steps} >= {0.01, 0.0005} or {row[3] for row in steps} >= {0.01, 0.0005}


def test_optimum_line_is_the_exact_one_on_the_same_rows():
    row = next(row for row in FIGURES["ablation_bars"].rows if "four_real" in str(row[0]))
    assert row[-1] == 0.92 - 0.0005
    assert row[-2] == 1.35


def test_eigenvalue_controls_and_truth_are_drawn():
    names = {row[1] for row in FIGURES["eigenvalues"].rows}
    assert {"seed 0", "untrained", "random", "pca"} <= names
    assert any("truth" in str(cell) or "task" in str(cell) for row in FIGURES["eigenvalues"].rows for cell in row)


def test_sizes_are_drawn_by_both_rules_where_there_are_any():
    sized = dataclasses.replace(GOOD, sizes=(ideal.size(16, None), ideal.size(256)))
    figure = {figure.name: figure for figure in make_figures(CONFIG, sized)}["sizes"]
    assert [(row[1], row[3]) for row in figure.rows if row[0] == "energy .999"] == [
        ("width 16, 4 heads, 1 layer", 7.0),
        ("width 256, 4 heads, 1 layer", 7.0),
    ]
    assert [row[1] for row in figure.rows if row[0] == "causal 2 % rule"] == ["width 256, 4 heads, 1 layer"]


def test_beliefs_are_drawn_exact_and_as_read_from_the_core():
    believing = dataclasses.replace(GOOD, beliefs=(ideal.belief("six_tokens", 0), ideal.belief("six_tokens", 1)))
    figures = {figure.name: figure for figure in make_figures(CONFIG, believing)}
    rows = figures["beliefs"].rows
    assert [row[0] for row in rows] == ["six_tokens: exact belief"] * 2 + ["six_tokens: read from the core"] * 2
    assert [row[1] for row in rows] == [1, 3, 1, 3]
    assert rows[2][2:4] == (0.68, 0.22)
    assert ("six_tokens", "the exact belief, written", "core", 1.627) in [row[:4] for row in figures["belief_transplant"].rows]


def test_the_paper_s_spectrum_stands_alone():
    alone = Findings(paper=(ideal.paper(0),), paper_pairs=(ideal.paper_pair(),))
    [figure] = make_figures(PRESETS["paper"], alone)
    assert figure.name == "paper_spectrum"
    assert {row[1] for row in figure.rows} >= {"seed 0", "untrained"}


def test_similarities_show_nulls_and_the_within_panel():
    panels = {row[0] for row in FIGURES["similarity_bars"].rows}
    assert "twelve states, within groups" in panels
    assert all(row[-1] == 0.01 for row in FIGURES["similarity_bars"].rows)
