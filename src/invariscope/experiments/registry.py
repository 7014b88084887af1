"""The experiments by name, each with one line; a module is imported when it is chosen, so that listing them needs no torch.

An experiment is a package with ``Config``, a frozen dataclass that has ``all_seeds()`` and ``with_first_seed(n)``;
``PRESETS``, name to Config; and ``run(config, folder, preset=..., engine=..., progress=...)``, which leaves claims, figures
and cores in the run's folder.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from invariscope.errors import unknown_name

__all__ = ["EXPERIMENTS", "Experiment", "ExperimentEntry", "find_experiment", "load_experiment"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentEntry:
    """What is known of an experiment without loading it.

    Args:
        name: as on the command line.
        summary: one line.
        source: the paper.
        presets: name to one line each.
        module: where its code stands.
    """

    name: str
    summary: str
    source: str
    presets: Mapping[str, str]
    module: str


class Experiment(Protocol):
    """What an experiment's package offers."""

    Config: type[Any]
    PRESETS: Mapping[str, Any]
    run: Callable[..., None]


EXPERIMENTS: Mapping[str, ExperimentEntry] = {
    entry.name: entry
    for entry in (
        ExperimentEntry(
            name="markov-cores",
            summary="Transformers trained on Markov chains share one small core that carries the chain's spectrum",
            source="arXiv:2602.22600",
            presets={
                "quick": "seven small models on three chains, a minute or two on two cores",
                "standard": "six chains, five seeds each, hidden chains, sizes: about twenty minutes on two cores",
                "paper": "the paper's own model, chain and training, three seeds: some minutes",
            },
            module="invariscope.experiments.markov_cores",
        ),
        ExperimentEntry(
            name="agreement",
            summary="One late direction of a pretrained language model carries subject-verb agreement",
            source="arXiv:2602.22600",
            presets={
                "quick": "late layers of the two models that ship in packages, some minutes on two cores",
                "standard": "every layer of both: about half an hour on two cores",
                "paper": "the paper's six models, for whoever has them",
            },
            module="invariscope.experiments.language_cores",
        ),
        ExperimentEntry(
            name="assign-add",
            summary="A two-layer transformer composes the look-up of variables with modular addition that it learnt first",
            source="arXiv:2605.31497",
            presets={
                "quick": "one small model, under a minute",
                "standard": "the same for five seeds: some minutes on two cores",
                "phases": "five long trainings at a constant rate, with parts frozen: an hour on two cores",
                "paper": "the paper's layout, split and training, five seeds: an hour on two cores",
            },
            module="invariscope.experiments.assign_add",
        ),
        ExperimentEntry(
            name="imir-confinement",
            summary="Gradient descent on a symmetric task stays on a small manifold of weights, exactly",
            source="arXiv:2607.11875",
            presets={
                "quick": "eleven tasks, six models, six controls: under a minute",
                "standard": "the same at twice as many points: some minutes",
            },
            module="invariscope.experiments.imir_confinement",
        ),
        ExperimentEntry(
            name="imir-dynamics",
            summary="Recall is learnt in a few coordinates, and later the longer the context",
            source="arXiv:2607.11875, arXiv:2511.01033",
            presets={
                "quick": "three descents, six context lengths, 169 beginnings: under a minute",
                "standard": "five descents, seven context lengths, 625 beginnings: some minutes",
            },
            module="invariscope.experiments.imir_dynamics",
        ),
        ExperimentEntry(
            name="imir-competition",
            summary="Memory in the weights slows recall from the context by what it leaves unanswered",
            source="arXiv:2607.11875",
            presets={
                "quick": "exact gradients and times over data mixes: under a minute",
                "standard": "the same over a finer grid: some minutes",
            },
            module="invariscope.experiments.imir_competition",
        ),
        ExperimentEntry(
            name="imir-transformers",
            summary="Induction coordinates of ordinary transformers say how recall is learnt, and which heads of SmolLM2 induce",
            source="arXiv:2607.11875, arXiv:2209.11895",
            presets={
                "quick": "four trainings on recall and one language model: a minute on two cores",
                "standard": "fifteen longer ones, more sequences: some minutes",
            },
            module="invariscope.experiments.imir_transformers",
        ),
    )
}


def find_experiment(name: str) -> ExperimentEntry:
    """The entry called ``name``.

    Raises:
        UnknownNameError: with the nearest names.
    """
    if name not in EXPERIMENTS:
        raise unknown_name("experiment", name, EXPERIMENTS)
    return EXPERIMENTS[name]


def load_experiment(name: str) -> Experiment:
    """The package of the experiment called ``name``.

    Raises:
        UnknownNameError: with the nearest names.
    """
    module: Any = importlib.import_module(find_experiment(name).module)
    return module
