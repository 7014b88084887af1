"""A run folder as ``invariscope run`` would leave it, with made-up numbers: every verdict, every kind of figure."""

import dataclasses
from math import cos, pi, sin
from pathlib import Path

from invariscope.figures import (
    Ablation,
    AblationBars,
    Box,
    CoreMoment,
    CoreOverTraining,
    Eigenvalues,
    FollowCurve,
    FollowCurves,
    RankCurves,
    RankSeries,
    SimilarityBar,
    SimilarityBars,
    Spectrum,
    TrainingCurve,
    TrainingCurves,
    draw_ablation_bars,
    draw_core_over_training,
    draw_eigenvalues,
    draw_follow_curves,
    draw_rank_curve,
    draw_similarity_bars,
    draw_training_curves,
)
from invariscope.storage import Claim, Control, Manifest, Mark, write_claims

ARMS = {"four_real": (0, 1, 2), "spread_12": (0, 1, 2), "four_rank_two": (0, 1)}
LABEL_WITH_MARKUP = "<b>&\"'</b></script>"


def rank_curve():
    keep = (62.0, 19.4, 0.12, 0.08, 0.05, 0.02, 0.01, 0.0)
    removed = (48.0, 88.2, 100.6, 101.2, 101.0, 100.8, 100.9, 101.1)
    singular = (1.0, 0.63, 0.27, 0.013, 0.0061, 0.0032, 0.0011, 0.0004)
    series = []
    for arm, seeds in ARMS.items():
        rank = 2 if arm == "four_rank_two" else 3
        for seed in seeds:
            factor = 1 + 0.05 * seed
            shift = 3 - rank
            series.append(
                RankSeries(
                    panel=arm,
                    name=f"seed {seed}",
                    rank=rank,
                    keep_loss=tuple(value * factor for value in (keep[shift:] + (0.0,) * shift)),
                    removed=tuple(value / factor**0.1 for value in (removed[shift:] + (101.0,) * shift)),
                    singular_values=tuple(value / factor if i else 1.0 for i, value in enumerate(singular)),
                )
            )
    return draw_rank_curve(RankCurves(series=tuple(series), where="blocks.0.resid_mid, oblique"))


def ablation_bars():
    chance = {"four_real": 1.3584, "spread_12": 2.436, "four_rank_two": 1.3349}
    optimum = {"four_real": 0.9258, "spread_12": 2.0215, "four_rank_two": 1.0985}
    bars = []
    for arm in ARMS:
        low, high = optimum[arm], chance[arm]
        table = {
            "core": (low, low + 0.0008, high, high + 0.55),
            "random": (low, high - 0.03, low + 0.02, low + 0.06),
            "pca": (low, low + 0.05, high - 0.09, high + 0.42),
            "gradient": (low, low + 0.16, high - 0.06, high + 0.3),
            "untrained": (high + 0.05, high + 0.03, high + 0.02, high + 0.04),
        }
        for name, values in table.items():
            for edit, value in zip(("full", "keep", "remove", "flip"), values, strict=True):
                role = "core" if name == "core" else "control"
                spread = 0.004 if role == "core" else 0.03
                bar = Ablation(panel=arm, edit=edit, name=name, value=value, low=value - spread, high=value + spread, role=role)
                bars.append(bar)
    numbers = AblationBars(bars=tuple(bars), chance=chance, optimum=optimum, where="blocks.0.resid_mid, rank 3")
    return draw_ablation_bars(numbers)


def eigenvalues():
    truth = {
        "four_real": (0.674 + 0j, 0.498 + 0j, -0.472 + 0j),
        "four_paper": (0.75 + 0.25j, 0.75 - 0.25j, 0.5 + 0j),
        "spread_12": (0.61 + 0.2j, 0.61 - 0.2j, -0.33 + 0j),
    }
    spectra = []
    for arm, values in truth.items():
        for seed in (0, 1, 2):
            moved = tuple(v + 0.006 * (seed - 1) * (1 + (1j if v.imag > 0 else -1j if v.imag < 0 else 0)) for v in values)
            boxes = tuple(
                Box(
                    real_low=v.real - 0.02,
                    real_high=v.real + 0.02,
                    imag_low=v.imag - (0.02 if v.imag else 0),
                    imag_high=v.imag + (0.02 if v.imag else 0),
                )
                for v in moved
            )
            spectra.append(Spectrum(panel=arm, name=f"seed {seed}", values=moved, intervals=boxes))
        spectra.append(Spectrum(panel=arm, name="untrained", values=(0.31 + 0.1j, 0.31 - 0.1j, 0.02 + 0j), role="control"))
        spectra.append(Spectrum(panel=arm, name="random subspace", values=(0.42 + 0j, 0.21 + 0j, -0.16 + 0j), role="control"))
    return draw_eigenvalues(Eigenvalues(spectra=tuple(spectra), truth=truth, where="blocks.0.resid_mid"))


