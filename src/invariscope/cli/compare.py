"""``invariscope compare CORE_OR_RUN CORE_OR_RUN ...``: how alike saved cores or trained models are, pair by pair.

From two cores: the overlap of their write and read spans, beside chance and the central 95 % of random spans. With ``--model``
and ``--pairs`` also every similarity of their coordinates on the same prompts, which cores of two models have as well. From two
runs their cores are extracted first, at one site and from the same sequences; then also the cosine of their weights and, where
both were trained on one task, the canonical correlations of their coordinates on the same held-out inputs.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from invariscope.cli.pairs import read_behaviour
from invariscope.cli.parse import parse
from invariscope.cli.tasks import describe_run_task, run_manifest
from invariscope.errors import ConfigError, ForeignFileError, InvariscopeError, RankError, ShapeError

if TYPE_CHECKING:
    from invariscope.cores import Core, PairCoordinates
    from invariscope.estimate import Similarity
    from invariscope.tasks import PairSet, SampledBatches
    from invariscope.training import Run

__all__ = ["CompareOptions", "command"]

BATCH = 256
TOLERANCE = 0.02
HEADINGS = ("pair", "measure", "value", "chance", "central 95 %", "of")
SIMILARITIES = {"cca": "CCA", "spearman": "Spearman", "procrustes": "Procrustes", "cka": "CKA"}


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareOptions:
    """Compare cores (FILE.safetensors) and runs (the folder of one trained model) pair by pair.

    Args:
        paths: two or more of them.
        model: with --pairs, that the cores came from: one for all, or one for each in the order of the cores; a shipped model
            (invariscope list --models), a folder, a .gguf file, or a hub id.
        pairs: with --model, the prompts that coordinates of cores are compared on, a CSV file (docs/howto/pairs.md) or the
            held-out half of a built-in behaviour; its groups are never split.
        force: read cores in other weights than those that they came from.
        dtype: of the models' weights, as when the cores were made.
        batch_size: prompts at a time.
        site: where the cores of runs are extracted; not given: blocks.L.resid_mid of the last block L.
        rank: of the cores of runs; not given: the smallest that suffices, run by run.
        projection: of the cores of runs.
        sequences: that cores of runs are extracted from, and as many held-out ones that coordinates are compared on.
        seed: of the sequences, and of what is held out of the prompts.
        debug: show the traceback of whatever goes wrong.
    """

    paths: Annotated[tyro.conf.Positional[tuple[Path, ...]], tyro.conf.arg(metavar="CORE_OR_RUN")]
    model: Annotated[tuple[str, ...], tyro.conf.arg(metavar="MODEL ...")] = ()
    pairs: Annotated[str | None, tyro.conf.arg(metavar="PAIRS.csv")] = None
    force: bool = False
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    batch_size: Annotated[int, tyro.conf.arg(metavar="N")] = 64
    site: Annotated[str | None, tyro.conf.arg(metavar="SITE")] = None
    rank: Annotated[int | None, tyro.conf.arg(metavar="K")] = None
    projection: Literal["activation", "adjoint", "oblique"] = "adjoint"
    sequences: Annotated[int, tyro.conf.arg(metavar="N")] = 2048
    seed: Annotated[int, tyro.conf.arg(metavar="N")] = 0
    debug: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Subject:
    """One thing to compare: a core, for a run its model and the description of its task, else where it was read on prompts."""

    path: Path
    core: Core
    run: Run | None = None
    task: dict[str, Any] | None = None
    model: str = ""
    read: PairCoordinates | None = None


def command(args: Sequence[str]) -> int:
    """Print one line a pair and measure."""
    options = parse(CompareOptions, args, prog="invariscope compare")
    _check_paths(options)
    pairs = _pairs(options)
    subjects = [_subject(path, options) for path in options.paths]
    if pairs is None:
        _check_dimensions(subjects)
    else:
        subjects = _read_on_pairs(subjects, pairs, options)
    rows = [row for a, b in itertools.combinations(subjects, 2) for row in _compare(a, b, options)]
    _print(subjects, rows)
    return 0


def _check_paths(options: CompareOptions) -> None:
    """Refuse what can be refused without torch."""
    paths = options.paths
    if len(paths) < 2:
        raise ConfigError(
            f"{len(paths)} to compare" + "".join(f": {path}" for path in paths),
            expected="two or more cores or runs",
            # Every word after --model is one of its own.
            do="name them before --model" if options.model else "name a second one",
        )
    for path in paths:
        if path.is_dir():
            run_manifest(path)
        elif not path.is_file():
            raise ForeignFileError(
                f"{path}, which is not there", expected="a core's file or a run's folder", do="correct the path"
            )


def _pairs(options: CompareOptions) -> PairSet | None:
    """The prompts; None where coordinates on prompts are not asked for. Refuses what can be refused without a model."""
    if not options.model and options.pairs is None:
        return None
    if not options.model or options.pairs is None:
        given, missing = ("--model", "--pairs") if options.model else ("--pairs", "--model")
        raise ConfigError(
            f"{given} without {missing}",
            expected="a model that the cores came from and prompts to read their coordinates on",
            do="give both, or neither to compare spans only",
        )
    for path in options.paths:
        if path.is_dir():
            raise ConfigError(
                f"{path}, a run, with --model and --pairs",
                expected="cores of language models",
                do="give the files of cores, or leave both options out",
            )
    if len(options.model) not in (1, len(options.paths)):
        raise ConfigError(
            f"{len(options.model)} models for {len(options.paths)} cores",
            expected="one model for all, or one for each core in their order",
            do="name every core's model after --model",
        )
    found = read_behaviour(options.pairs)

    from invariscope.tasks import PairSet

    return found if isinstance(found, PairSet) else found.heldout


def _check_dimensions(subjects: Sequence[_Subject]) -> None:
    first = subjects[0]
    for other in subjects[1:]:
        if other.core.dim != first.core.dim:
            raise ShapeError(
                f"{first.path} with a core of dimension {first.core.dim} and {other.path} with one of {other.core.dim}",
                expected="cores that live in spaces of one dimension",
                do="compare models of one width, at sites of one kind, or coordinates of cores with --model and --pairs",
            )


def _read_on_pairs(subjects: Sequence[_Subject], pairs: PairSet, options: CompareOptions) -> list[_Subject]:
    """The subjects with their coordinates; each model is loaded once, and only one is in memory."""
    from invariscope.cores import read_pair_coordinates
    from invariscope.models import load_language_model
    from invariscope.parallel import track

    models = options.model * (len(subjects) if len(options.model) == 1 else 1)
    found = list(subjects)
    with track("reading coordinates", len(subjects), unit="cores") as advance:
        for name in dict.fromkeys(models):
            lm = load_language_model(name, dtype=options.dtype)
            for i in (i for i, model in enumerate(models) if model == name):
                try:
                    read = read_pair_coordinates(subjects[i].core, lm, pairs, batch_size=options.batch_size, force=options.force)
                except InvariscopeError as error:
                    given = f"{subjects[i].path} in {name}: {error.given}"
                    raise type(error)(given, expected=error.expected, do=error.do) from error
                found[i] = dataclasses.replace(subjects[i], model=name, read=read)
                advance()
            del lm
    return found


def _subject(path: Path, options: CompareOptions) -> _Subject:
    from invariscope.cores import by_sufficiency, extract_core, load_core
    from invariscope.tasks import build_task
    from invariscope.training import load_run

    if path.is_file():
        return _Subject(path=path, core=load_core(path))
    run, description = load_run(path), describe_run_task(path)
    task = build_task(description)
    core = extract_core(
        run.model,
        _sequences(description, options, "extraction"),
        site=options.site or f"blocks.{run.model.config.num_layers - 1}.resid_mid",
        positions=task.loss_positions,
        rank=by_sufficiency(TOLERANCE) if options.rank is None else options.rank,
        projection=options.projection,
    )
    return _Subject(path=path, core=core, run=run, task=description)


def _sequences(description: dict[str, Any], options: CompareOptions, purpose: Literal["extraction", "heldout"]) -> SampledBatches:
    from invariscope.tasks import SampledBatches, build_task, derive_seed

    task = build_task(description)
    pool = task.pools[0] if purpose == "extraction" else task.pools[:2][-1]
    seed = derive_seed(options.seed, "compare", purpose)
    return SampledBatches(task, options.sequences, batch_size=BATCH, seed=seed, pool=pool)


def _compare(a: _Subject, b: _Subject, options: CompareOptions) -> list[list[str]]:
    pair = f"{a.path} | {b.path}"
    rows = _overlap_rows(a, b)
    if a.read is not None and b.read is not None:
        rows += _pairs_rows(a.read, b.read, options)
    if a.run is not None and b.run is not None:
        rows += _run_rows(a, b, options)
    return [[pair, *row] for row in rows]


def _overlap_rows(a: _Subject, b: _Subject) -> list[list[str]]:
    from invariscope.cores import projector_overlap

    if why := _apart(a, b):
        return [["overlap of spans", "-", "-", "-", f"not defined for {why}"]]
    of = f"ranks {a.core.rank} and {b.core.rank} of {a.core.dim}"
    return [
        [f"overlap of {span} spans", *_numbers(projector_overlap(a.core, b.core, span=span)), of] for span in ("write", "read")
    ]


def _apart(a: _Subject, b: _Subject) -> str:
    """Why two cores that were read on prompts have no space in common, such as two models; empty where they have one."""
    if a.core.dim != b.core.dim:
        return f"cores of dimensions {a.core.dim} and {b.core.dim}"
    weights = [one.core.provenance.model for one in (a, b)]
    known = all(weights)
    if a.read is not None and b.read is not None and (weights[0] != weights[1] if known else a.model != b.model):
        return "cores of two models, whose spaces have no basis in common"
    return ""


def _pairs_rows(a: PairCoordinates, b: PairCoordinates, options: CompareOptions) -> list[list[str]]:
    """Every similarity of coordinates on the same prompts."""
    import torch

    from invariscope.cores import compare_pair_coordinates

    try:
        found = compare_pair_coordinates(a, b, generator=torch.Generator().manual_seed(options.seed))
    except RankError as error:
        return [["similarities of coordinates", "-", "-", "-", error.given]]
    rows = []
    for name, label in SIMILARITIES.items():
        one: Similarity = getattr(found, name)
        sizes = f"n {one.num_fit}+{one.num_heldout}, d {one.dims[0]} and {one.dims[1]}, k {one.rank}"
        rows.append(_mean_row(label, one, sizes))
        if one.rank > 1:
            rows.append(_smallest_row(label, one, sizes))
        if one.heldout_intervals:
            # That of the mean is not known: the last row is of one component.
            low, high = one.heldout_intervals[_smallest(one)]
            rows[-1][1] += f" [{low:.4f}, {high:.4f}]"
    return rows


def _run_rows(a: _Subject, b: _Subject, options: CompareOptions) -> list[list[str]]:
    """Canonical correlations on held-out sequences, and the cosine of the weights."""
    from invariscope.cores import compare_coordinates, core_coordinates, weight_cosine

    assert a.run is not None
    assert b.run is not None
    rows = [["CCA of coordinates", "-", "-", "-", "their tasks differ"]]
    if a.task is not None and a.task == b.task:
        heldout = _sequences(a.task, options, "heldout")
        (z_a, at), (z_b, _) = (core_coordinates(x.core, x.run.model, heldout) for x in (a, b) if x.run is not None)
        cca = compare_coordinates(z_a, z_b, groups=at.groups).cca
        sizes = f"n {cca.num_fit}+{cca.num_heldout}, k {cca.rank}"
        rows = [_mean_row("CCA", cca, sizes), _smallest_row("CCA", cca, sizes)]
    try:
        cosine, why = f"{weight_cosine(a.run.model, b.run.model):.4f}", "all weight matrices"
    except ShapeError as error:
        cosine, why = "-", error.given
    return [*rows, ["weight cosine", cosine, "0", "-", why]]


def _mean_row(label: str, similarity: Similarity, sizes: str) -> list[str]:
    return [f"{label} of coordinates, held out", *_numbers(similarity), sizes]


def _smallest_row(label: str, similarity: Similarity, sizes: str) -> list[str]:
    value, null = similarity.heldout_components[_smallest(similarity)], min(similarity.null_components)
    return [f"{label}, smallest component, held out", f"{value:.4f}", f"{null:.4f}", "-", sizes]


def _smallest(similarity: Similarity) -> int:
    return min(range(len(similarity.heldout_components)), key=similarity.heldout_components.__getitem__)


def _numbers(similarity: Similarity) -> list[str]:
    value = similarity.value if similarity.heldout is None else similarity.heldout
    return [
        f"{value:.4f}",
        f"{similarity.null_mean:.4f}",
        f"[{similarity.null_low:.4f}, {similarity.null_high:.4f}]",
    ]


def _print(subjects: Sequence[_Subject], rows: Sequence[Sequence[str]]) -> None:
    """A table on a terminal, lines of cells between bars elsewhere."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    console = Console()
    for subject in subjects:
        made = subject.core.provenance
        line = f"{subject.path}: {made.projection or 'a'} core of rank {subject.core.rank} at {made.site or 'an unnamed site'}"
        if (read := subject.read) is not None:
            line += f" of {subject.model}, read at {read.positions!r} of {read.num_prompts} prompts in {read.num_groups} groups"
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    for note in dict.fromkeys(note for subject in subjects if subject.read is not None for note in subject.read.notes):
        console.print(f"Note: {note}", markup=False, highlight=False, soft_wrap=True)
    if not console.is_terminal:
        for row in rows:
            console.print("  ".join(row), markup=False, highlight=False, soft_wrap=True)
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in HEADINGS:
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(*row)
    console.print(table)
