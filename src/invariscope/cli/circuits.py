"""``invariscope circuits CHECKPOINT --task assign-add``: the circuits of a model that assigns and adds, each beside its control.

A checkpoint is one of ours, a run's folder, or a state dict of TransformerLens; a folder of them is followed, one line a step.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from invariscope.cli.parse import parse
from invariscope.cli.tasks import describe_run_task, read_task
from invariscope.errors import ConfigError, FolderError, ForeignFileError, InvariscopeError, unknown_name

if TYPE_CHECKING:
    from invariscope.circuits import CircuitMeasures, MeasureRow
    from invariscope.models import Transformer
    from invariscope.tasks import AssignAdd

__all__ = ["CircuitsOptions", "command"]

TASKS = ("assign-add", "assign-add-paper")
FIELDS = (
    "modulus",
    "num_variables",
    "min_assignments",
    "max_assignments",
    "num_pads",
    "layout",
    "split",
    "split_seed",
    "heldout_share",
)
"""Of the task, each an option of the same name."""

HEADINGS = ("measure", "value", "control", "what it is", "what the control is")
COLUMNS = ("step", "measure", "value", "low", "high", "control", "num", "unit", "what it is", "what the control is")
SERIES = {
    "attn1_equal_to_operands": "attn1 = operands",
    "attn2_equal_to_values": "attn2 = values",
    "number_to_own_variable": "own variable",
    "qk2_ov1_variable_identity": "identity",
    "ov2_mlp2_accuracy": "ov2_mlp2",
    "shared_pre_activations": "shared pre-act.",
    "frequency_share": "frequency",
    "gradient_cosine": "gradient",
}
"""What is followed over steps, and how its column is headed."""
SUMS = {
    "seen": "sums of training",
    "held": "held-out sums",
    "held-swapped": "held-out sums whose swap is in training",
    "held-unseen": "held-out sums in no order in training",
}
SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class CircuitsOptions:
    """Measure the circuits of models trained on Assign and Add: two layers of one head, no norm, ReLU in the second layer's MLP.

    Args:
        checkpoint: a checkpoint (.safetensors) or run of ours, a state dict of TransformerLens (.pt, .pth, .safetensors), or a
            folder of either, whose files are named by their steps.
        task: assign-add, assign-add-paper, or a file with a task's description; not given: what the run's manifest says.
        modulus: of the sums.
        num_variables: that there are.
        min_assignments: of a sequence.
        max_assignments: of a sequence.
        num_pads: paddings of the fullest sequences.
        layout: of the sequences.
        split: what held-out sums are.
        split_seed: of which sums are held out.
        heldout_share: of the sums.
        series: every checkpoint of a run, not its last alone.
        num: sequences behind each measure of activations and each accuracy, and half as many sums in two versions.
        probes: sequences behind linear probes, some thousands; 0: no probes, which take as long as all the rest.
        seed: of everything that is drawn.
        out: a folder that circuits.json and circuits.csv are written to.
        debug: show the traceback of whatever goes wrong.
    """

    checkpoint: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="CHECKPOINT")]
    task: Annotated[str | None, tyro.conf.arg(metavar="NAME|FILE.json")] = None
    modulus: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    num_variables: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    min_assignments: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    max_assignments: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    num_pads: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    layout: Literal["presentation", "paper"] | None = None
    split: Literal["unordered", "ordered"] | None = None
    split_seed: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    heldout_share: Annotated[float | None, tyro.conf.arg(metavar="SHARE")] = None
    series: bool = False
    num: Annotated[int, tyro.conf.arg(metavar="N")] = 512
    probes: Annotated[int, tyro.conf.arg(metavar="N")] = 0
    seed: Annotated[int, tyro.conf.arg(metavar="N")] = 0
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    debug: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Measured:
    """One checkpoint: its step, where it has one, and everything that was measured."""

    step: int | None
    path: Path
    rows: tuple[MeasureRow, ...]

    def value(self, name: str) -> float | None:
        return next((row.value for row in self.rows if row.name == name), None)


def command(args: Sequence[str]) -> int:
    """Print a table of measures, or for a series one line a step, and write both where ``--out`` says."""
    options = parse(CircuitsOptions, args, prog="invariscope circuits")
    run = _check(options)
    # Only now: help and the refusals above need no torch.
    from invariscope.parallel import track

    task = _task(options, run)
    files = _files(options)
    measured = []
    with track("measuring circuits", len(files), unit="checkpoints", show=len(files) > 1) as advance:
        for step, path in files:
            measured.append(_Measured(step=step, path=path, rows=_rows(path, task, options)))
            advance()
    if options.out is not None:
        _write(options.out, measured, task, options)
    _print(measured, task, options, series=options.series or (run is None and options.checkpoint.is_dir()))
    if options.out is not None:
        print(f"Measures: {options.out / 'circuits.json'}, {options.out / 'circuits.csv'}")
    return 0


def _check(options: CircuitsOptions) -> Path | None:
    """The folder of the run that the checkpoint is of, or None; refuses what can be refused without torch."""
    path = options.checkpoint
    if not path.exists():
        raise ForeignFileError(
            f"{path}, which is not there",
            expected="a checkpoint, a run's folder, or a folder of state dicts",
            do="correct the path",
        )
    if options.series and not path.is_dir():
        raise ConfigError(
            f"--series with {path}, a single file", expected="a folder with a checkpoint a step", do="give the run's folder"
        )
    if options.task is not None and options.task not in TASKS and not options.task.endswith(".json"):
        raise unknown_name("task", options.task, TASKS)
    if options.out is not None and options.out.exists() and not options.out.is_dir():
        raise FolderError(f"--out {options.out}, a file", expected="a folder, new or not", do="choose another one")
    run = path if path.is_dir() else path.absolute().parent.parent
    is_run = (run / "manifest.json").is_file() and (path.is_dir() or path.absolute().parent.name == "checkpoints")
    if not is_run and options.task is None:
        raise ConfigError(
            f"{path} without --task",
            expected="a task, because weights do not say which one they were trained on",
            do="name it: --task assign-add, with options such as --num-variables 4, assign-add-paper, or a description.json",
        )
    return run if is_run else None


def _task(options: CircuitsOptions, run: Path | None) -> AssignAdd:
    """The task of the words, or of the run, which the words must not contradict."""
    import dataclasses

    from invariscope.tasks import build_task

    given = {name: getattr(options, name) for name in FIELDS if getattr(options, name) is not None}
    if run is None:
        assert options.task is not None
        return dataclasses.replace(_named(options.task), **given)
    task = _as_assign_add(build_task(describe_run_task(run)), str(run))
    if options.task not in (None, "assign-add"):
        named = _named(options.task)
        given = {field.name: getattr(named, field.name) for field in dataclasses.fields(named)} | given
    other = [f"{name} = {value}" for name, value in given.items() if value != getattr(task, name)]
    if other:
        differing = [part.split(" = ")[0] for part in other]
        raise ConfigError(
            f"{', '.join(other)}, for a run that was trained otherwise",
            expected=", ".join(f"{name} = {getattr(task, name)}" for name in differing) + f", as {run / 'manifest.json'} says",
            do="leave them out, or give --task assign-add alone",
        )
    return task


def _named(name: str) -> AssignAdd:
    from invariscope.tasks import AssignAdd

    if name in TASKS:
        return AssignAdd.paper() if name.endswith("paper") else AssignAdd()
    return _as_assign_add(read_task(name, context_length=0), name)


def _as_assign_add(task: Any, source: str) -> AssignAdd:
    from invariscope.tasks import AssignAdd

    if not isinstance(task, AssignAdd):
        raise ConfigError(
            f"{source}, whose task is {task.name!r}",
            expected="Assign and Add, whose circuits these are",
            do="give a model that was trained on it",
        )
    return task


def _files(options: CircuitsOptions) -> list[tuple[int | None, Path]]:
    """Step and file of every checkpoint that is measured."""
    from invariscope.models import lens_series
    from invariscope.training import find_checkpoints

    path = options.checkpoint
    if path.is_file():
        return [(None, path)]
    if (path / "manifest.json").is_file() or (path / "checkpoints").is_dir():
        found = find_checkpoints(path)
        return [*(found if options.series else found[-1:])]
    return [*lens_series(path)]


def _load(path: Path) -> Transformer:
    from invariscope.models import load_lens
    from invariscope.training import load_model

    # The measures are of one head a layer, which the newer layout of TransformerLens does not say.
    return load_model(path) if _is_ours(path) else load_lens(path, num_heads=1)


def _is_ours(path: Path) -> bool:
    """Whether the file says that we wrote it; what cannot be read is left to the reader of foreign files to refuse."""
    from safetensors import SafetensorError, safe_open

    if path.suffix != ".safetensors":
        return False
    try:
        with safe_open(path, framework="pt") as file:
            return "invariscope" in (file.metadata() or {})
    except (SafetensorError, OSError):
        return False


def _rows(path: Path, task: AssignAdd, options: CircuitsOptions) -> tuple[MeasureRow, ...]:
    import torch

    from invariscope.circuits import measure_circuits

    model = _load(path)
    # Anew for each checkpoint: all of a series see the same sequences.
    generator = torch.Generator().manual_seed(options.seed)
    try:
        measures: CircuitMeasures = measure_circuits(
            model,
            task,
            generator,
            num_sequences=options.num,
            num_pairs=max(options.num // 2, 1),
            probe_sequences=options.probes,
        )
    except InvariscopeError as error:
        raise type(error)(f"{path}: {error.given}", expected=error.expected, do=error.do) from error
    return (*_accuracies(model, task, options), *measures.rows())


def _accuracies(model: Transformer, task: AssignAdd, options: CircuitsOptions) -> list[MeasureRow]:
    """Right answers to each kind of sum; intervals are over sums."""
    import torch

    from invariscope.circuits import MeasureRow
    from invariscope.circuits.forward import answers
    from invariscope.numerics.resampling import estimate_mean
    from invariscope.tasks import derive_seed

    rows = []
    for pool, corner in task.corners.items():
        generator = torch.Generator().manual_seed(derive_seed(options.seed, "circuits", pool))
        batch = task.sample(options.num, generator=generator, pool=pool)
        assert batch.targets is not None
        right = (answers(model, batch.inputs["tokens"]) == batch.targets[:, 0]).double()
        chance = task.chance().accuracy
        estimate = estimate_mean(right, generator=generator, groups=batch.groups, unit="share", chance=chance)
        forbidden = f", {corner.num_bad} of them where training never has it" if corner.num_bad else ""
        text = f"right answers of the whole model, {SUMS[corner.sums]}, {corner.num_variables} variables{forbidden}"
        rows.append(MeasureRow(name=f"accuracy {pool}", estimate=estimate, text=text, control="the best constant answer"))
    return rows


def _write(folder: Path, measured: Sequence[_Measured], task: AssignAdd, options: CircuitsOptions) -> None:
    from invariscope.storage.atomic import write_json, write_text
    from invariscope.storage.records import to_json_record
    from invariscope.tasks import describe_task

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for found in measured:
        for row in found.rows:
            one = row.estimate
            numbers = (one.value, one.low, one.high, one.chance, one.num, one.unit)
            writer.writerow(("" if found.step is None else found.step, row.name, *numbers, row.text, row.control))
    document = {
        "kind": "circuits",
        "schema_version": SCHEMA_VERSION,
        "task": describe_task(task),
        "num_sequences": options.num,
        "probe_sequences": options.probes,
        "seed": options.seed,
        "checkpoints": [
            {
                "step": found.step,
                "file": str(found.path),
                "measures": {row.name: to_json_record(row.estimate) for row in found.rows},
            }
            for found in measured
        ],
    }
    write_json(folder / "circuits.json", document)
    write_text(folder / "circuits.csv", text.getvalue())


def _print(measured: Sequence[_Measured], task: AssignAdd, options: CircuitsOptions, *, series: bool) -> None:
    last = measured[-1]
    what = f"{options.checkpoint}, {len(measured)} checkpoints" if series else str(last.path)
    title = (
        f"{what}: {task.layout} layout, sums modulo {task.modulus}, {task.num_variables} variables, {task.split} split; "
        f"{options.num} sequences of each kind, seed {options.seed}"
    )
    if not series:
        _print_table(title, HEADINGS, [_cells(row) for row in last.rows])
        return
    shown = {f"accuracy {num}var-held": f"{num}var-held" for num in range(task.num_operands + 1)} | SERIES
    shown = {name: heading for name, heading in shown.items() if last.value(name) is not None}
    lines = [[str(found.step), *(_number(found.value(name)) for name in shown)] for found in measured]
    _print_table(title, ("step", *shown.values()), lines)
    for row in last.rows:
        if row.name in shown:
            print(f"{shown[row.name]}: {row.text}; {_number(row.chance)} is {row.control}")


def _cells(row: MeasureRow) -> list[str]:
    value, one = _number(row.value), row.estimate
    if one.low is not None and one.high is not None:
        value += f" [{_number(one.low)}, {_number(one.high)}]"
    return [row.name, value, _number(row.chance), row.text, row.control]


def _number(value: float | None) -> str:
    # A sum of roundings is no news, nor is the sign of zero.
    return "-" if value is None else f"{round(value, 4) + 0.0:.4g}"


def _print_table(title: str, headings: Sequence[str], lines: Sequence[Sequence[str]]) -> None:
    """A table on a terminal, plain unwrapped lines elsewhere."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    console = Console()
    if not console.is_terminal:
        rows = [headings, *lines]
        widths = [max(len(row[column]) for row in rows) for column in range(len(headings))]
        text = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        print("\n".join([title, *text]))
        return
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in headings:
        table.add_column(heading, overflow="fold")
    for row in lines:
        table.add_row(*row)
    console.print(table)
