"""Files of state dicts: both formats, what must never be unpickled, and a folder as a series."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from invariscope.errors import CheckpointError, ForeignFileError
from invariscope.models import Transformer, TransformerConfig, lens_series, load_lens, read_lens, save_lens
from models.lens_reference import hooked_logits, random_hooked

TOKENS = torch.tensor([[0, 3, 6, 1]])


class Trap:
    """Its pickle would call touch on the path that it holds."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return Path.touch, (self.path,)


def build(**changes: object) -> Transformer:
    config = TransformerConfig(vocab_size=7, context_length=6, width=8, num_heads=2, mlp_width=12, activation="relu", **changes)
    return Transformer(config, generator=torch.Generator().manual_seed(0)).eval()


@pytest.mark.parametrize("name", ["a.pt", "a.pth", "a.safetensors"])
def test_both_formats_are_read(name: str, tmp_path: Path):
    tensors = random_hooked()
    path = tmp_path / name
    if path.suffix == ".safetensors":
        save_file(tensors, path)
    else:
        torch.save(tensors, path)
    assert read_lens(path).keys() == tensors.keys()
    assert torch.allclose(load_lens(path)(TOKENS), hooked_logits(tensors, TOKENS), atol=1e-5)
    assert load_lens(str(path), activation="gelu", causal=False).config.activation == "gelu"


@pytest.mark.parametrize("name", ["model", "state_dict", "model_state_dict"])
def test_a_state_dict_inside_a_checkpoint_is_found(name: str, tmp_path: Path):
    tensors = random_hooked()
    stored = {name: tensors, "optimizer": {"state": {0: {"step": torch.tensor(3.0)}}}, "step": 501, "config": {"d_model": 8}}
    torch.save(stored, tmp_path / "a.pt")
    assert read_lens(tmp_path / "a.pt").keys() == tensors.keys()


@pytest.mark.parametrize("layout", ["hooked", "native"])
def test_what_we_write_we_read(layout: str, tmp_path: Path):
    model = build(num_layers=2, num_outputs=5)
    path = tmp_path / "folder" / "a.safetensors"
    save_lens(path, model, layout=layout)
    back = load_lens(path, num_heads=2)
    assert back.config == model.config
    assert torch.equal(back(TOKENS), model(TOKENS))
    with pytest.raises(ForeignFileError, match=r"a.pt, to be written; expected a name that ends with .safetensors"):
        save_lens(tmp_path / "a.pt", model)


@pytest.mark.parametrize("protocol", ["zip", "old"])
def test_a_file_that_would_need_unpickling_is_refused_before_it_runs(protocol: str, tmp_path: Path):
    ran, path = tmp_path / "ran", tmp_path / "a.pt"
    torch.save({"model": random_hooked(), "x": Trap(ran)}, path, _use_new_zipfile_serialization=protocol == "zip")
    with pytest.raises(ForeignFileError) as caught:
        load_lens(path)
    assert not ran.exists()
    said = str(caught.value)
    assert said.startswith(f"{path}, which holds more than tensors (")
    # How a path is pickled differs between versions of Python.
    assert "(pathlib" in said or "(getattr)" in said
    assert said.endswith(
        "and would run code when it is read; expected a state dict alone; "
        "where you trust it, load it with what wrote it and write torch.save(model.state_dict(), path)"
    )
    assert "\n" not in said


def test_a_whole_module_is_refused(tmp_path: Path):
    torch.save(torch.nn.Identity(), tmp_path / "a.pth")
    with pytest.raises(ForeignFileError, match=r"holds more than tensors \(torch.nn.modules.linear.Identity\)"):
        load_lens(tmp_path / "a.pth")


def test_a_plain_pickle_runs_nothing(tmp_path: Path):
    ran, path = tmp_path / "ran", tmp_path / "a.pt"
    path.write_bytes(pickle.dumps({"x": Trap(ran)}))
    with pytest.raises(ForeignFileError, match=r"a.pt, which holds more than tensors \(a plain pickle\) and would run code"):
        load_lens(path)
    assert not ran.exists()


