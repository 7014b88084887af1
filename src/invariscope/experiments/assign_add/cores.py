"""Is the core that adds numbers the core that adds variables? Two cores before the MLP, and what they carry.

One core is extracted from sums of numbers, the other from sums of variables, both from seen sums, both tested on held-out ones.
Their overlap says whether they are one subspace. Whether they are one *code* is causal: the coordinates that a sum of numbers
has in the constant core are written into a sequence that adds other numbers by variables, and the answer must follow.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from invariscope.batch import Batch
from invariscope.circuits.forward import read_last
from invariscope.cores import (
    Core,
    Moments,
    accuracy,
    collect_moments,
    projector_overlap,
    rank_curve,
    validate_core,
)
from invariscope.estimate import Estimate, Similarity
from invariscope.models import Transformer
from invariscope.models.heads import block_of
from invariscope.numerics.resampling import estimate_mean
from invariscope.sites import edit_site, read_sites
from invariscope.tasks import AssignAdd, derive_seed

__all__ = ["CoreFindings", "Edit", "find_cores", "transplant_coordinates"]

SITE = "blocks.1.resid_mid"
"""What the MLP of the second layer reads, at the final ``=``."""
STATE = "module:state"
"""The same in :class:`AnswerFromState`."""
SUFFICIENT = 0.02
"""Share of the accuracy between the site's mean and the model that keeping the core may lose. The cross-entropy is no rule here:
with the site at its mean it is tens of nats, beside which any loss is small."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """One effect: what was edited, how, and the accuracy on held-out sums.

    Args:
        core: ``constant`` or ``variable``, the sums that the core comes from.
        subject: ``core``, ``random`` or ``pca``. edit: ``keep`` or ``remove``.
        pool: the sums that it was tested on. accuracy: of the answers.
    """

    core: str
    subject: str
    edit: str
    pool: str
    accuracy: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreFindings:
    """The two cores of one model.

    Args:
        constant_rank, variable_rank: the smallest that suffice (:data:`SUFFICIENT`).
        edits: what keeping and removing each does to both kinds of held-out sums, with random and PCA directions of equal rank.
        overlap: of the spans that the two cores write, with its chance level.
        carried: share of sums of variables that answer with the sum of numbers whose coordinates they were given.
        carried_random: the same with a random subspace of equal rank.
        rest_keeps: share that keep their own answer where everything but the core is replaced.
    """

    constant_rank: int
    variable_rank: int
    edits: tuple[Edit, ...]
    overlap: Similarity
    carried: Estimate
    carried_random: Estimate
    rest_keeps: Estimate


class AnswerFromState(nn.Module):
    """The end of a model: from what the MLP of the second layer reads at ``=`` to the answer. An edit there needs no more.

    Args:
        model: of two layers, without norms; used as it is.
    """

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.viewed = model
        self.state = nn.Identity()

    def forward(self, state: Float[Tensor, "B 1 D"]) -> Float[Tensor, "B 1 V"]:
        """Logits from the residual stream before the MLP, equal to the whole model's at its last token."""
        block = block_of(self.viewed, 1)
        x = self.state(state)
        return self.viewed.unembedding(x + block.mlp_output(block.activation(block.mlp_input(x))))

    def read(self, batch: Batch) -> Batch:
        """The same rows, to be run from there."""
        state = read_last(self.viewed, batch.inputs["tokens"], [SITE])[SITE]
        return dataclasses.replace(batch, inputs={"state": state[:, None]})


def find_cores(model: Transformer, task: AssignAdd, *, num: int, seed: int, folder: Path | None = None) -> CoreFindings:
    """Extract both cores, test them on both kinds of held-out sums, compare them, and carry coordinates between them.

    Args:
        model, task: what was trained, on what.
        num: sequences behind each core, and held-out ones behind each effect.
        seed: of sequences and controls.
        folder: where cores are kept; None: nowhere.
    """
    whole = task.num_operands
    pools = {"constant": "0var", "variable": f"{whole}var"}
    cores: dict[str, Core] = {}
    edits: list[Edit] = []
    end = AnswerFromState(model)
    # Ranks are chosen on one half of the held-out sums, and everything is measured on the other.
    heldout = {kind: list(map(end.read, _half(task, f"{name}-held", num, seed, 1))) for kind, name in pools.items()}
    for kind, name in pools.items():
        batches = task.batches(num, batch_size=512, seed=derive_seed(seed, "core"), pool=f"{name}-seen")
        states = list(map(end.read, batches))
        moments = collect_moments(end, states, sites=[STATE], positions="last", generator=_generator(seed, "sketch"))[STATE]
        core = _sufficient_core(moments, end, list(map(end.read, _half(task, f"{name}-held", 512, seed, 0))))
        controls = moments.controls(rank=core.rank, names=("random", "pca"), num_random=2, generator=_generator(seed, "random"))
        for pool, tested in heldout.items():
            effects = validate_core(core, end, tested, metrics=(accuracy(),), controls=controls, edits=("keep", "remove"))
            edits += [
                Edit(core=kind, subject=subject, edit=edit, pool=pool, accuracy=effects[subject, edit, "accuracy"])
                for subject in ("core", "random", "pca")
                for edit in ("keep", "remove")
            ]
        cores[kind] = dataclasses.replace(core, provenance=dataclasses.replace(core.provenance, site=SITE))
        if folder is not None:
            cores[kind].save(folder / f"seed-{seed:04d}-{kind}.safetensors")
    operands = task.pairs("heldout")
    operands = operands[_second_half(operands, task.modulus)]
    operands = operands[torch.randperm(len(operands), generator=_generator(seed, "operands"))[:num]]
    carried, rest = transplant_coordinates(cores["constant"], model, task, operands, generator=_generator(seed, "carried"))
    rank = cores["constant"].rank
    axes = torch.linalg.qr(torch.randn(model.config.width, rank, generator=_generator(seed, "axes"), dtype=torch.float64)).Q
    random = Core(read=axes, write=axes, mean=cores["constant"].mean, singular_values=cores["constant"].singular_values)
    carried_random, _ = transplant_coordinates(random, model, task, operands, generator=_generator(seed, "carried"))
    return CoreFindings(
        constant_rank=rank,
        variable_rank=cores["variable"].rank,
        edits=tuple(edits),
        overlap=projector_overlap(cores["constant"], cores["variable"], generator=_generator(seed, "overlap")),
        carried=carried,
        carried_random=carried_random,
        rest_keeps=rest,
    )


