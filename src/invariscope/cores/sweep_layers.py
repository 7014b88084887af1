"""Sweep the layers of a language model: cores of one behaviour at every layer, tested beside their controls.

Extraction takes one forward and one backward a batch for all layers together, of the last token alone
(:mod:`invariscope.models.downstream`); an edit at layer i re-runs the layers above i from cached states. Both equal the plain
forward up to rounding.

What is algebra and what is evidence (arXiv:2602.22600): at a late layer a scalar margin has nearly one gradient direction, so
keep, remove and flip pass for the margin of *any* two tokens. Hence the rows beside the core: controls of equal rank, an
**arbitrary margin** with its own core, **transfer** to margins outside the objective, and **specificity**: how little the rest of
the prediction changes, at the edited token and after unrelated text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import nn

from invariscope.batch import Batch
from invariscope.cores.core import Core
from invariscope.cores.edit_bench import EditBench, SweepSettings
from invariscope.cores.extract import collect_moments
from invariscope.cores.layer_effects import measure_layer, resid_post
from invariscope.cores.layer_sweep import LayerSweep, choose_layer
from invariscope.cores.moments import Moments
from invariscope.cores.vocabulary import vocabulary_of
from invariscope.cores.whole_answers import WholeAnswers
from invariscope.errors import ConfigError
from invariscope.models.downstream import Downstream, split_prefix
from invariscope.parallel import track
from invariscope.positions import Positions, describe_positions
from invariscope.sites import Objective, frozen, language_parts

__all__ = ["LayerCores", "extraction_batches", "layer_moments", "sweep_batches"]

LayerCores = dict[tuple[int, str, int], Core]
"""Cores by layer, projection and rank."""


def extraction_batches(model: nn.Module, batches: Iterable[Batch], settings: SweepSettings) -> list[Batch]:
    """What cores are extracted from: the last token of each prompt, after its cached keys and values.

    Where edits act at the token that each prompt marks, cores are those of that token, and prompts stay whole.
    """
    return list(batches) if settings.at_marked else [split_prefix(model, batch) for batch in batches]


def layer_moments(
    model: nn.Module, prepared: Sequence[Batch], objective: Objective, layers: Sequence[int], *, positions: Positions = "last"
) -> dict[int, Moments]:
    """Moments of what each of ``layers`` puts out at one token a prompt, in one forward and one backward a batch.

    Args:
        model: a causal language model.
        prepared: from :func:`extraction_batches`.
        objective: of the logits at the last token.
        layers: from 0.
        positions: of that token.
    """
    few = vocabulary_of([objective], prepared)
    last = Downstream(model, vocabulary=None if few is None else few.ids)
    batches = prepared if few is None else [few.batch(batch) for batch in prepared]
    found = collect_moments(
        last,
        batches,
        sites=[resid_post(layer) for layer in layers],
        objective=objective if few is None else few.objective(objective),
        positions=positions,
        outputs_at="last",
    )
    return {layer: found[resid_post(layer)] for layer in layers}


def sweep_batches(
    model: nn.Module,
    extraction: Iterable[Batch],
    heldout: Iterable[Batch],
    settings: SweepSettings,
    *,
    unrelated: Iterable[Batch] = (),
    whole_answers: WholeAnswers | None = None,
    model_name: str = "",
    behaviour: str = "",
    generator: torch.Generator | None = None,
    progress: bool = True,
) -> tuple[LayerSweep, LayerCores]:
    """Cores at every layer and what they do.

    Args:
        model: a causal language model of a known family; weights and modes are left as they are.
        extraction, heldout: prompts padded on the left, with labels or choices as the objective needs; no group in both.
        settings: what is swept.
        unrelated: text whose next-token prediction should not change, in the same form.
        whole_answers: of ``heldout``, where some answer has several tokens.
        model_name, behaviour: for the table.
        generator: of random subspaces and bootstraps; None: seed 0.
        progress: show a bar.

    Raises:
        ConfigError: for a layer that the model does not have, or none.
        RankError: for a rank that the data do not carry; and as :func:`invariscope.cores.validate_core` does.
    """
    generator = generator or torch.Generator().manual_seed(0)
    layers = _checked_layers(model, settings)
    with track("extracting", 1, unit="pass", show=progress) as advance, frozen(model):
        prepared = extraction_batches(model, extraction, settings)
        moments, *rest = (
            layer_moments(model, prepared, found, layers, positions=settings.read_at)
            for found in (settings.objective, *settings.arbitrary.values())
        )
        others = dict(zip(settings.arbitrary, rest, strict=True))
        num_extraction = sum(batch.num_rows for batch in prepared)
        # Their keys and values are the largest thing held.
        del prepared
        advance()
    bench = EditBench.of(model, heldout, unrelated, settings, whole_answers=whole_answers)
    found, cores = [], {}
    with track("editing", len(layers), unit="layers", show=progress) as advance, frozen(model):
        for layer in layers:
            here = {
                (projection, rank): moments[layer].core(rank, projection)
                for rank in settings.ranks
                for projection in settings.projections
            }
            arbitrary = {name: parts[layer].core(1, "oblique") for name, parts in others.items()}
            found.append(measure_layer(bench, layer, moments[layer], here, arbitrary, generator))
            cores |= {(layer, *key): core for key, core in here.items()}
            advance()
    chosen, rule = choose_layer([(one.layer, one.share[0]) for one in found])
    sweep = LayerSweep(
        model=model_name,
        behaviour=behaviour,
        objective=settings.objective.name,
        positions=describe_positions(settings.positions),
        num_extraction=num_extraction,
        num_heldout=bench.rows.num,
        projections=tuple(settings.projections),
        ranks=tuple(settings.ranks),
        transfers=tuple(settings.transfers),
        layers=tuple(found),
        chosen=chosen,
        rule=rule,
    )
    return sweep, cores


def _checked_layers(model: nn.Module, settings: SweepSettings) -> list[int]:
    num_layers, layers = len(language_parts(model).blocks), settings.layers
    last = num_layers - 1
    if settings.at_marked:
        # Above the last block nothing reads what stands before the last token.
        last -= 1
    chosen = list(range(last + 1)) if layers is None else sorted(set(layers))
    if not chosen or not 0 <= chosen[0] <= chosen[-1] <= last:
        raise ConfigError(
            f"layers {list(layers or ())} of a model of {num_layers} layers",
            expected=f"some of 0 to {last}{', above which the last token reads the marked one' if settings.at_marked else ''}",
            do="count layers from 0, or leave them out for all",
        )
    return chosen
