"""Verify a language model: what is read and edited at its sites, against what plain Hugging Face computes.

A core is only as good as the activations that it is made of, and three things go wrong silently: a site that is not what its name
says, padding that moves positions or leaks into attention, and an edit that is not taken over. So each prompt is run alone,
unpadded, with the model's own ``output_hidden_states`` (entry i is what block i reads, the last one what the unembedding reads),
and then all of them in one padded batch, left and right, with sites read by hooks. Compared are

* ``resid_pre`` of every layer, ``resid_post`` of all but the last, ``final_norm`` and the logits with Hugging Face's own numbers;
* ``attn_out``, ``resid_mid`` and ``mlp_out`` of the batch with those of the prompts alone, and their sums:
  resid_pre + attn_out = resid_mid and resid_mid + mlp_out = resid_post, which ties them to the residual stream;
* the logits under an edit of every site by the identity with those without;
* weights, modes and hooks afterwards with those before.

Every number is a relative deviation, max |a - b| / max |b| over all real tokens of all prompts.

    print(verify_model(model, [[5, 6, 7, 8], [9, 10]]).table())
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from invariscope.batch import text_inputs
from invariscope.errors import ConfigError, TooFewSamplesError
from invariscope.sites.edit import edit_site
from invariscope.sites.families import language_parts
from invariscope.sites.gradient import frozen
from invariscope.sites.names import list_sites, resolve_site
from invariscope.sites.read import read_sites

__all__ = ["SIDES", "TOLERANCES", "LayerDeviation", "Verification", "verify_model"]

TOLERANCES: Mapping[torch.dtype, float] = {
    torch.float64: 1e-5,
    torch.float32: 1e-5,
    torch.float16: 2.0**-7,
    torch.bfloat16: 2.0**-4,
}
"""Largest relative deviation by the weights' type.

float32: 84 spacings of 2^-23, far more than a batch and a single prompt differ by, whose sums are only taken in another order.
float64 has the same, since transformers takes norms and softmax in float32 whatever the weights are. float16 and bfloat16, of
spacing 2^-10 and 2^-7: a block rounds the residual stream twice, so 30 blocks walk some sqrt(60), near 8, spacings, which is 2^-7
and 2^-4. That finds a wrong site or a wrong position, and no smaller fault: verify in float32 where that fits into memory.
"""

SIDES: tuple[Literal["left", "right"], ...] = ("left", "right")
_KINDS = ("resid_pre", "attn_out", "resid_mid", "mlp_out", "resid_post")


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerDeviation:
    """Deviations of one place.

    Args:
        place: ``blocks.3``, ``final_norm`` or ``logits``.
        by_site: (site within the place, padding side) to relative deviation. ``sums`` are those of the residual stream.
    """

    place: str
    by_site: Mapping[tuple[str, str], float]

    @property
    def worst(self) -> float:
        """The largest; NaN where one is."""
        return _worst(self.by_site.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What :func:`verify_model` found.

    Args:
        model: its class and family.
        dtype: of its weights.
        tolerance: largest deviation that passes.
        lengths: tokens of each prompt.
        layers: one entry a block, then ``final_norm`` and ``logits``.
        identity_edits: deviation of the logits while every site is edited by the identity, all at once.
        num_edited: sites edited so.
        changed: what is not as before: weights, modes, requires_grad, hooks; empty where all is.
    """

    model: str
    dtype: str
    tolerance: float
    lengths: tuple[int, ...]
    layers: tuple[LayerDeviation, ...]
    identity_edits: float
    num_edited: int
    changed: tuple[str, ...]

    @property
    def worst(self) -> float:
        """The largest deviation of all; NaN where one is."""
        return _worst([*(layer.worst for layer in self.layers), self.identity_edits])

    @property
    def ok(self) -> bool:
        """Whether every deviation is at most the tolerance and everything is as before; NaN is not."""
        return self.worst <= self.tolerance and not self.changed

    def table(self) -> str:
        """One line a layer, each cell left / right padding; then the verdict."""
        columns = [*_KINDS, "sums"]
        lines = [["", *columns]]
        for layer in self.layers:
            cells = [_cell([layer.by_site.get((kind, side)) for side in SIDES]) for kind in columns]
            if not any(kind in columns for kind, _ in layer.by_site):
                cells[0] = _cell([layer.by_site[layer.place, side] for side in SIDES])
            lines.append([layer.place, *cells])
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        body = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
        verdict = "as plain Hugging Face" if self.ok else "NOT as plain Hugging Face"
        return "\n".join(
            [
                f"{self.model}, {self.dtype}; {len(self.lengths)} prompts of {min(self.lengths)} to {max(self.lengths)} tokens",
                "largest relative deviation, padded on the left / on the right",
                *body,
                f"identity edits at {self.num_edited} sites at once: {self.identity_edits:.1e}",
                f"afterwards {'changed: ' + ', '.join(self.changed) if self.changed else 'weights, modes and hooks as before'}",
                f"{verdict}: worst {self.worst:.1e}, tolerance {self.tolerance:.1e}",
            ]
        )


