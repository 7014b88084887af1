"""The claims of ``imir-dynamics`` and their marks, written down before the runs."""

from __future__ import annotations

from invariscope.experiments.imir_dynamics.config import Config
from invariscope.experiments.imir_dynamics.measure import Findings
from invariscope.storage.claims import Claim, Control, Mark

__all__ = ["MARKS", "make_claims"]

MARKS = {
    "recall-is-learnt": Mark(kind="at_least", target=0.99),
    "one-circuit": Mark(kind="at_least", target=0.5),
    "context-exponent": Mark(kind="at_least", target=1.9),
}


def make_claims(config: Config, found: Findings, *, preset: str) -> list[Claim]:
    """Every claim with its number.

    Args:
        config: what was run. found: what came out. preset: its name.
    """
    last = [one.moments[-1] for one in found.trajectories]
    first = [one.moments[0] for one in found.trajectories]
    accuracies, shares = [one.accuracy for one in last], [one.share for one in last]
    circuits = "; ".join(
        f"seed {one.seed}: " + ", ".join(f"{letter} {value:.2f}" for letter, value in zip("αβγ", moment.circuits, strict=True))
        for one, moment in zip(found.trajectories, last, strict=True)
    )
    lengths = " to ".join(f"{length}" for length in config.lengths[-2:])
    return [
        Claim(
            id="imir-dynamics/recall-is-learnt",
            statement="Descent in the coordinates alone, from small random ones, learns recall: exact accuracy",
            source="arXiv:2607.11875",
            unit="accuracy",
            mark=MARKS["recall-is-learnt"],
            measured=min(accuracies),
            low=min(accuracies),
            high=max(accuracies),
            num=len(last),
            seeds=config.seeds,
            controls=(
                Control(name="at the beginning", value=max(one.accuracy for one in first), mark=Mark(kind="at_most", target=0.5)),
                Control(name="the best constant answer", value=found.chance),
            ),
            note=f"{found.weights} weights move in {found.dim} coordinates. {circuits}.",
            figure="accuracy",
            preset=preset,
        ),
        Claim(
            id="imir-dynamics/one-circuit",
            statement="What is learnt is one circuit of three coordinates: their share of the weights' squared norm",
            source="arXiv:2511.01033",
            unit="share of the squared norm",
            mark=MARKS["one-circuit"],
            measured=min(shares),
            low=min(shares),
            high=max(shares),
            num=len(last),
            seeds=config.seeds,
            controls=(
                Control(name="at the beginning", value=max(one.share for one in first), mark=Mark(kind="at_most", target=0.25)),
            ),
            note="Largest others: "
            + "; ".join(f"{name} {value:+.2f}" for moment in last[:1] for name, value in moment.largest)
            + f" (seed {found.trajectories[0].seed}).",
            figure="coordinates",
            preset=preset,
        ),
        Claim(
            id="imir-dynamics/context-exponent",
            statement="The time until recall emerges grows with the square of the context, in long ones: local exponent",
            source="arXiv:2511.01033",
            unit="exponent",
            paper=2.0,
            mark=MARKS["context-exponent"],
            measured=found.exponents[-1],
            low=None,
            high=None,
            num=1,
            seeds=config.seeds[:1],
            controls=(
                Control(
                    name=f"from {config.lengths[0]} to {config.lengths[1]} pairs",
                    value=found.exponents[0],
                    mark=Mark(kind="below", target=1.9),
                ),
            ),
            note=f"From {lengths} pairs. All: {', '.join(f'{one:.2f}' for one in found.exponents)}. Without a mask, α and β "
            f"alone, both from {config.start:g}.",
            figure="context",
            preset=preset,
        ),
    ]
