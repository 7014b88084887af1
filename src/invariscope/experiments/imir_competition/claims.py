"""The claims of ``imir-competition`` and their marks, written down before the runs."""

from __future__ import annotations

from invariscope.experiments.imir_competition.config import Config
from invariscope.experiments.imir_competition.measure import Bursts, Findings
from invariscope.storage.claims import Claim, Control, Mark

__all__ = ["MARKS", "make_claims"]

PAPER = "arXiv:2607.11875"
MARKS = {
    "theorem-2": Mark(kind="at_most", target=0.05),
    "surrogate": Mark(kind="at_most", target=0.01),
    "time-by-rarity": Mark(kind="at_most", target=0.05),
    "competing-time-by-rarity": Mark(kind="at_most", target=0.05),
    "theorem-3-four-copies": Mark(kind="within", target=3.1, tolerance=0.31),
    "theorem-3-output": Mark(kind="within", target=4.0, tolerance=0.4),
    "theorem-3-eight-of-sixteen": Mark(kind="within", target=5.53, tolerance=0.553),
    "bursts-help": Mark(kind="below", target=1.0),
    "bursts-hurt": Mark(kind="above", target=1.0),
}
WORSE = Mark(kind="above", target=0.05)


def _spread(values: tuple[float, ...], shares: tuple[float, ...]) -> float:
    """How far time times share goes from its largest to its smallest, as a part of the largest."""
    products = [value * share for value, share in zip(values, shares, strict=True)]
    return 1 - min(products) / max(products)


def _products(times: tuple[float, ...], shares: tuple[float, ...]) -> str:
    return ", ".join(f"{time * share:.4g}" for time, share in zip(times, shares, strict=True))


def _ratios(bursts: Bursts) -> str:
    ratios = ", ".join(f"{time / bursts.times[0]:.2f}" for time in bursts.times)
    return f"{ratios} for {', '.join(map(str, bursts.copies))} copies"


def make_claims(config: Config, found: Findings, *, preset: str) -> list[Claim]:
    """Every claim with its number; all are exact, so that there are no intervals.

    Args:
        config: what was run. found: what came out. preset: its name.
    """
    mixes = [one for one in found.mixes if one.relevance > 0]

    def apart(name: str) -> float:
        return max(abs(getattr(one, name) / one.relevance - 1) for one in mixes)

    free, masked = found.bursts
    rare = found.times.rare_shares

    def claim(
        name: str, statement: str, measured: float, figure: str, controls: list[Control], note: str, unit: str, num: int
    ) -> Claim:
        return Claim(
            id=f"imir-competition/{name}",
            statement=statement,
            source=PAPER,
            unit=unit,
            mark=MARKS[name],
            measured=measured,
            low=None,
            high=None,
            num=num,
            seeds=(),
            controls=tuple(controls),
            note=note,
            figure=figure,
            preset=preset,
        )

    return [
        claim(
            "theorem-2",
            "With memory trained, the gradient of the in-context circuit is multiplied by f = f_r + (1 - f_r) f_v: largest "
            "relative error of α and β",
            max(apart("alpha"), apart("beta")),
            "relevance",
            [Control(name="without memory (α)", value=apart("alpha_without"), mark=WORSE)],
            f"Of γ the largest error is {apart('gamma'):.3f}: with a fresh partner memory is wrong, not silent, and the output "
            f"is pulled harder. At α = β = γ = {config.value:g}, δ = {config.memory:g}, homogeneous contexts, no mask.",
            "relative error",
            len(mixes),
        ),
        claim(
            "surrogate",
            "A surrogate of memory, attention of layer 2 along the relation, gives f more closely: largest relative error of α",
            apart("surrogate"),
            "relevance",
            [Control(name="without memory (α)", value=apart("alpha_without"), mark=WORSE)],
            "It needs the partner in the context, and so is no memory.",
            "relative error",
            len(mixes),
        ),
        claim(
            "time-by-rarity",
            "The time until recall is inversely proportional to f_r (surrogate): spread of time x f_r",
            _spread(found.times.surrogate, rare),
            "times",
            [Control(name="spread of the time itself", value=_spread(found.times.surrogate, (1.0,) * len(rare)), mark=WORSE)],
            f"Time x f_r: {_products(found.times.surrogate, rare)}; δ = {config.surrogate:g}.",
            "share",
            len(rare),
        ),
        claim(
            "competing-time-by-rarity",
            "So it is where memory is an output matrix that is learnt meanwhile: spread of time x f_r",
            _spread(found.times.competing, rare),
            "times",
            [Control(name="spread of the time itself", value=_spread(found.times.competing, (1.0,) * len(rare)), mark=WORSE)],
            f"Time x f_r: {_products(found.times.competing, rare)}; γ from 1, the others from {config.start:g}.",
            "share",
            len(rare),
        ),
        claim(
            "theorem-3-four-copies",
            f"Four copies among {config.bursty_blocks} blocks multiply the gradient of α and β by about three",
            _at(free, free.alpha, 4),
            "bursts",
            [Control(name="two copies", value=_at(free, free.alpha, 2))],
            f"No mask; β {_at(free, free.beta, 4):.2f}. With a mask: α {_at(masked, masked.alpha, 4):.2f}, "
            f"β {_at(masked, masked.beta, 4):.2f}.",
            "ratio",
            1,
        ),
        claim(
            "theorem-3-output",
            "And that of γ by their number, where the vocabulary is large beside the context",
            _at(free, free.gamma, 4),
            "bursts",
            [Control(name="two copies", value=_at(free, free.gamma, 2))],
            f"{config.vocabulary} tokens. In a small vocabulary the part that a constant answer would have is not small, and the "
            "ratio is larger.",
            "ratio",
            1,
        ),
        claim(
            "theorem-3-eight-of-sixteen",
            "Eight copies among sixteen blocks multiply that of α by five and a half",
            found.long[2],
            "bursts",
            [Control(name="two copies", value=found.long[0]), Control(name="four copies", value=found.long[1])],
            "",
            "ratio",
            1,
        ),
        claim(
            "bursts-help",
            "Two copies bring recall of contexts without copies sooner: time over that of one",
            free.times[1] / free.times[0],
            "bursts",
            [Control(name="with a mask", value=masked.times[1] / masked.times[0])],
            f"Times over that of one copy: {_ratios(free)}.",
            "ratio",
            1,
        ),
        claim(
            "bursts-hurt",
            "Many copies bring it later again, with a mask later than none: time over that of one copy",
            masked.times[-1] / masked.times[0],
            "bursts",
            [Control(name="two copies", value=masked.times[1] / masked.times[0], mark=Mark(kind="below", target=1.0))],
            f"{masked.copies[-1]} copies among {config.bursty_blocks} blocks, with a mask. Times over that of one: "
            f"{_ratios(masked)}.",
            "ratio",
            1,
        ),
    ]


def _at(bursts: Bursts, values: tuple[float, ...], copies: int) -> float:
    return values[bursts.copies.index(copies)]