def verify_model(
    model: nn.Module, prompts: Sequence[Sequence[int]], *, tolerance: float | None = None, pad_id: int = 0
) -> Verification:
    """Compare sites, batches and edits of ``model`` with plain Hugging Face (the module's text says how).

    Args:
        model: a causal language model of a known family; run in evaluation mode, which is restored.
        prompts: token ids of each, at least two of different length.
        tolerance: largest relative deviation that passes; None: by the weights' type, :data:`TOLERANCES`.
        pad_id: token id on padding.

    Raises:
        TooFewSamplesError: for prompts of one length, which would need no padding.
        ConfigError: for a model of no known family, or a tolerance that is no positive number.
        ShapeError: for a prompt without tokens.

    Notes:
        The first plain run lets transformers install its own recording hooks, which stay and do nothing unless asked; hooks are
        compared from then on. Prefer sentences to single words: where a model builds up its largest activations (SmolLM2, blocks
        9 to 11), the other order of sums, which is transformers' own, grows to 6e-6 for sentences and 1.0e-5 to 1.4e-5 for
        prompts of one or two tokens.
    """
    parts = language_parts(model)
    if len({len(prompt) for prompt in prompts}) < 2:
        raise TooFewSamplesError(
            f"{len(prompts)} prompts of {'one length' if prompts else 'no length'}",
            expected="at least two of different length, so that the batch has padding",
            do="add a shorter or a longer prompt",
        )
    dtype = next(model.parameters()).dtype
    if tolerance is None:
        tolerance = TOLERANCES.get(dtype, TOLERANCES[torch.float32])
    if not (tolerance > 0 and math.isfinite(tolerance)):
        raise ConfigError(f"tolerance {tolerance}", expected="a positive number", do="leave it out for the one of this type")
    sites = _compared_sites(model)
    with torch.no_grad():
        with frozen(model):
            plain = _join([_by_hugging_face(model, prompt, len(parts.blocks)) for prompt in prompts])
        before = _state(model)
        with frozen(model):
            alone = _join([_by_hooks(model, [prompt], "left", sites, pad_id) for prompt in prompts])
            padded = {side: _by_hooks(model, prompts, side, sites, pad_id) for side in SIDES}
            identity, num_edited = _identity_edits(model, prompts, pad_id)
        after = _state(model)
    # Hugging Face's own numbers wherever it gives some, else those of each prompt alone.
    reference = {**alone, **plain}
    layers = [_layer(f"blocks.{number}", reference, padded) for number in range(len(parts.blocks))]
    for place in ("final_norm", "logits"):
        by_side = {(place, side): _deviation(padded[side][place], reference[place]) for side in SIDES}
        layers.append(LayerDeviation(place=place, by_site=by_side))
    return Verification(
        model=f"{type(model).__name__} ({parts.model_type})",
        dtype=str(dtype).removeprefix("torch."),
        tolerance=tolerance,
        lengths=tuple(len(prompt) for prompt in prompts),
        layers=tuple(layers),
        identity_edits=identity,
        num_edited=num_edited,
        changed=tuple(name for name in before if before[name] != after[name]),
    )


def _compared_sites(model: nn.Module) -> list[str]:
    return [name for name in list_sites(model) if name in ("final_norm", "logits") or name.rsplit(".", 1)[-1] in _KINDS]