def _half(task: AssignAdd, pool: str, num: int, seed: int, half: int) -> list[Batch]:
    # About `num` sequences of one half of a pool's sums, the same sums in whatever order.
    batches = task.batches(2 * num, batch_size=512, seed=derive_seed(seed, "held-out sums", half), pool=pool)
    found = []
    for batch in batches:
        answers = task.places(batch.inputs["tokens"]).answers
        found.append(batch.take(_second_half(answers, task.modulus) == bool(half)))
    return found


def _second_half(operands: Int[Tensor, "n k"], modulus: int) -> Bool[Tensor, "n"]:
    # Which half a sum belongs to is a matter of its numbers alone, in whatever order.
    scattered = (operands.sum(1) * 7919 + operands.prod(1) * 104729) % (2 * modulus + 1)
    return scattered % 2 == 1


def _sufficient_core(moments: Moments, end: AnswerFromState, batches: list[Batch]) -> Core:
    curve = rank_curve(moments, end, batches, metric=accuracy(), positions="last", max_rank=None, stop_at=SUFFICIENT)
    rank = curve.sufficient(SUFFICIENT)
    # Where no rank suffices the model has not learnt its task: every direction is then kept.
    return dataclasses.replace(moments.core(rank or curve.ranks[-1], "oblique"), rank_curve=curve)


def transplant_coordinates(
    core: Core, model: Transformer, task: AssignAdd, operands: Int[Tensor, "n k"], *, generator: torch.Generator
) -> tuple[Estimate, Estimate]:
    """Write the coordinates of sums of numbers into sequences that add other numbers by variables.

    Args:
        core: whose coordinates are carried. model, task: as above.
        operands: the sums; each gives its coordinates, as numbers, to the next one, as variables.
        generator: of contexts and of the bootstrap.

    Returns:
        The share of answers that are the giver's sum, and the share that stay the taker's own where everything but the core is
        the giver's. Pairs of equal sums are left out.
    """
    k = task.num_operands
    donors = task.compose(operands, (False,) * k, generator=generator)
    takers = task.compose(operands.roll(-1, 0), (True,) * k, generator=generator)
    assert donors.targets is not None
    assert takers.targets is not None
    with torch.no_grad(), read_sites(model, [SITE], positions="last") as seen:
        model(**donors.inputs)
    given = seen[SITE].clone()

    def core_of_donor(x: Float[Tensor, "n D"]) -> Float[Tensor, "n D"]:
        return core.remove(x) + core.keep(given) - core.mean.to(x)

    def rest_of_donor(x: Float[Tensor, "n D"]) -> Float[Tensor, "n D"]:
        return core.remove(given) + core.keep(x) - core.mean.to(x)

    differ = donors.targets[:, 0] != takers.targets[:, 0]
    donor_sums, own_sums = donors.targets[differ, 0], takers.targets[differ, 0]
    follows = _answers(model, takers, core_of_donor)[differ] == donor_sums
    stays = _answers(model, takers, rest_of_donor)[differ] == own_sums
    chance = 1 / task.modulus
    return (
        estimate_mean(follows.double(), generator=generator, unit="share", chance=chance),
        estimate_mean(stays.double(), generator=generator, unit="share", chance=chance),
    )


def _answers(model: Transformer, batch: Batch, function: Callable[[Tensor], Tensor]) -> Int[Tensor, "n"]:
    with torch.no_grad(), edit_site(model, SITE, function, positions="last"):
        return model(**batch.inputs)[:, -1].argmax(-1)


def _generator(seed: int, *parts: str) -> torch.Generator:
    return torch.Generator().manual_seed(derive_seed(seed, "assign-add cores", *parts))
