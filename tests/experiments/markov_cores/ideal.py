"""Findings of a study in which everything came out as claimed: what tests spoil one number at a time."""

from __future__ import annotations

import itertools

from invariscope.cores import RankCurve
from invariscope.cores.validate import EffectRow
from invariscope.estimate import Estimate, Similarity
from invariscope.experiments.markov_cores.config import Config
from invariscope.experiments.markov_cores.findings import (
    BeliefFindings,
    Findings,
    ModelFindings,
    PairFindings,
    PaperFindings,
    PaperPairFindings,
    SiteFindings,
    SizeFindings,
    SpectrumControl,
    SpectrumFindings,
    TransplantFindings,
    UntrainedFindings,
    WrittenFindings,
)


def near(value: float, half_width: float = 0.0001, **fields) -> Estimate:
    return Estimate(value=value, low=value - half_width, high=value + half_width, num=1000, **fields)


def site(rank: int, name: str = "blocks.0.resid_mid") -> SiteFindings:
    ranks = tuple(range(1, 9))
    effects = [EffectRow(name="model", edit="full", metric="cross_entropy", estimate=near(0.92, chance=1.35))]
    for subject, values in {
        "core": (0.92, 1.35, 2.6),
        "random": (1.33, 0.921, 0.93),
        "pca": (0.93, 1.3, 2.5),
        "gradient": (0.92, 1.35, 2.6),
    }.items():
        effects += [
            EffectRow(name=subject, edit=edit, metric="cross_entropy", estimate=near(value, chance=1.35))
            for edit, value in zip(("keep", "remove", "flip"), values, strict=True)
        ]
    return SiteFindings(
        site=name,
        rank=rank,
        singular_values=tuple(0.5**k for k in range(12)),
        energy_99=rank,
        energy_999=rank + 2,
        gap=rank,
        curve=RankCurve(
            metric="cross_entropy",
            unit="nats",
            projection="oblique",
            ranks=ranks,
            keep=tuple(0.92 if k >= rank else 1.2 for k in ranks),
            remove=tuple(1.35 if k >= rank else 1.1 for k in ranks),
            full=0.92,
            mean=1.351,
            chance=1.35,
            num=1000,
        ),
        sufficient=rank,
        necessary=rank,
        keep_change={"activation": near(0.005), "adjoint": near(0.0003), "oblique": near(0.0002)},
        removed=near(1.002),
        effects=tuple(effects),
    )


def spectrum(coordinates: str) -> SpectrumFindings:
    expected = ((0.67, 0.0), (0.5, 0.0), (-0.47, 0.0))
    return SpectrumFindings(
        coordinates=coordinates,
        expected=expected,
        eigenvalues=((0.668, 0.0), (0.497, 0.0), (-0.468, 0.0)),
        intervals=tuple((real - 0.01, real + 0.01, -0.001, 0.001) for real, _ in expected),
        error=near(0.006, 0.003),
        core_error=near(0.03, 0.003),
        counts_error=0.003,
        r2_heldout=near(0.35),
        null_r2=0.0001,
        controls=tuple(
            SpectrumControl(name=name, errors=(error, error + 0.1), eigenvalues=((0.1, 0.2), (0.1, -0.2), (0.0, 0.0)))
            for name, error in (("untrained", 0.5), ("random", 0.3), ("pca", 0.03))
        ),
    )


def model(arm: str, seed: int) -> ModelFindings:
    rank = 2 if arm == "rank_two" else 3
    return ModelFindings(
        arm=arm,
        seed=seed,
        divergence=near(0.0005),
        chance=0.4,
        resid_mid=site(rank),
        final_norm=site(rank, "final_norm"),
        spectrum=None if arm == "rank_two" else spectrum("core" if arm == "real" else "law"),
        steps=(50, 100),
        curve=(0.01, 0.0005),
        untrained=UntrainedFindings(divergence=near(0.4), energy_99=5, energy_999=12, final_norm_change=near(1e-9, 1e-10)),
    )


def similarity(*heldout: float) -> Similarity:
    return Similarity(
        name="cca",
        value=sum(heldout) / len(heldout),
        heldout=sum(heldout) / len(heldout),
        components=heldout,
        heldout_components=heldout,
        heldout_intervals=tuple((value - 0.001, min(1.0, value + 0.001)) for value in heldout),
        null_mean=0.01,
        null_low=0.0,
        null_high=0.02,
        null_components=(0.01,) * len(heldout),
        num_fit=100,
        num_heldout=100,
        dims=(3, 3),
        rank=3,
        num_permutations=200,
    )


def overlap(value: float) -> Similarity:
    return Similarity(
        name="overlap",
        value=value,
        components=(value,) * 3,
        null_mean=0.047,
        null_low=0.015,
        null_high=0.097,
        dims=(64, 64),
        rank=3,
    )