def similarity_bars():
    bars = []
    for arm in ("four_real", "spread_12"):
        for pair, values in (
            ("0 and 1", (0.9992, 0.9982, 0.9971)),
            ("0 and 2", (0.999, 0.998, 0.996)),
            ("1 and 2", (0.9985, 0.997, 0.994)),
        ):
            bar = SimilarityBar(panel=arm, name=f"seeds {pair}", heldout=values, fitted=values, null=(0.06, 0.03, 0.01))
            bars.append(bar)
        bars.append(
            SimilarityBar(panel=arm, name="untrained pair", heldout=(0.73, 0.54, 0.31), null=(0.06, 0.03, 0.01), role="control")
        )
        bars.append(
            SimilarityBar(panel=arm, name="random subspaces", heldout=(0.83, 0.61, 0.38), null=(0.06, 0.03, 0.01), role="control")
        )
    return draw_similarity_bars(SimilarityBars(bars=tuple(bars), where="blocks.0.resid_mid, adjoint"))


def training_curves():
    curves = []
    for arm, seeds in ARMS.items():
        for seed in seeds:
            steps = tuple(range(0, 401, 10))
            excess = tuple(0.45 * 0.5 ** (step / (42 + 4 * seed)) + 0.0004 * (1 + 0.3 * seed) for step in steps)
            curves.append(TrainingCurve(panel=arm, name=f"seed {seed}", steps=steps, excess=excess))
    return draw_training_curves(TrainingCurves(curves=tuple(curves), mark=0.003))


STEPS = (0, 10, 20, 40, 80, 160, 400)


def core_planes():
    """Twelve states on a circle that grows, and eigenvalues that grow towards the truth."""
    truth = (0.34 + 0j, -0.24 + 0.46j, -0.24 - 0.46j)
    moments = []
    for step in STEPS:
        share = 0.2 + 0.8 * step / (step + 20)
        states = tuple((share * cos(k * pi / 6), share * sin(k * pi / 6)) for k in range(12))
        moments.append(CoreMoment(step=step, eigenvalues=tuple(share * value for value in truth), states=states))
    numbers = CoreOverTraining(
        moments=tuple(moments),
        truth=truth,
        names=tuple(str(k + 1) for k in range(12)),
        groups=(0, 1, 2, 3) * 3,
        grouped_by="the state's group",
        where="spread_12, seed 0",
    )
    return draw_core_over_training(numbers)


def core_curves():
    num = len(STEPS)
    curve = FollowCurve(
        name="seed 0",
        steps=STEPS,
        sufficient=(None, None, *(3,) * (num - 2)),
        necessary=(None, *(3,) * (num - 1)),
        energy=tuple(12 - k for k in range(num)),
        overlap=tuple(1 - 0.8 * 0.3**k for k in range(num)),
        spectrum_error=tuple(0.4 * 0.5**k for k in range(num)),
        spectrum_low=tuple(0.3 * 0.5**k for k in range(num)),
        spectrum_high=tuple(0.5 * 0.5**k for k in range(num)),
    )
    numbers = FollowCurves(curves=(curve,), overlap_chance=0.047, expected_rank=3, spectrum_mark=0.03, cursor=True)
    return draw_follow_curves(numbers, name="core_curves")


def figures():
    return [rank_curve(), ablation_bars(), eigenvalues(), similarity_bars(), training_curves()]


