"""Frames: what a figure shows at each position of a slider, such as every checkpoint of a training.

A frame names the traces that move and their new values; everything else stands still, axes above all, or the eye could not
tell what has moved. All frames move the same fields of the same traces, so that each shows the whole of a moment whichever
was shown before. A figure is drawn with its last frame: that is what paper and a reader without scripts see.

>>> frames = tuple(Frame(label=f"step {step}", traces={0: {"x": [step]}}) for step in (0, 50))
>>> trace = {"x": [50], "y": [1], "xaxis": "x", "yaxis": "y"}
>>> check_frames("walk", frames, [trace], {"xaxis": {"range": [0, 50]}, "yaxis": {"range": [0, 2]}})
>>> frame_from_json(frame_to_json(frames[1])) == frames[1]
True
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from invariscope.errors import ConfigError, NonFiniteError

__all__ = ["MOVING_FIELDS", "Frame", "check_frames", "frame_from_json", "frame_to_json"]

MOVING_FIELDS = ("x", "y", "z", "text", "customdata")
"""What a frame may replace: where points are, what cells hold and what both say, never what a trace is or how it looks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One position of the slider.

    Args:
        label: what the slider says there, such as ``step 150``.
        traces: new values of the traces that move, by index: any of :data:`MOVING_FIELDS`, as plain JSON.

    Raises:
        NonFiniteError: where a value is NaN or infinite: write None for a gap.
        ConfigError: for a field that no frame may replace.
    """

    label: str
    traces: Mapping[int, Mapping[str, Any]]

    def __post_init__(self) -> None:
        for index, fields in self.traces.items():
            for field in fields:
                if field not in MOVING_FIELDS:
                    raise ConfigError(
                        f"frame {self.label!r} replaces {field!r} of trace {index}",
                        expected=", ".join(MOVING_FIELDS),
                        do="draw another trace for what looks different",
                    )
        try:
            copied = json.loads(json.dumps(list(self.traces.items()), allow_nan=False))
        except ValueError as error:
            raise NonFiniteError(
                f"frame {self.label!r}: NaN or infinity", expected="finite numbers", do="write None for a gap"
            ) from error
        object.__setattr__(self, "traces", dict(copied))


def frame_to_json(frame: Frame) -> dict[str, Any]:
    """A frame as JSON: its label, and for each trace that moves its index and new values."""
    return {"label": frame.label, "traces": [{"trace": index, **fields} for index, fields in sorted(frame.traces.items())]}


def frame_from_json(value: Mapping[str, Any]) -> Frame:
    """The frame that :func:`frame_to_json` wrote; ValueError or TypeError for anything else."""
    if not isinstance(value["label"], str) or not all(isinstance(moved["trace"], int) for moved in value["traces"]):
        raise TypeError("not a frame")
    traces = {moved["trace"]: {key: moved[key] for key in moved if key != "trace"} for moved in value["traces"]}
    return Frame(label=value["label"], traces=traces)


def check_frames(figure: str, frames: Sequence[Frame], data: Sequence[Mapping[str, Any]], layout: Mapping[str, Any]) -> None:
    """Refuse frames that do not belong to a plot.

    Args:
        figure: its name, for the messages.
        frames: in the order of the slider.
        data, layout: the plot that they move.

    Raises:
        ConfigError: for a single frame, a label twice, frames that move different things, a trace that does not exist, an axis
            that would move along, or a plot that does not show the last frame.
    """

    def refuse(given: str, expected: str, do: str) -> ConfigError:
        return ConfigError(f"figure {figure!r}: {given}", expected=expected, do=do)

    labels = [frame.label for frame in frames]
    if len(frames) < 2 or "" in labels or len(set(labels)) < len(labels):
        raise refuse(f"frames with the labels {labels}", "two or more different ones", "leave out frames, or tell them apart")
    moved = {index: set(fields) for index, fields in frames[-1].traces.items()}
    for frame in frames:
        if {index: set(fields) for index, fields in frame.traces.items()} != moved or not moved:
            raise refuse(
                f"frame {frame.label!r} moves {_named(frame)}, frame {labels[-1]!r} moves {_named(frames[-1])}",
                "the same fields of the same traces in every frame",
                "give a trace that is not there empty lists",
            )
    for index, fields in frames[-1].traces.items():
        if index not in range(len(data)):
            raise refuse(f"its frames move trace {index}", f"one of its {len(data)} traces", "count from 0")
        for name in ("xaxis", "yaxis"):
            axis = f"{name}{data[index].get(name, name[0])[1:]}"
            if "range" not in layout.get(axis, {}):
                raise refuse(
                    f"trace {index} moves along {axis}, which has no range", "axes that stand still", f"set layout.{axis}.range"
                )
        shown = {field: data[index].get(field) for field in fields}
        if shown != dict(fields):
            raise refuse(
                f"trace {index} does not show the last frame, {labels[-1]!r}",
                "its values: they are what is seen without scripts and on paper",
                "draw the plot with the values of the last frame",
            )


def _named(frame: Frame) -> str:
    parts = [f"{'/'.join(sorted(fields))} of trace {index}" for index, fields in sorted(frame.traces.items())]
    return ", ".join(parts) or "nothing"
