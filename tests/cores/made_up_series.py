"""A core over two checkpoints, with made-up numbers."""

from invariscope.cores import CoreAtStep, CoreSeries
from invariscope.estimate import Estimate, Similarity


def at_step(step: int, **changes) -> CoreAtStep:
    overlap = Similarity(
        name="overlap",
        value=0.9 if step else 0.2,
        components=(0.9,),
        null_mean=0.05,
        null_low=0.0,
        null_high=0.1,
        dims=(40, 40),
        rank=2,
    )
    given = {
        "step": step,
        "cross_entropy": 1.0,
        "sufficient": 3 if step else None,
        "necessary": 2 if step else None,
        "energy_99": 4,
        "energy_999": 5,
        "keep_loss": 0.01,
        "overlap": overlap,
        "eigenvalues": ((0.4, 0.0), (0.1, 0.1)) if step else ((0.2, 0.0), (0.0, 0.0)),
        "spectrum_error": Estimate(value=0.1, low=0.08, high=0.15, num=10),
        "means": ((1.0, 2.0), (-1.0, -2.0)) if step else ((0.1, 0.0), (0.0, 0.1)),
    }
    return CoreAtStep(**(given | changes))


def series(**changes) -> CoreSeries:
    given = {
        "task": "chain",
        "site": "blocks.0.resid_mid",
        "positions": "all",
        "projection": "adjoint",
        "rank": 2,
        "rank_rule": "given",
        "dim": 40,
        "tolerance": 0.02,
        "chance": 1.4,
        "map_name": "time shift",
        "coordinates": "law",
        "expected": ((0.5, 0.0), (0.1, 0.2)),
        "num_sequences": 512,
        "operator_sequences": 4000,
        "tokens": (0, 2),
        "checkpoints": (at_step(0), at_step(50)),
    }
    return CoreSeries(**(given | changes))
