"""In-context against in-weights learning: which circuit the data favour, from exact gradients.

Recall can be solved in two ways. In context, by induction: α attends to the previous token of a block, β matches the item that is
asked for with what α moved, γ writes what is found there. In the weights, by memory: δ, the output matrix along the relation C,
writes the partner of the item that is asked for. Theorem 2 of arXiv:2607.11875: once memory is trained, the gradient of the
in-context circuit is what it would be without memory times

    f = f_r + (1 - f_r) f_v,

the share of questions that memory cannot answer: rare ones, and common ones with a fresh partner. Theorem 3: copies in the
context (burstiness) make it larger. Both are statements about a regime, which stands with each number here.

A *surrogate* has δ as attention of layer 2 along C, with nothing in the output matrix. It needs the partner in the context and
so is no memory; it is easier to analyse, and is called what it is.

>>> relevance(0.5, 0.5)
0.75
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from invariscope.errors import ConfigError
from invariscope.manifold.coordinates import InductionManifold
from invariscope.manifold.dynamics import ReducedLoss
from invariscope.manifold.emergence import emergence_times
from invariscope.models.disentangled import DisentangledConfig
from invariscope.tasks.blocks import AssociativeRecall

__all__ = ["Circuit", "Competition", "circuit_gradients", "emergence_of_recall", "relevance"]

Circuit = Literal["alpha", "beta", "gamma", "delta", "surrogate"]
PREFIXES: Mapping[Circuit, str] = {
    "alpha": "L1 [x|x] same(1, 0)",
    "beta": "L2 [x|a1] identity",
    "gamma": "R [a2] identity",
    "delta": "R [x] Cᵀ",
    "surrogate": "L2 [x|x] C",
}
"""How the names of each circuit's coordinates begin; where tokens have classes, it has one for each."""


def relevance(rare_share: float, fresh_share: float) -> float:
    """f, the share of questions that only the context answers."""
    return rare_share + (1 - rare_share) * fresh_share


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Competition:
    """Recall on slots, its manifold and exact loss.

    Args:
        task: recall, with or without common pairs. manifold, loss: of the two-layer model.
    """

    task: AssociativeRecall
    manifold: InductionManifold
    loss: ReducedLoss

    @classmethod
    def of(
        cls, task: AssociativeRecall, *, causal: bool = False, readout: Literal["trained", "direct"] = "trained"
    ) -> Competition:
        """The two-layer model of one head on ``task``.

        Raises:
            ConfigError: for blocks that do not lie in slots, where α has no name.
        """
        if task.placement != "slots":
            raise ConfigError(f"placement = {task.placement!r}", expected="slots, where α is one coordinate", do="place by slots")
        config = DisentangledConfig(vocab_size=task.vocab_size, num_labels=task.num_labels, causal=causal, readout=readout)
        manifold = InductionManifold(config, task.symmetry, relation=task.relation)
        return cls(task=task, manifold=manifold, loss=ReducedLoss(manifold, task.representatives(causal=causal)))

    def coordinates_of(self, circuit: Circuit) -> list[int]:
        """Where the coordinates of a circuit stand; none where the model or task has it not."""
        return [index for index, name in enumerate(self.manifold.names) if name.startswith(PREFIXES[circuit])]

    def point(self, values: Mapping[Circuit, float]) -> Float[Tensor, "dim"]:
        """The point at which circuits have these values, and all else is 0.

        Raises:
            ConfigError: for a circuit that there is not.
        """
        theta = torch.zeros(self.manifold.dim, dtype=torch.float64)
        for circuit, value in values.items():
            where = self.coordinates_of(circuit)
            if not where:
                raise ConfigError(
                    f"{circuit} in a model with readout {self.manifold.config.readout!r} and {self.task.num_common} common pairs",
                    expected="a trained readout for gamma and delta, and common pairs for delta and surrogate",
                    do="change the task or the model",
                )
            theta[where] = value
        return theta


def circuit_gradients(competition: Competition, values: Mapping[Circuit, float]) -> dict[Circuit, float]:
    """-∂L/∂ of each circuit, all of its coordinates together, at a point: positive where descent makes it larger.

    Args:
        competition: task and model. values: of the circuits there; those that are not named are 0.
    """
    theta = competition.point(values).requires_grad_()
    [slope] = torch.autograd.grad(competition.loss(theta), theta)
    found: dict[Circuit, float] = {}
    for circuit in PREFIXES:
        where = competition.coordinates_of(circuit)
        if where:
            found[circuit] = -float(slope[where].sum())
    return found


def emergence_of_recall(
    task: AssociativeRecall,
    values: Mapping[Circuit, float],
    *,
    trained: Sequence[Circuit] | None = ("alpha", "beta"),
    causal: bool = False,
    readout: Literal["trained", "direct"] = "direct",
    loss: float = 0.5,
    longest: float = 1e7,
    judged_without_bursts: bool = True,
) -> float:
    """Time of gradient flow until rare questions are answered from the context.

    Args:
        task: what is trained on. values: where the circuits start.
        trained: the circuits that move; None: every coordinate does.
        causal, readout: of the model.
        loss: in nats, of rare questions alone, at which recall counts as there. longest: time.
        judged_without_bursts: whether the rare questions that judge have one copy each, whatever training has.

    Returns:
        The time, in units in which the weights' own flow is dW/dt = -∂L/∂W; infinite where it never comes.
    """
    competition = Competition.of(task, causal=causal, readout=readout)
    changes = {"rare_share": 1.0, "fresh_share": 0.0} | ({"burstiness": 1} if judged_without_bursts else {})
    rare = Competition.of(dataclasses.replace(task, **changes), causal=causal, readout=readout)
    frozen: list[int] = []
    if trained is not None:
        moving = {index for circuit in trained for index in competition.coordinates_of(circuit)}
        frozen = [index for index in range(competition.manifold.dim) if index not in moving]
    start = competition.point(values)[None]
    return float(emergence_times(competition.loss, start, loss=loss, longest=longest, frozen=frozen, watched=rare.loss)[0])
