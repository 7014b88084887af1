"""Every file that a run leaves, how it is read back, and all the ways in which a disk or a copy may have damaged it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from invariscope.cores import Core, Moments, load_core
from invariscope.errors import InvariscopeError
from invariscope.figures import Figure
from invariscope.models import Transformer
from invariscope.storage import Claim, Manifest, Mark, read_claims, write_claims
from invariscope.training import load_model, load_run, train
from invariscope.training.checkpoints import load_state
from training.test_train import CONFIG
from training.toy_tasks import CHAIN, TINY

NUM_FLIPS_A_REGION = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of file: where one stands, and its content as a value that can be compared."""

    path: Path
    read: Callable[[Path], Any]


def tensor_values(tensors: dict[str, torch.Tensor]) -> dict[str, Any]:
    return {name: (str(tensor.dtype), tensor.tolist()) for name, tensor in tensors.items()}


def read_state(path: Path) -> Any:
    model = Transformer(TINY, generator=torch.Generator().manual_seed(0))
    optimiser = torch.optim.AdamW(model.parameters())
    step, losses, digest = load_state(path, model, optimiser)
    moments = [tensor_values(optimiser.state[parameter]) for parameter in model.parameters()]
    return step, losses, digest, tensor_values(model.state_dict()), moments


def read_core(path: Path) -> Any:
    core = load_core(path)
    return core.read.tolist(), core.write.tolist(), core.mean.tolist(), core.singular_values.tolist(), core.provenance


def read_moments(path: Path) -> Any:
    moments = Moments.load(path)
    return moments.activation_factor().tolist(), moments.jacobian_factor().tolist(), moments.num_samples, moments.mean.tolist()


def read_manifest(path: Path) -> Any:
    manifest = Manifest.load(path.parent)
    return {name: getattr(manifest, name) for name in Manifest.__slots__}


def make_kinds(folder: Path) -> dict[str, Kind]:
    """One whole file of each kind under ``folder``."""
    train(CHAIN, TINY, CONFIG, seeds=[3], folder=folder, engine="inline", progress=False)
    run = folder / "seed-0003"
    moments, generator = Moments(5), torch.Generator().manual_seed(0)
    moments.update(*(torch.randn(32, 5, generator=generator, dtype=torch.float64) for _ in range(2)))
    moments.save(folder / "moments.safetensors")
    core: Core = moments.core(2)
    core.save(folder / "core.safetensors")
    mark = Mark(kind="within", target=3, tolerance=1)
    claim = Claim(id="demo/rank", statement="three", source="arXiv:2602.22600", mark=mark, measured=3.25, low=3.125, high=3.5)
    write_claims(folder / "claims.json", [claim], experiment="demo", preset="")
    trace = {"type": "scatter", "x": [1, 2], "y": [0.5, 0.25], "meta": {"slot": 0, "role": "core"}}
    plot: dict[str, Any] = {"data": [trace], "layout": {}}
    words = {"title": "Halves", "caption": "Each is half of the last.", "alt": "Two points, falling."}
    Figure(name="halves", plot=plot, columns=("step", "value"), rows=((1, 0.5), (2, 0.25)), **words).save(folder)
    checkpoint = sorted(run.glob("checkpoints/*.safetensors"))[-1]
    return {
        "checkpoint": Kind(path=checkpoint, read=lambda path: tensor_values(load_model(path).state_dict())),
        "state": Kind(path=run / "state.safetensors", read=read_state),
        "core": Kind(path=folder / "core.safetensors", read=read_core),
        "moments": Kind(path=folder / "moments.safetensors", read=read_moments),
        "claims": Kind(path=folder / "claims.json", read=read_claims),
        "manifest": Kind(path=run / "manifest.json", read=read_manifest),
        "figure": Kind(path=folder / "halves.json", read=Figure.load),
        "metrics": Kind(path=run / "metrics.jsonl", read=lambda path: load_run(path.parent).metrics),
    }


def regions(raw: bytes) -> dict[str, range]:
    """Parts of a file that are read in different ways: of a tensor file its length, header and tensors, of others thirds."""
    length = int.from_bytes(raw[:8], "little")
    if length < len(raw) and raw[8:9] == b"{":
        header = raw[8 : 8 + length]
        entry = 8 + header.index(b"invariscope")
        return {
            "length": range(8),
            "header": range(8, entry),
            "metadata": range(entry, entry + 400),
            "rest of the header": range(entry + 400, 8 + length),
            "tensors": range(8 + length, len(raw)),
        }
    third = len(raw) // 3
    return {"start": range(third), "middle": range(third, 2 * third), "end": range(2 * third, len(raw))}


def truncations(raw: bytes) -> Iterator[bytes]:
    """Nothing, one byte, half, all but one byte."""
    yield from (raw[:0], raw[:1], raw[: len(raw) // 2], raw[:-1])


def flips(raw: bytes) -> Iterator[tuple[str, bytes]]:
    """One bit flipped, at random places of every region."""
    rng = np.random.default_rng(20260224)
    for name, places in regions(raw).items():
        assert len(places) > 0, name
        for _ in range(NUM_FLIPS_A_REGION):
            damaged = bytearray(raw)
            damaged[int(rng.integers(places.start, places.stop))] ^= 1 << int(rng.integers(8))
            yield name, bytes(damaged)


def outcome(kind: Kind) -> tuple[Any, InvariscopeError | None]:
    """What is read, or our own error; any other exception passes through."""
    try:
        return kind.read(kind.path), None
    except InvariscopeError as error:
        return None, error


def digits_changed(text: bytes) -> Iterator[bytes]:
    """A text with one digit made another, at every digit: the damage that leaves everything well-formed."""
    # The name of the checksum is no number: without it a document is one of an older version.
    name = text.find(b'"sha256"')
    for place, letter in enumerate(text):
        if letter in b"0123456789" and not (0 <= name <= place < name + len(b'"sha256"')):
            yield text[:place] + (b"0" if letter != ord("0") else b"1") + text[place + 1 :]


def reseal(document: bytes) -> bytes:
    """A JSON document without its checksum, as an older version wrote it."""
    value = json.loads(document)
    value.pop("sha256")
    return json.dumps(value).encode()
