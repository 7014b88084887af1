"""``invariscope run EXPERIMENT``: an experiment from its configuration to the verdicts and the report, resumed where it was left.

The words are read twice: first for the options of ``run`` itself, which decide what the configuration's defaults are; then all
together, with every field of the experiment's configuration as an option (``--train.steps 20``, ``--real.seeds 0 1``), so that
help and messages know them all.
"""

from __future__ import annotations

import dataclasses
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from invariscope.cli.config import read_toml, resolve_config
from invariscope.cli.parse import parse, parse_known
from invariscope.errors import ConfigError, ForeignFileError, unknown_name
from invariscope.experiments.registry import EXPERIMENTS, Experiment, find_experiment, load_experiment

__all__ = ["RunOptions", "command"]

_PROG = "invariscope run"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """Train, measure, judge the claims and write the report; the same command goes on with a run that was interrupted.

    Args:
        preset: the configuration to begin with (invariscope list names them).
        config: a TOML file with what differs from the preset.
        out: the folder that is written to; out/EXPERIMENT where it is not given.
        seed: the first seed: N, N+1, ... in place of the preset's and the file's.
        strict: exit with 3 if a claim is not reproduced.
        engine: where seeds are trained; auto: in processes where there are several. No number depends on it.
        workers: processes at a time; one a core where it is not given. No number depends on it.
        debug: show the traceback of whatever goes wrong.
    """

    preset: Annotated[str, tyro.conf.arg(metavar="NAME")] = "quick"
    config: Annotated[Path | None, tyro.conf.arg(metavar="FILE.toml")] = None
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    seed: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    strict: bool = False
    engine: Literal["auto", "inline", "processes"] = "auto"
    workers: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    debug: bool = False


def command(args: Sequence[str]) -> int:
    """Run an experiment; returns 0, or 3 where ``--strict`` asks for it."""
    if not args or args[0].startswith("-"):
        if {"-h", "--help"} & set(args):
            parse(RunOptions, ["--help"], prog=f"{_PROG} EXPERIMENT")
        given = f"{_PROG} {args[0]} ..." if args else _PROG
        raise ConfigError(
            f"{given} without an experiment", expected=f"{_PROG} EXPERIMENT [options]", do=f"name one of {', '.join(EXPERIMENTS)}"
        )
    name, *rest = args
    options, config = _read_options(name, rest)
    out = Path("out") / name if options.out is None else options.out
    _run(name, options, config, out, command_line=shlex.join(["invariscope", "run", *args]))
    return _finish(out, strict=options.strict)


def _read_options(name: str, args: list[str]) -> tuple[RunOptions, Any]:
    """The options of ``run`` and the experiment's configuration."""
    entry = find_experiment(name)
    prog = f"{_PROG} {name}"
    options, _ = parse_known(RunOptions, args, prog=prog)
    if options.preset not in entry.presets:
        raise unknown_name(f"preset of {name}", options.preset, entry.presets)
    if options.workers is not None and options.workers < 1:
        raise ConfigError(f"--workers {options.workers}", expected="at least 1", do="leave it out for one worker a core")
    tables = {} if options.config is None else read_toml(options.config)
    # Whatever can be refused without torch has been.
    experiment = load_experiment(name)
    config = resolve_config(experiment, preset=options.preset, tables=tables, file=options.config, seed=options.seed)
    both = _with_overrides(experiment)
    words = parse(both, args, prog=prog, default=both(options=RunOptions(), config=config))
    return words.options, words.config


def _with_overrides(experiment: Experiment) -> Any:
    """A class of the options of ``run`` and every field of the experiment's configuration, side by side."""
    flat = tyro.conf.arg(name="")
    fields = [("options", Annotated[RunOptions, flat]), ("config", Annotated[experiment.Config, flat])]
    both = dataclasses.make_dataclass("RunWithOverrides", fields, frozen=True, kw_only=True)
    both.__doc__ = RunOptions.__doc__ and RunOptions.__doc__.partition("\n")[0]
    return both


def _run(name: str, options: RunOptions, config: Any, out: Path, *, command_line: str) -> None:
    from invariscope.parallel import resolve_engine
    from invariscope.storage.records import to_json_record
    from invariscope.storage.run_folder import RunFolder

    seeds = config.all_seeds()
    engine = resolve_engine(options.engine, len(seeds))
    status = _status(out)
    opened = RunFolder.open(
        out,
        config=to_json_record(config),
        experiment=name,
        preset=options.preset,
        summary=find_experiment(name).summary,
        seeds=seeds,
        engine=engine,
        command=command_line,
    )
    with opened as folder:
        if status is not None:
            said = "is finished: what it holds is kept" if status == "finished" else "was begun: it goes on from what it holds"
            print(f"{name} in {out} {said}", file=sys.stderr)
        load_experiment(name).run(
            config, folder, preset=options.preset, engine=engine, num_workers=options.workers, progress=True
        )


def _status(out: Path) -> str | None:
    """The status of the run in ``out``, if there is one; opening the folder judges whether it is the same run."""
    from invariscope.storage.manifest import Manifest

    try:
        return Manifest.load(out).status
    except ForeignFileError:
        return None


def _finish(out: Path, *, strict: bool) -> int:
    """Write the report, print the verdicts, and say what they mean for the exit status."""
    from invariscope.report import build_report, print_summary
    from invariscope.storage import read_claims
    from invariscope.storage.run_folder import RunFolder

    # After the folder has been closed: the report says that the run is finished.
    build_report(out)
    print_summary(out)
    headlines = [claim for claim in read_claims(RunFolder.read(out).claims_path).claims if not claim.by_construction]
    missed = [f"{claim.id} ({claim.verdict})" for claim in headlines if claim.verdict != "reproduced"]
    if not (strict and missed):
        return 0
    print(f"strict: {len(missed)} of {len(headlines)} claims are not reproduced: {', '.join(missed)}", file=sys.stderr)
    return 3
