"""A core's edits: what they keep, in whatever precision; its file; its messages."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cores.hand_made import generator, random_core
from invariscope.cores import Core, RankCurve, load_core
from invariscope.errors import ForeignFileError, NonFiniteError, ShapeError
from invariscope.storage.tensors import load_tensors, save_tensors

CURVE = RankCurve(
    metric="cross_entropy",
    unit="nats",
    projection="oblique",
    ranks=(1, 2),
    keep=(1.1, 1.0),
    remove=(1.2, 1.4),
    full=1.0,
    mean=1.4,
    chance=1.4,
    num=7,
)


@given(
    dim=st.integers(1, 9),
    share=st.floats(0, 1),
    seed=st.integers(0, 1000),
    shape=st.lists(st.integers(0, 3), max_size=3).map(tuple),
)
@settings(deadline=None, derandomize=True, max_examples=80)
def test_edits_are_what_they_say(dim: int, share: float, seed: int, shape: tuple[int, ...]):
    rank = max(1, round(share * dim))
    core = random_core(dim, rank, seed)
    x = torch.randn(*shape, dim, dtype=torch.float64, generator=generator(seed + 1))
    keep, remove, flip, z = core.keep(x), core.remove(x), core.flip(x), core.coordinates(x)
    size = 1e-9 * (1 + float(core.read.abs().max() * core.write.abs().max()) ** 2)
    assert z.shape == (*shape, rank)
    assert torch.allclose(remove + keep - core.mean, x, atol=size)
    assert torch.allclose(core.keep(keep), keep, atol=size)
    assert torch.allclose(core.remove(remove), remove, atol=size)
    assert torch.allclose(core.flip(flip), x, atol=size)
    assert torch.allclose(core.coordinates(keep), z, atol=size)
    assert torch.allclose(core.coordinates(remove), torch.zeros_like(z), atol=size)
    assert torch.allclose(core.coordinates(flip), -z, atol=size)
    wanted = torch.randn(z.shape, dtype=torch.float64, generator=generator(seed + 2))
    moved = core.move(x, wanted)
    assert torch.allclose(core.coordinates(moved), wanted, atol=size)
    assert torch.allclose(core.remove(moved), remove, atol=size)


def test_a_core_of_all_dimensions_keeps_everything_and_removes_to_the_mean():
    core, x = random_core(4, 4), torch.randn(5, 4, dtype=torch.float64, generator=generator())
    assert torch.allclose(core.keep(x), x)
    assert torch.allclose(core.remove(x), core.mean.expand(5, 4))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("name", ["keep", "remove", "flip", "coordinates", "move"])
def test_type_and_device_of_the_activations_stay_and_the_work_is_done_in_float64(dtype: torch.dtype, name: str):
    core = random_core(6, 2)
    x = torch.randn(3, 6, generator=generator()).to(dtype)
    more = (torch.ones(3, 2),) if name == "move" else ()
    edited, exact = getattr(core, name)(x, *more), getattr(core, name)(x.double(), *more)
    assert edited.dtype == dtype
    assert torch.equal(edited, exact.to(dtype))  # rounded once
    assert edited.device == x.device


def test_autocast_does_not_reach_the_edit():
    core, x = random_core(6, 2), torch.randn(3, 6, generator=generator())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = core.keep(x)
    assert torch.equal(inside, core.keep(x))


def test_edits_are_differentiable():
    core = random_core(5, 2)
    x = torch.randn(2, 5, dtype=torch.float64, generator=generator(), requires_grad=True)
    (gradient,) = torch.autograd.grad(core.keep(x).sum(), x)
    assert torch.allclose(gradient, (core.write.sum(0) @ core.read.T).expand(2, 5))


def test_files_come_back_bit_for_bit_with_provenance_and_curve(tmp_path: Path):
    core = random_core(6, 2, site="here", positions="last", outputs_at=-1, sketch=4, num_samples=9, rank_rule="given")
    core = dataclasses.replace(core, rank_curve=CURVE)
    core.save(tmp_path / "core.safetensors")
    loaded = load_core(str(tmp_path / "core.safetensors"))
    for name in ("read", "write", "mean", "singular_values"):
        assert torch.equal(getattr(loaded, name), getattr(core, name))
        assert getattr(loaded, name).dtype == getattr(core, name).dtype
    assert loaded.provenance == core.provenance
    assert loaded.rank_curve == CURVE
    loaded.save(tmp_path / "again.safetensors")
    assert (tmp_path / "again.safetensors").read_bytes() == (tmp_path / "core.safetensors").read_bytes()


def test_an_orthogonal_core_without_a_curve_comes_back(tmp_path: Path):
    axis = torch.eye(3, 2, dtype=torch.float64)
    Core(read=axis, write=axis, mean=torch.zeros(3).double(), singular_values=torch.ones(3)).save(tmp_path / "core.safetensors")
    loaded = load_core(tmp_path / "core.safetensors")
    assert torch.equal(loaded.read, axis)
    assert torch.equal(loaded.write, axis)
    assert loaded.rank_curve is None


def test_files_that_are_cut_foreign_or_of_another_version_are_refused_by_name(tmp_path: Path):
    path = tmp_path / "core.safetensors"
    random_core(6, 2).save(path)
    raw = path.read_bytes()
    path.write_bytes(raw[:-1])
    with pytest.raises(ForeignFileError, match=r"core\.safetensors, which is cut off"):
        load_core(path)
    path.write_bytes(raw)
    tensors, metadata = load_tensors(path, kind="core")
    save_tensors(path, tensors, kind="core", metadata={"provenance": {**metadata["provenance"], "colour": "red"}})
    with pytest.raises(ForeignFileError, match=r"core\.safetensors: .*colour.*; expected a core of this version; extract"):
        load_core(path)
    save_tensors(path, {"read": tensors["read"]}, kind="core", metadata=metadata)
    with pytest.raises(ForeignFileError, match=r"core\.safetensors: .*write"):
        load_core(path)
    save_tensors(path, tensors | {"mean": torch.zeros(3)}, kind="core", metadata=metadata)
    with pytest.raises(ForeignFileError, match=r"core\.safetensors: .*mean \[3\]"):
        load_core(path)


def test_activations_of_another_site_are_refused_naming_the_cores_own():
    core = random_core(6, 2, site="blocks.0.resid_mid")
    for edit in (core.keep, core.remove, core.flip, core.coordinates, lambda x: core.move(x, torch.zeros(2))):
        with pytest.raises(ShapeError) as caught:
            edit(torch.zeros(3, 5))
        assert caught.value.given == "activations of shape [3, 5]"
        assert caught.value.expected == "[..., 6]"
        assert caught.value.do == "read them at the core's own site 'blocks.0.resid_mid'"


def test_parts_that_do_not_fit_are_refused_with_all_shapes():
    with pytest.raises(ShapeError) as caught:
        Core(read=torch.zeros(3, 2), write=torch.zeros(3, 1), mean=torch.zeros(4), singular_values=torch.ones(1))
    assert caught.value.given == "a core with read [3, 2], write [3, 1] and mean [4]"
    with pytest.raises(NonFiniteError, match=r"core\.mean of shape \[3\]"):
        Core(
            read=torch.zeros(3, 2),
            write=torch.zeros(3, 2),
            mean=torch.tensor([0.0, float("nan"), 0.0]),
            singular_values=torch.ones(1),
        )


def test_a_core_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        random_core(3, 1).mean = torch.zeros(3)  # pyright: ignore[reportAttributeAccessIssue]  # what is tested


def test_a_rank_curve_that_is_none_is_refused_by_name(tmp_path):
    path = tmp_path / "core.safetensors"
    tensors = {name: torch.ones(2, 1) for name in ("read", "write")} | {"mean": torch.zeros(2), "singular_values": torch.ones(1)}
    save_tensors(path, tensors, kind="core", metadata={"provenance": {}, "rank_curve": 3})
    with pytest.raises(ForeignFileError, match=r"core\.safetensors.*extract the core again"):
        load_core(path)