def pair(arm: str, seeds: tuple[int, int]) -> PairFindings:
    grouped = arm == "twelve"
    return PairFindings(
        arm=arm,
        seeds=seeds,
        cca=similarity(0.999, 0.998, 0.03 if arm == "rank_two" else 0.997),
        untrained=similarity(0.6, 0.4, 0.2),
        mixed=similarity(0.6, 0.4, 0.1),
        random=similarity(0.6, 0.4, 0.1),
        within=similarity(0.99, 0.98, 0.97) if grouped else None,
        within_untrained=similarity(0.3, 0.2, 0.1) if grouped else None,
        overlap=overlap(0.05),
        weight_cosine=-0.01,
        untrained_cosine=0.012,
        transplants=tuple(transplant(order) for order in (seeds, seeds[::-1])) if grouped else (),
    )


def transplant(seeds: tuple[int, int]) -> TransplantFindings:
    return TransplantFindings(
        arm="twelve",
        seeds=seeds,
        base=near(2.023),
        ceiling=near(2.0235),
        donor=near(2.024),
        recipient=near(2.95),
        shuffled=near(2.44),
        cost=near(0.001),
        r2=near(0.998),
        untrained=near(2.4),
        random=near(2.35),
        random_pair=near(2.93),
        pca=near(2.05),
        smaller=near(2.18),
        final_norm=near(2.0238),
        final_norm_pca=near(2.0239),
    )


def hidden_transplant(chain: str, seeds: tuple[int, int]) -> TransplantFindings:
    return TransplantFindings(
        arm=chain,
        seeds=seeds,
        base=near(1.623),
        ceiling=near(1.6234),
        donor=near(1.624),
        recipient=near(1.95),
        shuffled=near(1.73),
        cost=near(0.001),
        r2=near(0.99),
        untrained=near(1.75),
        random=near(1.74),
        random_pair=near(1.9),
        pca=near(1.65),
        smaller=near(1.68),
        final_norm=near(1.6236),
        final_norm_pca=near(1.6237),
    )


def size(width: int, rank: int | None = 3) -> SizeFindings:
    return SizeFindings(
        width=width,
        num_heads=4,
        num_layers=1,
        sufficient=rank,
        necessary=3,
        scanned=8,
        energy_99=3,
        energy_999=7,
        divergence=near(0.0005),
    )


def belief(chain: str, seed: int = 0) -> BeliefFindings:
    written = WrittenFindings(
        own=near(1.626),
        optimum=near(1.624),
        belief=near(1.627),
        cost=near(0.001),
        last_token=near(1.72),
        random=near(1.73),
        untrained=near(1.76),
    )
    return BeliefFindings(
        chain=chain,
        seed=seed,
        divergence=near(0.001),
        resid_mid=near(0.96),
        final_norm=near(0.985),
        untrained_resid_mid=near(0.3),
        untrained_final_norm=near(0.3),
        last_two_tokens=near(0.65),
        residual=near(0.98),
        residual_without_core=near(0.94),
        untrained_residual=near(0.8),
        written=written,
        points=((0.7, 0.2, 0.68, 0.22), (0.1, 0.1, 0.12, 0.09)),
    )


def paper(seed: int, **changes) -> PaperFindings:
    fields = {
        "seed": seed,
        "energy_999": 3,
        "untrained_energy_999": 3,
        "keep": near(0.0, 0.0),
        "remove": near(0.23, 0.003, chance=0.25),
        "eigenvalues": ((0.75, 0.25), (0.75, -0.25), (0.49, 0.0)),
        "intervals": ((0.74, 0.76, 0.24, 0.26), (0.74, 0.76, -0.26, -0.24), (0.48, 0.5, 0.0, 0.0)),
        "pair_error": near(0.002, 0.001),
        "real_error": near(0.01, 0.001),
        "untrained_eigenvalues": ((0.7, 0.2), (0.7, -0.2), (0.4, 0.0)),
        "untrained_pair_error": 0.07,
        "untrained_real_error": 0.1,
        "random_pair_error": 0.3,
        "random_real_error": 0.2,
        "pca_pair_error": 0.002,
    }
    return PaperFindings(**(fields | changes))


def paper_pair(cca: Similarity | None = None) -> PaperPairFindings:
    return PaperPairFindings(
        seeds=(0, 100),
        cca=cca or similarity(0.999, 0.99, 0.95),
        untrained=similarity(0.8, 0.5, 0.2),
        overlap=overlap(0.05),
        weight_cosine=0.01,
    )


def findings(config: Config) -> Findings:
    return Findings(
        models=tuple(model(arm, seed) for arm, settings in config.arms().items() for seed in settings.seeds),
        pairs=tuple(
            pair(arm, seeds) for arm, settings in config.arms().items() for seeds in itertools.combinations(settings.seeds, 2)
        ),
    )