def claims():
    source = "arXiv:2602.22600, Fig. 2"
    exact = Mark(kind="within", target=3, tolerance=0)
    return [
        Claim(
            id="markov-cores/rank-resid-mid",
            statement="After attention, three directions are sufficient and necessary",
            source=source,
            unit="directions",
            paper=3,
            mark=exact,
            measured=3,
            low=3,
            high=3,
            num=3,
            seeds=(0, 1, 2),
            controls=(Control(name="untrained", value=11, low=9, high=12, mark=Mark(kind="above", target=4)),),
            note="energy .99: 3, 3, 3; energy .999: 4, 3, 5",
            figure="rank_curve",
            preset="quick",
        ),
        Claim(
            id="markov-cores/keep-resid-mid",
            statement="The core alone keeps the cross-entropy of the full model",
            source=source,
            unit="nats",
            paper=0.0,
            mark=Mark(kind="at_most", target=0.002),
            measured=0.00081,
            low=0.00078,
            high=0.00091,
            num=3,
            seeds=(0, 1, 2),
            controls=(
                Control(name="random subspace", value=0.41, low=0.36, high=0.44, mark=Mark(kind="above", target=0.2)),
                Control(name="pca", value=0.05),
            ),
            figure="ablation_bars",
            preset="quick",
        ),
        Claim(
            id="markov-cores/spectrum",
            statement="The operator in the core has the chain's spectrum",
            source="arXiv:2602.22600, Fig. 3",
            unit="largest eigenvalue error",
            mark=Mark(kind="at_most", target=0.03),
            measured=0.0217,
            low=0.0131,
            high=0.0342,
            num=300_000,
            seeds=(0, 1, 2),
            controls=(Control(name="untrained", value=0.4712, low=0.43, high=0.52, mark=Mark(kind="above", target=0.1)),),
            figure="eigenvalues",
            preset="quick",
        ),
        Claim(
            id="markov-cores/cca-12-state",
            statement="Two seeds share one core: the smallest of three hold-out canonical correlations",
            source="arXiv:2602.22600, Fig. 4",
            unit="correlation",
            paper=0.92,
            mark=Mark(kind="at_least", target=0.98),
            measured=0.9613,
            low=0.9544,
            high=0.9702,
            num=3,
            seeds=(0, 1, 2),
            controls=(
                Control(name="untrained pair, smallest", value=0.31, low=0.2, high=0.4, mark=Mark(kind="at_most", target=0.5)),
                Control(name="untrained pair, mean", value=0.71, low=0.6, high=0.8, mark=Mark(kind="at_most", target=0.65)),
            ),
            note="after 400 steps; 1200 steps give .9988",
            figure="similarity_bars",
            preset="quick",
        ),
        Claim(
            id="markov-cores/near-optimal",
            statement="Training came close to the optimum: divergence from the true law",
            source="decision of this project",
            unit="nats",
            mark=Mark(kind="at_most", target=0.003),
            measured=0.00005213,
            num=7,
            seeds=tuple(range(7)),
            figure="training_curves",
            preset="quick",
        ),
        Claim(
            id="markov-cores/overlap",
            statement="Cores of different seeds overlap no more than random subspaces do",
            source=source,
            unit="projector overlap",
            paper=0.029,
            mark=Mark(kind="within", target=0.047, tolerance=0.03),
            measured=None,
            num=0,
            preset="quick",
        ),
        Claim(
            id="markov-cores/by-construction-final-norm",
            statement="By construction: before the unembedding the core keeps everything, in any model",
            source="decision of this project",
            unit="nats",
            mark=Mark(kind="at_most", target=0.002),
            measured=0.0000001,
            num=3,
            seeds=(0, 1, 2),
            controls=(Control(name="untrained", value=0.0000002, low=0.0, high=0.000001),),
            preset="quick",
            by_construction=True,
        ),
    ]


def write_run(folder: Path, *, status="finished", drawn=None, tested=None) -> Path:
    """A complete run folder; equal calls write equal bytes."""
    manifest = Manifest.start(
        config={"chains": list(ARMS), "model": {"d_model": 64, "num_heads": 4}, "steps": 400, "seeds": [0, 1, 2]},
        experiment="markov-cores",
        preset="quick",
        summary="Seeds of one chain share a small core",
        seeds=(0, 1, 2),
        engine="processes",
        forward="plain",
        command="invariscope run markov-cores --preset quick --out out/markov-cores",
    )
    environment = {
        "versions": {"python": "3.11.7", "torch": "2.13.0+cpu", "numpy": "2.4.6", "scipy": "1.17.1", "invariscope": "0.1.0"},
        "platform": "Linux-6.1-x86_64",
        "cpu": "Some processor at 2.0 GHz",
        "num_cores": 2,
        "num_usable_cores": 2,
        "threads": {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": None, "torch": 1},
        "git": {"commit": "0123456789abcdef0123456789abcdef01234567", "dirty": True},
    }
    times = {"started": "2026-03-01T12:00:00+00:00", "finished": "2026-03-01T12:01:23+00:00", "seconds": 83.21}
    if status != "finished":
        times |= {"finished": None, "seconds": None}
    dataclasses.replace(manifest, environment=environment, status=status, **times).save(folder)
    write_claims(folder / "claims.json", claims() if tested is None else tested, experiment="markov-cores", preset="quick")
    for figure in figures() if drawn is None else drawn:
        figure.save(folder / "figures")
    return folder
