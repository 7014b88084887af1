"""``invariscope core MODEL PAIRS.csv``: the core of a behaviour of one's own, at every layer, tested, reported and exported.

PAIRS.csv holds prompts with an answer and a foil each; the name of a built-in behaviour does as well. The folder gets cores, the
sweep's table, figures, a report that opens offline, and the chosen core as a steering vector with recipes for other tools.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from invariscope.cli.pairs import read_behaviour
from invariscope.cli.parse import parse
from invariscope.errors import ConfigError, ForeignFileError

if TYPE_CHECKING:
    from invariscope.positions import Positions
    from invariscope.tasks import Behaviour, PairSet

__all__ = ["CoreOptions", "command"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreOptions:
    """Extract the core of a behaviour at every layer, keep, remove and flip it beside every control, and write the report.

    Args:
        model: a shipped model (invariscope list --models), a folder, a .gguf file, or a hub id.
        pairs: a CSV file with prompt, answer and foil (docs/howto/pairs.md), or agreement, agreement-paper, tense, pronoun.
        layers: that are swept, from 0; not given: all.
        projections: of the cores; the first is looked at closely.
        ranks: that are tried.
        positions: where edits act: at the last token, at all but the first (cores are read at the last either way), or at the
            token that each row names in its column position, where cores are then read too; not given: marked for a file
            that has this column, else last.
        heldout_share: of the prompts, by group, where the file does not say.
        batch_size: prompts at a time.
        dtype: of the weights.
        seed: of the split, random subspaces and bootstraps.
        out: the folder that is written to; out/core-MODEL-PAIRS where it is not given.
        plan: print what would stand in memory, refuse what does not fit, and stop.
        debug: show the traceback of whatever goes wrong.
    """

    model: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="MODEL")]
    pairs: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="PAIRS.csv")]
    layers: Annotated[tuple[int, ...], tyro.conf.arg(metavar="N ...")] = ()
    projections: tuple[Literal["oblique", "adjoint", "activation"], ...] = ("oblique", "adjoint", "activation")
    ranks: Annotated[tuple[int, ...], tyro.conf.arg(metavar="K ...")] = (1,)
    positions: Literal["last", "all", "marked"] | None = None
    heldout_share: Annotated[float, tyro.conf.arg(metavar="SHARE")] = 0.3
    batch_size: Annotated[int, tyro.conf.arg(metavar="N")] = 64
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    seed: Annotated[int, tyro.conf.arg(metavar="N")] = 0
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    plan: bool = False
    debug: bool = False


def command(args: Sequence[str]) -> int:
    """Sweep, write and print where the report is."""
    options = parse(CoreOptions, args, prog="invariscope core")
    pairs = read_behaviour(options.pairs)
    positions = options.positions or _positions(pairs)
    if options.plan:
        return _plan(options, pairs, whole_prompts=positions != "last")
    # Only now: help, a bad file and a plan need no torch.
    from invariscope.cores.behaviour import behaviour_data
    from invariscope.experiments.language_cores.run import run_behaviour
    from invariscope.models import load_language_model
    from invariscope.report import build_report, print_summary
    from invariscope.storage.run_folder import RunFolder

    lm = load_language_model(options.model, dtype=options.dtype)
    at: Positions = slice(1, None) if positions == "all" else positions
    data = behaviour_data(
        lm,
        pairs,
        heldout_share=options.heldout_share,
        batch_size=options.batch_size,
        seed=options.seed,
        layers=options.layers or None,
        projections=options.projections,
        ranks=options.ranks,
        positions=at,
    )
    for note in data.notes:
        print(f"Note: {note}")
    out = options.out or Path("out") / f"core-{Path(options.model).stem}-{Path(options.pairs).stem}"
    with RunFolder.open(
        out,
        config=_config(options, lm.describe()) | {"positions": positions},
        kind="core",
        experiment="core",
        summary=f"The core of {data.name} in {lm.name}",
        seeds=[options.seed],
        command=shlex.join(["invariscope", "core", *args]),
    ) as folder:
        found = run_behaviour(lm, data, folder, seed=options.seed)
    build_report(out)
    print(found.sweep.table())
    print_summary(out)
    if found.detail is not None:
        print(f"Steering vector and recipes: {out / 'steering'}")
    return 0


def _config(options: CoreOptions, facts: dict[str, Any]) -> dict[str, Any]:
    """What decides the numbers: the options, the model, and the prompts themselves."""
    import hashlib

    path = Path(options.pairs)
    digest = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
    return {
        "model": facts,
        "pairs": options.pairs,
        "pairs_sha256": digest,
        "layers": list(options.layers),
        "projections": list(options.projections),
        "ranks": list(options.ranks),
        "heldout_share": options.heldout_share,
        "batch_size": options.batch_size,
        "seed": options.seed,
    }


def _positions(pairs: PairSet | Behaviour) -> Literal["last", "marked"]:
    """``marked`` for a file of which some row names another token than the last; built-in behaviours are about the last."""
    from invariscope.tasks import PairSet

    return "marked" if isinstance(pairs, PairSet) and any(pair.position != "last" for pair in pairs.pairs) else "last"


def _plan(options: CoreOptions, pairs: PairSet | Behaviour, *, whole_prompts: bool) -> int:
    """Print the memory plan; a plan that does not fit is bad input."""
    from invariscope.cores.plan import available_bytes, plan_sweep, shape_of

    shape = shape_of(_model_config(options.model))
    from invariscope.tasks import PairSet

    parts = [pairs] if isinstance(pairs, PairSet) else [pairs.train, pairs.heldout]
    texts = [pair.prompt for part in parts for pair in part.pairs]
    plan = plan_sweep(
        shape,
        num_prompts=len(texts),
        # Before the tokeniser is there: a token is rarely shorter than two letters.
        tokens=2 + max(len(text) for text in texts) // 2,
        layers=len(options.layers) or shape.num_layers,
        batch_size=options.batch_size,
        dtype=options.dtype,
        whole_prompts=whole_prompts,
        available=available_bytes(),
    )
    print(plan.table())
    plan.check()
    return 0


def _model_config(name: str) -> dict[str, Any]:
    """The model's shape, without loading it."""
    from invariscope.storage.shipped_models import SHIPPED_MODELS

    if name in SHIPPED_MODELS:
        return dict(SHIPPED_MODELS[name].config)
    path = Path(name) / "config.json"
    try:
        return json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise ConfigError(
            f"--plan for {name!r}", expected="a shipped model or a folder with config.json", do="run without --plan"
        ) from None
    except ValueError as error:
        raise ForeignFileError(f"{path} ({error})", expected="JSON", do="save the model again") from error
