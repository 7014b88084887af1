"""Is a sum of variables computed where a sum of numbers is? Matched pairs, compared and patched.

Two sequences that differ in the query alone, ``... b=17 ... 42 + 17 =`` and ``... b=17 ... 42 + b =``, have one answer. If
binding hands the number over and one adder serves both (arXiv:2605.31497), they are alike from some site on:
:func:`shared_computation` compares them there by cosine, beside pairs of different sums, which are alike too where activations
share a mean. Alike is not used alike: :func:`version_patching` puts what a sum of numbers has at a site into a sequence that
adds *other* numbers by variables, and counts the answers that follow.

The residual stream before MLP2 still holds which operand tokens were read, which MLP2 ignores; what it computes from, its
pre-activations, should be nearly equal.

Legend of shapes: n pairs, k operands.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from invariscope.circuits.checks import check_model
from invariscope.circuits.forward import CHUNK, answer_logits, answers, read_last
from invariscope.errors import ConfigError
from invariscope.estimate import Estimate
from invariscope.models import Transformer
from invariscope.numerics import estimate_mean
from invariscope.sites import edit_site, frozen
from invariscope.tasks import AssignAdd

__all__ = ["SHARED_SITES", "PairCosines", "SharedComputation", "VersionPatching", "shared_computation", "version_patching"]

SHARED_SITES = ("blocks.1.resid_mid", "blocks.1.mlp_pre", "blocks.1.mlp_out")
"""The residual stream before MLP2, its pre-activations and its output."""
PATCHED_SITES = ("blocks.1.attn_out", "blocks.1.resid_mid", "blocks.1.mlp_pre")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PairCosines:
    """Cosines between the constant and the variable version of the same sums at ``=``.

    Args:
        site: where. num_variables: variables in the variable version; None: all kinds together.
        cosines, shuffled: [n] of matched pairs, and of the same sequences paired with another sum.
        mean, sd: of ``cosines``; the mean's chance level is that of ``shuffled``.
        shuffled_mean, shuffled_sd: of ``shuffled``.
    """

    site: str
    num_variables: int | None
    cosines: Float[Tensor, "n"]
    shuffled: Float[Tensor, "n"]
    mean: Estimate
    sd: float
    shuffled_mean: Estimate
    shuffled_sd: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SharedComputation:
    """All comparisons: every site, with all kinds of sums together and each number of variables alone."""

    cosines: tuple[PairCosines, ...]

    def at(self, site: str, num_variables: int | None = None) -> PairCosines:
        """The comparison at one of :data:`SHARED_SITES`.

        Raises:
            ConfigError: for one that was not made.
        """
        for found in self.cosines:
            if (found.site, found.num_variables) == (site, num_variables):
                return found
        known = [f"{found.site} {found.num_variables}" for found in self.cosines]
        raise ConfigError(f"{site} with {num_variables} variables", expected=f"one of {', '.join(known)}", do="name one of them")


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionPatching:
    """What answers become when a site at ``=`` takes what a sum of other numbers has there.

    Args:
        site: where.
        donor: share of answers that are the donor's sum. Chance: 1 / N.
        own: share that stay the sequence's own sum.
        shuffled: share that are the sum of another donor, which was not patched in: what agreement by accident gives.
        unpatched: share of answers that are the donor's sum without a patch.
    """

    site: str
    donor: Estimate
    own: Estimate
    shuffled: Estimate
    unpatched: float


def shared_computation(model: Transformer, task: AssignAdd, generator: torch.Generator, num: int = 512) -> SharedComputation:
    """Compare sums of numbers with the same sums of variables, in the same contexts, at :data:`SHARED_SITES`.

    Args:
        model, task: with an MLP in the second layer.
        generator: of sums, contexts and the bootstrap.
        num: pairs of each kind: which operands are variables.

    Raises:
        ConfigError: for a model that does not fit the task, or fewer than two pairs.
    """
    check_model(model, task, mlp=True)
    _check_pairs(num)
    operands = _draw_operands(task, num, generator)
    seed = int(torch.randint(2**62, (1,), generator=generator))
    constant = _version(model, task, operands, (False,) * task.num_operands, seed)
    parts: dict[tuple[str, int], list[tuple[Tensor, Tensor]]] = {}
    for kind in itertools.product((False, True), repeat=task.num_operands):
        if any(kind):
            variable = _version(model, task, operands, kind, seed)
            for site in SHARED_SITES:
                a, b = constant[site].double(), variable[site].double()
                pair = F.cosine_similarity(a, b), F.cosine_similarity(a, b[_next_other_sum(task, operands)])
                parts.setdefault((site, sum(kind)), []).append(pair)
    groups = (operands.sort(1).values * task.modulus ** torch.arange(task.num_operands)).sum(1)
    found = []
    for site in SHARED_SITES:
        of_site = {num: pairs for (name, num), pairs in parts.items() if name == site}
        every = [pair for pairs in of_site.values() for pair in pairs]
        for num_variables, pairs in [(None, every), *of_site.items()]:
            found.append(_cosines(site, num_variables, pairs, groups, generator))
    return SharedComputation(cosines=tuple(found))


def version_patching(
    model: Transformer,
    task: AssignAdd,
    generator: torch.Generator,
    num: int = 512,
    *,
    sites: tuple[str, ...] = PATCHED_SITES,
) -> tuple[VersionPatching, ...]:
    """Put what sums of numbers have at ``=`` into sequences that add other numbers by variables.

    Args:
        model, task: what was trained, on what.
        generator: of sums, contexts and the bootstrap.
        num: pairs; those with equal sums are left out.
        sites: where; at ``embed``, which holds ``=`` alone, a patch changes nothing: a control.

    Raises:
        ConfigError: for a model that does not fit the task, or fewer than two pairs. UnknownNameError: for no such site.
    """
    check_model(model, task)
    _check_pairs(num)
    operands, others = _draw_operands(task, num, generator), _draw_operands(task, num, generator)
    differ = operands.sum(1) % task.modulus != others.sum(1) % task.modulus
    operands, others = operands[differ], others[differ]
    donors = task.compose(operands, (False,) * task.num_operands, generator=generator)
    takers = task.compose(others, (True,) * task.num_operands, generator=generator)
    assert donors.targets is not None
    assert takers.targets is not None
    given = read_last(model, donors.inputs["tokens"], sites)
    donor_sums, own_sums = donors.targets[:, 0], takers.targets[:, 0]
    tokens = takers.inputs["tokens"]
    unpatched = float((answers(model, tokens) == donor_sums).double().mean())
    wrong = donor_sums[_next_other_sum(task, operands)]

    def share(right: Bool[Tensor, "n"]) -> Estimate:
        return estimate_mean(right.double(), generator=generator, unit="share", chance=1 / task.modulus)

    found = []
    for site in sites:
        patched = _patched_answers(model, tokens, site, given[site])
        found.append(
            VersionPatching(
                site=site,
                donor=share(patched == donor_sums),
                own=share(patched == own_sums),
                shuffled=share(patched == wrong),
                unpatched=unpatched,
            )
        )
    return tuple(found)


def _draw_operands(task: AssignAdd, num: int, generator: torch.Generator) -> Int[Tensor, "n k"]:
    """``num`` tuples of operands, of training or not: each once as long as there are some left."""
    every = task.modulus**task.num_operands
    rounds = [torch.randperm(every, generator=generator) for _ in range(-(-num // every))]
    codes = torch.cat(rounds)[:num, None]
    return codes // task.modulus ** torch.arange(task.num_operands) % task.modulus


def _check_pairs(num: int) -> None:
    """Refuse too few pairs for an interval.

    Raises:
        ConfigError: for fewer than two.
    """
    if num < 2:
        raise ConfigError(f"num = {num} pairs", expected="at least 2", do="use 512")


def _version(
    model: Transformer, task: AssignAdd, operands: Int[Tensor, "n k"], kind: tuple[bool, ...], seed: int
) -> dict[str, Tensor]:
    # One seed for all versions: contexts are then the same.
    batch = task.compose(operands, kind, generator=torch.Generator().manual_seed(seed))
    return read_last(model, batch.inputs["tokens"], SHARED_SITES)


def _next_other_sum(task: AssignAdd, operands: Int[Tensor, "n k"]) -> Int[Tensor, "n"]:
    """For each row the next one whose sum is another (itself where all are equal)."""
    num, sums = len(operands), operands.sum(1) % task.modulus
    index = torch.arange(num)
    other = index.roll(-1)
    for _ in range(num):
        same = sums[other] == sums
        if not bool(same.any()):
            break
        other = torch.where(same, (other + 1) % num, other)
    return other


def _cosines(
    site: str, num_variables: int | None, pairs: list[tuple[Tensor, Tensor]], groups: Int[Tensor, "n"], generator: torch.Generator
) -> PairCosines:
    matched, shuffled = (torch.cat(side) for side in zip(*pairs, strict=True))
    groups = groups.repeat(len(pairs))
    null = estimate_mean(shuffled, generator=generator, groups=groups, unit="cosine")
    return PairCosines(
        site=site,
        num_variables=num_variables,
        cosines=matched,
        shuffled=shuffled,
        mean=estimate_mean(matched, generator=generator, groups=groups, unit="cosine", chance=null.value),
        sd=float(matched.std()),
        shuffled_mean=null,
        shuffled_sd=float(shuffled.std()),
    )


def _patched_answers(
    model: Transformer, tokens: Int[Tensor, "n T"], site: str, given: Float[Tensor, "n ..."]
) -> Int[Tensor, "n"]:
    parts = []
    for part, rows in zip(tokens.to(model.token_embedding.device).split(CHUNK), given.split(CHUNK), strict=True):
        with frozen(model), torch.no_grad(), edit_site(model, site, _constant(rows), positions="last"):
            parts.append(answer_logits(model, part).argmax(1).cpu())
    return torch.cat(parts)


def _constant(rows: Tensor) -> Callable[[Tensor], Tensor]:
    return lambda _: rows
