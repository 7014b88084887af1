"""A claim: a paper's statement, the mark it is judged by, our measurement, and the verdict that follows.

Nobody writes a verdict: it is derived from the numbers, in this order. Nothing measured: ``not measured``. The mark fails:
``not reproduced``. The mark holds but a control's mark fails, or the interval crosses the mark: ``reproduced with caveat``, with
the reasons generated. Otherwise ``reproduced``. Marks are written down before the run.

>>> mark = Mark(kind="at_least", target=0.98)
>>> control = Control(name="untrained", value=0.73, mark=Mark(kind="at_most", target=0.5))
>>> claim = Claim(id="demo/cca", statement="Seeds share one core", source="arXiv:2602.22600", mark=mark, measured=0.99,
...               controls=(control,))
>>> claim.verdict, claim.full_note
('reproduced with caveat', 'control untrained is 0.73, and its mark is at most 0.5')
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from invariscope.errors import ConfigError, NonFiniteError, unknown_name

__all__ = ["Claim", "Control", "Mark", "MarkKind", "Verdict"]

MarkKind: TypeAlias = Literal["within", "at_least", "at_most", "above", "below"]
Verdict: TypeAlias = Literal["not measured", "not reproduced", "reproduced with caveat", "reproduced"]


def _number(what: str, value: object) -> float:
    # float() also takes NumPy's and one-element tensors' numbers, so that the file holds plain ones.
    number = float(value)  # pyright: ignore[reportArgumentType]  # what float() refuses is a caller's bug
    if not math.isfinite(number):
        raise NonFiniteError(
            f"{what} is {number}",
            expected="a finite number, or None where nothing was measured",
            do="find out where it comes from; a measurement that failed is None, never NaN",
        )
    return number


def _set_numbers(owner: object, what: str, *names: str) -> None:
    for name in names:
        value = getattr(owner, name)
        if value is not None:
            object.__setattr__(owner, name, _number(f"{what}: {name}", value))


def _check_interval(what: str, low: float | None, high: float | None) -> None:
    if (low is None) != (high is None) or (low is not None and high is not None and low > high):
        raise ConfigError(f"{what}: the interval [{low}, {high}]", expected="low <= high, or None for both", do="give both ends")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """What a measured number has to do: ``within`` target - tolerance and target + tolerance, or beyond the target.

    Args:
        kind: ``within`` and ``at_least``, ``at_most`` include their borders; ``above`` and ``below`` do not.
        target: the number.
        tolerance: for ``within`` only, in the claim's unit, >= 0.

    Raises:
        UnknownNameError: for another kind.
        ConfigError: for a tolerance where there is none, or none where there has to be one.
    """

    kind: MarkKind
    target: float
    tolerance: float | None = None

    def __post_init__(self) -> None:
        if self.kind not in get_args(MarkKind):
            raise unknown_name("mark", str(self.kind), get_args(MarkKind))
        _set_numbers(self, f"mark {self.kind}", "target", "tolerance")
        if (self.kind == "within") != (self.tolerance is not None and self.tolerance >= 0):
            raise ConfigError(
                f"mark {self.kind} {self.target} with tolerance {self.tolerance}",
                expected="a tolerance >= 0 for 'within' and none for the others",
                do="give 'within' a tolerance, or use at_least, at_most, above or below without one",
            )

    def passes(self, value: float) -> bool:
        """Whether ``value`` does what the mark asks.

        >>> Mark(kind="within", target=3, tolerance=0).passes(3.0), Mark(kind="above", target=4).passes(4)
        (True, False)
        """
        target = self.target
        if self.kind == "within":
            tolerance = self.tolerance or 0.0
            return target - tolerance <= value <= target + tolerance
        return {"at_least": value >= target, "at_most": value <= target, "above": value > target, "below": value < target}[
            self.kind
        ]

    def crossed_by(self, low: float, high: float) -> bool:
        """Whether the interval [low, high] holds values that pass and values that do not.

        >>> Mark(kind="at_least", target=0.98).crossed_by(0.97, 0.99)
        True
        """
        # What passes is an interval itself: it is inside [low, high] where neither end passes and yet something does.
        some = self.passes(low) or self.passes(high) or (self.kind == "within" and low < self.target < high)
        return some and not (self.passes(low) and self.passes(high))

    def __str__(self) -> str:
        text = f"{self.kind.replace('_', ' ')} {self.target:.4g}"
        return text if self.tolerance is None else f"{text} ± {self.tolerance:.4g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """What the same measurement gives on a null, and what it has to give there.

    Args:
        name: such as ``untrained`` or ``random subspace``.
        value: in the claim's unit; None where it was not measured, which counts against the claim.
        low, high: its interval; None for both where there is none.
        mark: what the null has to do; None for a control that is only shown.
    """

    name: str
    value: float | None
    low: float | None = None
    high: float | None = None
    mark: Mark | None = None

    def __post_init__(self) -> None:
        _set_numbers(self, f"control {self.name}", "value", "low", "high")
        _check_interval(f"control {self.name}", self.low, self.high)

    @property
    def complaint(self) -> str:
        """Why this control speaks against the claim; empty where it does not."""
        if self.mark is None or (self.value is not None and self.mark.passes(self.value)):
            return ""
        found = "was not measured" if self.value is None else f"is {self.value:.4g}"
        return f"control {self.name} {found}, and its mark is {self.mark}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One statement with its numbers; see the module for how the verdict follows.

    Args:
        id: ``experiment/name``, the same in every version.
        statement: what is claimed; says "by construction" where ``by_construction``.
        source: the paper and its figure or equation.
        unit: of ``paper``, ``measured``, ``low``, ``high`` and the mark.
        paper: the paper's own number; None where it gives none.
        mark: what ``measured`` has to do.
        measured: our number; None where it was not measured.
        low, high: its interval; None for both where there is none.
        num: what it stands on, such as the number of models or of samples.
        seeds: the seeds behind it.
        controls: the same measurement on nulls.
        note: a remark of the experiment's own.
        figure: the name of the figure that shows it.
        preset: the preset that it was measured with.
        by_construction: true whatever the model has learnt; never a headline.

    Raises:
        NonFiniteError: for NaN or infinity anywhere.
        ConfigError: for half an interval, one turned round, or a statement that hides that it is true by construction.
    """

    id: str
    statement: str
    source: str
    unit: str = ""
    paper: float | None = None
    mark: Mark
    measured: float | None
    low: float | None = None
    high: float | None = None
    num: int | None = None
    seeds: tuple[int, ...] = ()
    controls: tuple[Control, ...] = ()
    note: str = ""
    figure: str = ""
    preset: str = ""
    by_construction: bool = False

    def __post_init__(self) -> None:
        _set_numbers(self, f"claim {self.id}", "paper", "measured", "low", "high")
        _check_interval(f"claim {self.id}", self.low, self.high)
        object.__setattr__(self, "seeds", tuple(int(seed) for seed in self.seeds))
        object.__setattr__(self, "controls", tuple(self.controls))
        if self.by_construction and "by construction" not in self.statement.lower():
            raise ConfigError(
                f"claim {self.id}, which is true by construction and does not say so",
                expected="the words 'by construction' in its statement",
                do="say it in the statement",
            )

    @property
    def verdict(self) -> Verdict:
        """What follows from the numbers."""
        if self.measured is None:
            return "not measured"
        if not self.mark.passes(self.measured):
            return "not reproduced"
        return "reproduced with caveat" if self._reasons() else "reproduced"

    @property
    def generated_note(self) -> str:
        """The reasons for a caveat; empty for every other verdict."""
        return "; ".join(self._reasons()) if self.verdict == "reproduced with caveat" else ""

    @property
    def full_note(self) -> str:
        """The experiment's own note and the generated reasons."""
        return "; ".join(part for part in (self.note, self.generated_note) if part)

    def _reasons(self) -> list[str]:
        reasons = [control.complaint for control in self.controls if control.complaint]
        if self.measured is None or self.low is None or self.high is None:
            return reasons
        # A bootstrap interval may lie beside its estimate: what counts is everything between the three.
        if self.mark.crossed_by(min(self.low, self.measured), max(self.high, self.measured)):
            reasons.append(f"the interval [{self.low:.4g}, {self.high:.4g}] crosses the mark {self.mark}")
        return reasons