@pytest.mark.parametrize("name", ["a.pt", "a.safetensors"])
def test_damaged_files_are_refused(name: str, tmp_path: Path):
    path = tmp_path / name
    torch.save(random_hooked(), path) if name == "a.pt" else save_file(random_hooked(), path)
    raw = path.read_bytes()
    for damaged in (b"", b"garbage garbage", raw[: len(raw) // 2], raw[:-50]):
        path.write_bytes(damaged)
        with pytest.raises(ForeignFileError) as caught:
            load_lens(path)
        assert "cut off, damaged, or no file of tensors" in str(caught.value)
        assert "\n" not in str(caught.value)


def test_what_holds_no_state_dict_is_refused(tmp_path: Path):
    torch.save({"step": 3, "name": "x"}, tmp_path / "a.pt")
    with pytest.raises(ForeignFileError, match=r"a.pt, which holds step, name; expected a state dict, alone or under model"):
        load_lens(tmp_path / "a.pt")
    torch.save([torch.zeros(2)], tmp_path / "a.pt")
    with pytest.raises(ForeignFileError, match=r"a.pt, which holds list; expected"):
        load_lens(tmp_path / "a.pt")
    with pytest.raises(ForeignFileError, match=r"a.bin; expected a name that ends with .safetensors, .pt, .pth"):
        load_lens(tmp_path / "a.bin")
    with pytest.raises(ForeignFileError, match=r"b.pt, which cannot be read"):
        load_lens(tmp_path / "b.pt")


def test_the_file_is_named_where_its_shapes_do_not_fit(tmp_path: Path):
    torch.save(random_hooked(), tmp_path / "a.pt")
    with pytest.raises(CheckpointError, match=r"a.pt: unembed.W_U \[8, 5\] for \[8, 3\]; expected exactly the weights"):
        load_lens(tmp_path / "a.pt", config=build(num_layers=2, num_outputs=3).config)


def test_forty_state_dicts_become_a_series(tmp_path: Path):
    steps = [1 + 500 * index for index in range(40)]
    for step in steps:
        torch.save(random_hooked(seed=step), tmp_path / f"step_{step}.pt")
    (tmp_path / "notes.txt").write_text("no state dict")
    series = lens_series(tmp_path)
    assert [step for step, _ in series] == steps
    followed = [load_lens(path)(TOKENS) for _, path in series[:3]]
    for step, logits in zip(steps, followed, strict=False):
        assert torch.allclose(logits, hooked_logits(random_hooked(seed=step), TOKENS), atol=1e-5)


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("step_501.pt", 501),
        ("checkpoint-00501.pth", 501),
        ("501.safetensors", 501),
        ("seed42_step501_lr3.pt", 501),
        ("501_steps_seed42.pt", 501),
        ("ckpt-epoch3-step501.pt", 501),
        ("assign_add_59_501.pt", 501),
        ("Step=501.pt", 501),
    ],
)
def test_the_step_in_a_name(name: str, step: int, tmp_path: Path):
    (tmp_path / name).touch()
    assert lens_series(tmp_path) == [(step, tmp_path / name)]


def test_folders_that_are_no_series_are_refused(tmp_path: Path):
    with pytest.raises(CheckpointError, match=r"expected a folder with files .safetensors, .pt, .pth"):
        lens_series(tmp_path)
    (tmp_path / "step_7.pt").touch()
    (tmp_path / "step_007.pth").touch()
    with pytest.raises(CheckpointError, match=r"step_7.pt, with step 7, as step_007.pth; expected one file a step"):
        lens_series(tmp_path)
    (tmp_path / "step_007.pth").rename(tmp_path / "final.pth")
    with pytest.raises(CheckpointError, match=r"final.pth, with no step in its name; .*rename it, or move it elsewhere"):
        lens_series(tmp_path)
