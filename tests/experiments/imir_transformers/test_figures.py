"""Figures hold the findings' numbers; every claim names one of them."""

from experiments.imir_transformers.tiny import TINY, language, trainings
from invariscope.experiments.imir_transformers.claims import make_claims
from invariscope.experiments.imir_transformers.figures import make_figures


def test_figures_and_claims_belong_together():
    figures = {figure.name: figure for figure in make_figures(TINY, trainings(), language())}
    assert {claim.figure for claim in make_claims(TINY, trainings(), language(), preset="tiny")} <= set(figures)
    assert set(figures) == {"coordinates", "answers", "heads"}
    told = trainings()[0].series
    assert [frame.label for frame in figures["coordinates"].frames] == list(told.sentences())
    beta = next(one.value for one in told.moments[-1].coordinates if one.name == "β")
    assert ("f_r = 0.5", "β, match", 20, beta, None, None) in figures["coordinates"].rows
    rare = sorted(one.series.moments[-1].rare for one in trainings() if one.rare_share == 0.25)
    assert ("f_r = 0.25", "rare questions", 20, sum(rare) / 2, rare[0], rare[1]) in figures["answers"].rows
    head = language().heads[5]
    assert ("attention as an induction head", "1", "1", head.induction) in figures["heads"].rows
    assert (head.layer, head.head) == (1, 1)


def test_without_a_language_model_there_are_no_heads():
    assert [figure.name for figure in make_figures(TINY, trainings(), None)] == ["coordinates", "answers"]