def _by_hugging_face(model: nn.Module, prompt: Sequence[int], num_blocks: int) -> dict[str, Float[Tensor, "T ..."]]:
    ids = torch.tensor([list(prompt)], device=next(model.parameters()).device)
    found = model(input_ids=ids, output_hidden_states=True)
    states = [state[0].clone() for state in found.hidden_states]
    assert len(states) == num_blocks + 1
    named = {f"blocks.{number}.resid_pre": state for number, state in enumerate(states[:-1])}
    # The last entry is after the final norm: what the last block puts out is not among them.
    named |= {f"blocks.{number - 1}.resid_post": states[number] for number in range(1, num_blocks)}
    return {**named, "final_norm": states[-1], "logits": found.logits[0].clone()}


def _by_hooks(
    model: nn.Module, prompts: Sequence[Sequence[int]], side: Literal["left", "right"], sites: Sequence[str], pad_id: int
) -> dict[str, Tensor]:
    inputs, valid = _inputs(model, prompts, side, pad_id)
    with read_sites(model, sites, positions="all") as seen:
        output = model(**inputs)
    rows = {site: seen[site] for site in sites}
    # With a soft cap the site is before it, and Hugging Face's logits are after it.
    return {**rows, "logits": output.logits[valid]}


def _identity_edits(model: nn.Module, prompts: Sequence[Sequence[int]], pad_id: int) -> tuple[float, int]:
    inputs, valid = _inputs(model, prompts, "left", pad_id)
    without = model(**inputs).logits[valid].clone()
    names = [name for name in list_sites(model) if not resolve_site(model, name).read_only]
    with ExitStack() as stack:
        for name in names:
            stack.enter_context(edit_site(model, name, lambda rows: rows))
        edited = model(**inputs).logits[valid]
    return _deviation(edited, without), len(names)


def _inputs(
    model: nn.Module, prompts: Sequence[Sequence[int]], side: Literal["left", "right"], pad_id: int
) -> tuple[dict[str, Tensor], Tensor]:
    device = next(model.parameters()).device
    inputs = {name: value.to(device) for name, value in text_inputs(prompts, pad_id=pad_id, side=side).items()}
    return inputs, inputs["attention_mask"].bool()


def _layer(place: str, reference: Mapping[str, Tensor], padded: Mapping[str, Mapping[str, Tensor]]) -> LayerDeviation:
    by_site: dict[tuple[str, str], float] = {}
    for side in SIDES:
        rows = {kind: padded[side][f"{place}.{kind}"] for kind in _KINDS if f"{place}.{kind}" in padded[side]}
        for kind, found in rows.items():
            by_site[kind, side] = _deviation(found, reference[f"{place}.{kind}"])
        by_site["sums", side] = _worst(_sums(rows))
    return LayerDeviation(place=place, by_site=by_site)


def _sums(rows: Mapping[str, Tensor]) -> Iterator[float]:
    if "resid_mid" in rows:
        yield _deviation(rows["resid_pre"] + rows["attn_out"], rows["resid_mid"])
        yield _deviation(rows["resid_mid"] + rows["mlp_out"], rows["resid_post"])
    else:
        yield _deviation(rows["mlp_out"] + rows["attn_out"] + rows["resid_pre"], rows["resid_post"])


def _deviation(found: Tensor, wanted: Tensor) -> float:
    found, wanted = found.double(), wanted.double()
    difference = float((found - wanted).abs().max())
    scale = float(wanted.abs().max())
    return difference / scale if scale else difference


def _worst(values: Any) -> float:
    found = list(values)
    # max() drops a NaN that is not the first.
    return math.nan if any(map(math.isnan, found)) else max(found, default=0.0)


def _cell(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    return " / ".join(f"{value:.1e}" for value in known) if known else "-"


def _join(prompts: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    return {name: torch.cat([rows[name] for rows in prompts]) for name in prompts[0]}


def _state(model: nn.Module) -> dict[str, list[Any]]:
    modules = list(model.modules())
    tensors = [*model.parameters(), *model.buffers()]
    return {
        "weights": [(tensor.data_ptr(), float(tensor.detach().sum(dtype=torch.float64))) for tensor in tensors],
        "modes": [module.training for module in modules],
        "requires_grad": [parameter.requires_grad for parameter in model.parameters()],
        "hooks": [(tuple(module._forward_hooks), tuple(module._forward_pre_hooks)) for module in modules],
    }
