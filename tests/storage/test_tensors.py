"""Tensor files: exact, deterministic, and suspicious of every bit."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import safetensors.torch
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from invariscope.errors import ConfigError, ForeignFileError, NonFiniteError
from invariscope.storage.tensors import load_tensors, save_tensors

FLOATS = [torch.float64, torch.float32, torch.float16, torch.bfloat16]
DTYPES = [*FLOATS, torch.int64, torch.int32, torch.uint8, torch.bool, torch.complex64]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("small") / "core.safetensors"
    tensors = {"read": torch.arange(6.0, dtype=torch.float64).reshape(3, 2), "mean": torch.tensor([0.5, -1.0, 2.0])}
    save_tensors(path, tensors, kind="core", metadata={"rank": 2, "site": "blocks.0.resid_mid", "note": "ä"})
    return path


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (2, 3)], ids=str)
def test_every_type_and_shape_comes_back_bit_for_bit(dtype: torch.dtype, shape: tuple[int, ...], tmp_path: Path):
    values = torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    tensor = (values * 3).to(dtype)
    save_tensors(tmp_path / "x", {"x": tensor}, kind="core", metadata={})
    loaded, metadata = load_tensors(tmp_path / "x", kind="core")
    assert (loaded["x"].dtype, loaded["x"].shape) == (dtype, tensor.shape)
    assert torch.equal(loaded["x"], tensor)
    assert metadata == {}


def test_nan_and_infinity_in_tensors_survive(tmp_path: Path):
    tensor = torch.tensor([float("nan"), float("inf"), -0.0])
    save_tensors(tmp_path / "x", {"x": tensor}, kind="core", metadata={})
    assert torch.equal(load_tensors(tmp_path / "x", kind="core")[0]["x"].view(torch.int32), tensor.view(torch.int32))


def test_metadata_come_back_with_exact_numbers_and_in_order(tmp_path: Path):
    metadata = {"b": 0.1 + 0.2, "a": [1, None, {"sha256": "0" * 64}], "text": '"sha256": "' + "0" * 64 + '"'}
    save_tensors(tmp_path / "x", {}, kind='odd "kind" ä', metadata=metadata)
    tensors, loaded = load_tensors(tmp_path / "x", kind='odd "kind" ä')
    assert (tensors, loaded, list(loaded)) == ({}, metadata, ["b", "a", "text"])


def test_the_order_of_names_and_the_layout_in_memory_do_not_change_the_bytes(tmp_path: Path):
    a, b = torch.arange(6.0).reshape(2, 3), torch.arange(4.0)
    save_tensors(tmp_path / "1", {"a": a, "b": b}, kind="core", metadata={"k": 1})
    save_tensors(tmp_path / "2", {"b": b.clone(), "a": a.T.contiguous().T}, kind="core", metadata={"k": 1})
    assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes()
    save_tensors(tmp_path / "3", {"a": a, "b": b}, kind="core", metadata={"k": 2})
    assert (tmp_path / "1").read_bytes() != (tmp_path / "3").read_bytes()


def test_tied_tensors_are_written_once_and_tied_again(tmp_path: Path):
    weight = torch.nn.Parameter(torch.randn(64, 64, generator=torch.Generator().manual_seed(0)))
    save_tensors(tmp_path / "tied", {"unembed": weight, "embed": weight, "other": weight.detach()}, kind="model", metadata={})
    save_tensors(tmp_path / "one", {"embed": weight}, kind="model", metadata={})
    assert os.path.getsize(tmp_path / "tied") < os.path.getsize(tmp_path / "one") + 200
    loaded, _ = load_tensors(tmp_path / "tied", kind="model")
    assert list(loaded) == ["embed", "other", "unembed"]
    assert loaded["unembed"] is loaded["embed"] is loaded["other"]
    assert torch.equal(loaded["embed"], weight)
    assert not loaded["embed"].requires_grad


def test_views_that_only_overlap_are_written_one_by_one(tmp_path: Path):
    whole = torch.arange(12.0).reshape(3, 4)
    views = {"whole": whole, "row": whole[1], "transposed": whole.T, "part": whole[:, :2], "empty": whole[:0], "none": whole[3:]}
    save_tensors(tmp_path / "x", views, kind="model", metadata={})
    loaded, _ = load_tensors(tmp_path / "x", kind="model")
    assert {name: tensor.tolist() for name, tensor in loaded.items()} == {name: view.tolist() for name, view in views.items()}
    loaded["whole"].zero_()
    assert loaded["row"].tolist() == [4.0, 5.0, 6.0, 7.0]


def test_other_programs_can_read_the_file(small: Path):
    plain = safetensors.torch.load_file(small)
    assert plain["read"].tolist() == [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]


@given(data=st.data())
@settings(deadline=None, derandomize=True, max_examples=150)
def test_any_flipped_bit_is_noticed(small: Path, data):
    raw = bytearray(small.read_bytes())
    place = data.draw(st.integers(0, 8 * len(raw) - 1))
    raw[place // 8] ^= 1 << place % 8
    damaged = small.with_name("damaged")
    damaged.write_bytes(raw)
    with pytest.raises(ForeignFileError, match="damaged"):
        load_tensors(damaged, kind="core")


def test_every_truncation_and_every_addition_is_noticed(small: Path):
    raw = small.read_bytes()
    cut = small.with_name("cut")
    for content in [*(raw[:length] for length in range(len(raw))), raw + b"\0", raw + raw]:
        cut.write_bytes(content)
        with pytest.raises(ForeignFileError, match=r"cut, which is cut off, damaged, .*; expected a whole.*; restore it"):
            load_tensors(cut, kind="core")


def test_another_kind_is_refused_by_name(small: Path):
    with pytest.raises(
        ForeignFileError, match=r"core\.safetensors, which holds a core; expected a checkpoint; pass the file of a"
    ):
        load_tensors(small, kind="checkpoint")


def test_another_schema_version_is_refused(small: Path, monkeypatch):
    monkeypatch.setattr("invariscope.storage.tensors.TENSORS_SCHEMA_VERSION", 2)
    with pytest.raises(ForeignFileError, match=r"schema version 1; expected schema version 2; use the version of invariscope"):
        load_tensors(small, kind="core")


def test_somebody_elses_safetensors_file_is_refused(tmp_path: Path):
    for metadata in (None, {"format": "pt"}, {"invariscope": "[]"}, {"invariscope": "no JSON"}):
        safetensors.torch.save_file({"x": torch.ones(2)}, tmp_path / "x", metadata=metadata)
        with pytest.raises(ForeignFileError, match=r"/x, .*; expected a .*file that invariscope wrote"):
            load_tensors(tmp_path / "x", kind="core")


def test_a_missing_file_is_named(tmp_path: Path):
    with pytest.raises(ForeignFileError, match=r"none\.safetensors, which cannot be read \(No such file"):
        load_tensors(tmp_path / "none.safetensors", kind="core")


def test_what_the_format_cannot_hold_is_refused_before_anything_is_written(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"x torch\.complex128; expected types .*; store real and imaginary parts"):
        save_tensors(tmp_path / "x", {"x": torch.ones(2, dtype=torch.complex128)}, kind="core", metadata={})
    with pytest.raises(NonFiniteError, match="NaN or infinity among the values of the metadata of"):
        save_tensors(tmp_path / "x", {"x": torch.ones(2)}, kind="core", metadata={"loss": float("nan")})
    assert os.listdir(tmp_path) == []
