"""The exported matrices and the recipes beside them."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file

from invariscope.cores.core import Core, Provenance
from invariscope.cores.export import RECIPES_NAME, STEERING_NAME, export_steering
from invariscope.errors import FolderError


def oblique_core() -> Core:
    generator = torch.Generator().manual_seed(0)
    write = torch.randn(6, 2, generator=generator, dtype=torch.float64)
    read = torch.randn(6, 2, generator=generator, dtype=torch.float64)
    read = read @ torch.linalg.inv(write.T @ read)
    mean = torch.randn(6, generator=generator, dtype=torch.float64)
    return Core(
        read=read, write=write, mean=mean, singular_values=torch.ones(2), provenance=Provenance(site="blocks.1.resid_post")
    )


def code_blocks(folder) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (folder / RECIPES_NAME).read_text("utf-8"), re.DOTALL)


def test_any_reader_of_safetensors_finds_the_matrices(tmp_path):
    core = oblique_core()
    found = load_file(export_steering(core, tmp_path / "steering", layer=1) / STEERING_NAME)
    assert set(found) == {"read", "write", "mean"}
    assert torch.equal(found["write"], core.write.float())
    assert found["read"].T @ found["write"] == pytest.approx(torch.eye(2), abs=1e-5)


def test_equal_cores_give_equal_bytes(tmp_path):
    a, b = (export_steering(oblique_core(), tmp_path / name, layer=1) / STEERING_NAME for name in "ab")
    assert a.read_bytes() == b.read_bytes()


def test_the_hook_recipe_does_what_the_core_does(tmp_path, monkeypatch):
    core = oblique_core()
    folder = export_steering(core, tmp_path, layer=1, model_name="a model")
    monkeypatch.chdir(folder)
    blocks = code_blocks(folder)
    layers = torch.nn.ModuleList([torch.nn.Identity(), torch.nn.Identity()])
    model = SimpleNamespace(model=SimpleNamespace(layers=layers))
    x = torch.randn(2, 3, 6, generator=torch.Generator().manual_seed(1))
    model.generate = lambda max_new_tokens: layers[1](layers[0](x))
    scope = {"model": model, "inputs": {}}
    exec(blocks[0] + blocks[1], scope)
    assert scope["tokens"] == pytest.approx(core.flip(x), abs=1e-5)
    assert scope["steer"](x, c=0) == pytest.approx(core.remove(x), abs=1e-5)
    assert scope["steer"](x, c=1) == pytest.approx(x, abs=1e-6)
    # Nothing stays behind.
    assert torch.equal(layers[1](x), x)


def test_every_recipe_names_the_layer_and_is_python(tmp_path):
    folder = export_steering(oblique_core(), tmp_path, layer=17, model_name="a model")
    text = (folder / RECIPES_NAME).read_text("utf-8")
    assert "after block 17 of a model" in text
    assert "blocks.17.hook_resid_post" in text
    assert text.count("layers[17]") == 4
    for block in code_blocks(folder):
        compile(block, "recipe", "exec")


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(FolderError, match="file"):
        export_steering(oblique_core(), tmp_path / "file" / "steering", layer=0)
