"""What a notebook shows of a Core, Effects, a Similarity and a Run: their numbers, escaped, without scripts or colours."""

from __future__ import annotations

import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import torch

from invariscope.cores import Core, Effects, Provenance
from invariscope.cores.validate import EffectRow
from invariscope.estimate import Estimate, Similarity, html_table
from invariscope.models import Transformer, TransformerConfig
from invariscope.training import Run

HOSTILE = "<script>alert('x')</script> & \"co\""


class Cells(HTMLParser):
    """The text of every cell, and every tag."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.cells: list[str] = []
        self.tags: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)
        if tag in ("td", "th", "caption"):
            self.cells.append("")

    def handle_data(self, data: str) -> None:
        self.cells[-1] += data


def core(site: str = "blocks.0.resid_mid") -> Core:
    axes = torch.eye(4, dtype=torch.float64)[:, :2]
    made = Provenance(site=site, positions="all", objective="logits", projection="adjoint", rank_rule="given", num_samples=512)
    return Core(read=axes, write=axes, mean=torch.zeros(4), singular_values=torch.tensor([2.0, 1.0, 0.25, 0.1]), provenance=made)


def effects(name: str = "core") -> Effects:
    rows = tuple(
        EffectRow(
            name=name, edit=edit, metric="cross_entropy", estimate=Estimate(value=value, low=value - 0.1, high=value, num=9)
        )
        for edit, value in (("keep", 1.25), ("remove", 2.5))
    )
    return Effects(rows=rows, rank=2, values={}, groups=torch.arange(2), weights=None)


def similarity(name: str = "cca") -> Similarity:
    return Similarity(
        name=name,
        value=0.75,
        heldout=0.5,
        components=(0.9, 0.6),
        heldout_components=(0.7, 0.3),
        null_mean=0.1,
        null_low=0.05,
        null_high=0.2,
        num_fit=100,
        num_heldout=50,
        dims=(8, 4),
        rank=2,
    )


def run(folder: str | None = None) -> Run:
    shape = TransformerConfig(vocab_size=2, context_length=4, width=8, num_heads=2, mlp_width=8)
    model = Transformer(shape, generator=torch.Generator().manual_seed(0))
    metrics = ({"step": 5, "train_loss": 2.0}, {"step": 10, "train_loss": 1.23456})
    return Run(seed=3, model=model, metrics=metrics, folder=None if folder is None else Path(folder))


DISPLAYS: dict[str, Callable[..., Any]] = {"core": core, "effects": effects, "similarity": similarity, "run": run}


def displayed(value: Any) -> Cells:
    return Cells(value._repr_html_())


def test_a_core_shows_its_size_and_how_it_was_made() -> None:
    cells = displayed(core()).cells
    shown = dict(zip(cells[1::2], cells[2::2], strict=True))
    assert cells[0] == "Core at blocks.0.resid_mid"
    assert shown["rank"] == "2 of 4"
    assert shown["singular values, and the next"] == "2 1 0.25"
    assert (shown["projection"], shown["positions"], shown["num samples"]) == ("adjoint", "all", "512")
    assert "sketch" not in shown


def test_effects_show_a_line_a_name_and_edit() -> None:
    assert displayed(effects()).cells == [
        "Effects at rank 2",
        *("", "edit", "cross_entropy"),
        *("core", "keep", "1.25 [1.15, 1.25]"),
        *("core", "remove", "2.5 [2.4, 2.5]"),
    ]


def test_a_similarity_is_never_shown_without_its_null_and_held_out_value() -> None:
    cells = displayed(similarity()).cells
    shown = dict(zip(cells[1::2], cells[2::2], strict=True))
    assert (shown["value"], shown["held out"], shown["null"]) == ("0.7500", "0.5000", "0.1000 [0.0500, 0.2000]")
    assert (shown["components"], shown["components, held out"]) == ("0.9000 0.6000", "0.7000 0.3000")
    assert (shown["samples"], shown["dimensions"]) == ("100 fitted, 50 held out", "8 and 4, 2 components")


def test_a_run_shows_its_last_metrics_and_where_it_stands() -> None:
    value = run()
    cells = displayed(value).cells
    shown = dict(zip(cells[1::2], cells[2::2], strict=True))
    assert cells[0] == "Run of seed 3"
    assert (shown["step"], shown["train loss"], shown["folder"]) == ("10", "1.235", "in memory")
    assert int(shown["parameters"]) == sum(parameter.numel() for parameter in value.model.parameters())


@pytest.mark.parametrize("name", DISPLAYS)
def test_text_is_escaped(name: str) -> None:
    html = DISPLAYS[name](HOSTILE)._repr_html_()
    assert "<script" not in html
    assert "script" not in Cells(html).tags
    assert any(HOSTILE in cell for cell in Cells(html).cells)


@pytest.mark.parametrize("name", DISPLAYS)
def test_there_is_no_colour_style_link_or_script(name: str) -> None:
    html = DISPLAYS[name]()._repr_html_()
    assert set(Cells(html).tags) <= {"table", "caption", "thead", "tbody", "tr", "th", "td"}
    assert set(re.findall(r" ([a-z-]+)=", html)) <= {"scope"}


def test_a_table_with_headings_has_no_row_headings() -> None:
    html = html_table("a & b", [(1, None)], headings=("x", "<y>"))
    assert html == (
        '<table><caption>a &amp; b</caption><thead><tr><th scope="col">x</th><th scope="col">&lt;y&gt;</th></tr></thead>'
        "<tbody><tr><td>1</td><td>None</td></tr></tbody></table>"
    )
