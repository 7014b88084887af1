"""An instrument for finding what is invariant inside trained transformers.

``import invariscope as iv`` loads nothing but this list; a name brings its own part of the package, and torch with it, when it is
first used (PEP 562). The names are documented where they are defined::

    task = iv.tasks.MarkovChain.named("four_real")
    config = iv.TransformerConfig(vocab_size=task.vocab_size, context_length=task.sequence_length)
    [run] = iv.train(task, config, iv.TrainConfig(steps=300), seeds=[0])
    batches = task.batches(1024, batch_size=256, seed=1, pool="train")
    core = iv.extract_core(run.model, batches, site="blocks.0.resid_mid", objective=iv.logits(), positions="all", rank=3)

>>> import invariscope as iv
>>> iv.extract_cor
Traceback (most recent call last):
    ...
AttributeError: module 'invariscope' has no name 'extract_cor'; nearest: extract_core, Operator, QRFactor
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from invariscope import circuits, tasks
    from invariscope.batch import Batch
    from invariscope.circuits import measure_circuits
    from invariscope.cores import (
        Baseline,
        CoordinateComparison,
        Core,
        CoreAtStep,
        CoreSeries,
        Effects,
        Identification,
        LayerSweep,
        Metric,
        Moments,
        Provenance,
        RankCurve,
        SketchError,
        Transplant,
        accuracy,
        auc,
        by_energy,
        by_gap,
        by_sufficiency,
        change_elsewhere,
        choice_accuracy,
        choice_margin,
        collect_moments,
        compare_coordinates,
        core_coordinates,
        cross_entropy,
        direction_stability,
        distributed_alignment_search,
        divergence,
        estimate_sketch_error,
        export_steering,
        extract_core,
        follow_core,
        identify_operator,
        linear_probe_core,
        load_core,
        projector_overlap,
        rank_curve,
        sweep_layers,
        transplant,
        validate_core,
        weight_cosine,
    )
    from invariscope.errors import InvariscopeError
    from invariscope.estimate import Estimate, Similarity
    from invariscope.manifold import (
        InductionCoordinates,
        InductionManifold,
        InductionPatterns,
        InductionSeries,
        ReducedLoss,
        descend,
        emergence_times,
        follow_induction,
        follow_offspan,
        induction_coordinates,
        induction_patterns,
    )
    from invariscope.models import (
        Disentangled,
        DisentangledConfig,
        LanguageModel,
        Transformer,
        TransformerConfig,
        folded_logits,
        from_lens,
        lens_series,
        load_language_model,
        load_lens,
        save_lens,
        to_lens,
        untrained,
    )
    from invariscope.numerics import Operator, QRFactor, fit_operator
    from invariscope.positions import Rows
    from invariscope.sites import (
        EditReport,
        Objective,
        SeenSites,
        Verification,
        choices,
        edit_site,
        list_sites,
        logits,
        margin,
        read_sites,
        verify_model,
    )
    from invariscope.tasks import read_pairs
    from invariscope.training import Run, Start, TrainConfig, load_run, train

    __version__: str

__all__ = [
    "Baseline",
    "Batch",
    "CoordinateComparison",
    "Core",
    "CoreAtStep",
    "CoreSeries",
    "Disentangled",
    "DisentangledConfig",
    "EditReport",
    "Effects",
    "Estimate",
    "Identification",
    "InductionCoordinates",
    "InductionManifold",
    "InductionPatterns",
    "InductionSeries",
    "InvariscopeError",
    "LanguageModel",
    "LayerSweep",
    "Metric",
    "Moments",
    "Objective",
    "Operator",
    "Provenance",
    "QRFactor",
    "RankCurve",
    "ReducedLoss",
    "Rows",
    "Run",
    "SeenSites",
    "Similarity",
    "SketchError",
    "Start",
    "TrainConfig",
    "Transformer",
    "TransformerConfig",
    "Transplant",
    "Verification",
    "accuracy",
    "auc",
    "by_energy",
    "by_gap",
    "by_sufficiency",
    "change_elsewhere",
    "choice_accuracy",
    "choice_margin",
    "choices",
    "circuits",
    "collect_moments",
    "compare_coordinates",
    "core_coordinates",
    "cross_entropy",
    "descend",
    "direction_stability",
    "distributed_alignment_search",
    "divergence",
    "edit_site",
    "emergence_times",
    "estimate_sketch_error",
    "export_steering",
    "extract_core",
    "fit_operator",
    "folded_logits",
    "follow_core",
    "follow_induction",
    "follow_offspan",
    "from_lens",
    "identify_operator",
    "induction_coordinates",
    "induction_patterns",
    "lens_series",
    "linear_probe_core",
    "list_sites",
    "load_core",
    "load_language_model",
    "load_lens",
    "load_run",
    "logits",
    "margin",
    "measure_circuits",
    "projector_overlap",
    "rank_curve",
    "read_pairs",
    "read_sites",
    "save_lens",
    "sweep_layers",
    "tasks",
    "to_lens",
    "train",
    "transplant",
    "untrained",
    "validate_core",
    "verify_model",
    "weight_cosine",
]

# What stands elsewhere than in cores, where most names do. A test holds this against the imports above.
_HOMES = {
    "batch": ("Batch",),
    "errors": ("InvariscopeError",),
    "estimate": ("Estimate", "Similarity"),
    "circuits": ("measure_circuits",),
    "manifold": (
        "InductionCoordinates",
        "InductionManifold",
        "InductionPatterns",
        "InductionSeries",
        "ReducedLoss",
        "descend",
        "emergence_times",
        "follow_induction",
        "follow_offspan",
        "induction_coordinates",
        "induction_patterns",
    ),
    "models": (
        "Disentangled",
        "DisentangledConfig",
        "LanguageModel",
        "Transformer",
        "TransformerConfig",
        "folded_logits",
        "from_lens",
        "lens_series",
        "load_language_model",
        "load_lens",
        "save_lens",
        "to_lens",
        "untrained",
    ),
    "numerics": ("Operator", "QRFactor", "fit_operator"),
    "positions": ("Rows",),
    "sites": (
        "EditReport",
        "Objective",
        "SeenSites",
        "Verification",
        "choices",
        "edit_site",
        "list_sites",
        "logits",
        "margin",
        "read_sites",
        "verify_model",
    ),
    "tasks": ("read_pairs",),
    "training": ("Run", "Start", "TrainConfig", "load_run", "train"),
}
# Parts of the package that are used as a whole: iv.tasks.AssignAdd.
_MODULES = ("circuits", "tasks")
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    from importlib import import_module, metadata

    if name == "__version__":
        value = metadata.version(__name__)
    elif name in _MODULES:
        value = import_module(f"{__name__}.{name}")
    elif name in __all__:
        value = getattr(import_module(f"{__name__}.{_HOME_OF.get(name, 'cores')}"), name)
    else:
        from invariscope.errors import nearest_names

        message = f"module {__name__!r} has no name {name!r}; nearest: {', '.join(nearest_names(name, __all__))}"
        raise AttributeError(message)
    # The next use finds it without asking here.
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*(name for name in globals() if name.startswith("__")), *__all__, "__version__"})
