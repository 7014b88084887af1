"""invariscope verify: a line a layer, and a status that says whether it passed."""

from __future__ import annotations

import pytest
import transformers

from invariscope.cli.main import main
from tiny_language_models import FAMILIES, save_tiny_folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_tiny_folder(tmp_path_factory.mktemp("tiny") / "model")


def test_verify_prints_a_line_a_layer_and_passes(folder, capsys):
    words = ["verify", str(folder), "--prompt", "the old key and the lamp", "--prompt", "the doors are"]
    assert main(words) == 0
    text = capsys.readouterr().out
    assert "blocks.2" in text
    assert "as plain Hugging Face" in text


@pytest.mark.parametrize("family", FAMILIES)
def test_a_folder_of_every_family_passes_with_padding_on_both_sides(family, tmp_path, capsys):
    folder = save_tiny_folder(tmp_path / family, family=family)
    if family == "qwen2":
        # transformers takes this family's own tokeniser of bytes whatever the folder says.
        letters = {letter: number for number, letter in enumerate("Ġabcdefghijklmnopqrstuvwxyz")}
        transformers.Qwen2Tokenizer(vocab=letters | {"<|endoftext|>": 27}, merges=[]).save_pretrained(folder)
    words = ["verify", str(folder)]
    for prompt in ("the old key and the lamp in the red door", "the doors are", "coins"):
        words += ["--prompt", prompt]
    assert main(words) == 0
    lines = capsys.readouterr().out.splitlines()
    assert ("3 prompts of 5 to 40 tokens" if family == "qwen2" else "3 prompts of 1 to 10 tokens") in lines[0]
    assert lines[1] == "largest relative deviation, padded on the left / on the right"
    assert [line.split()[0] for line in lines[3:8]] == ["blocks.0", "blocks.1", "blocks.2", "final_norm", "logits"]
    cells = [float(cell) for line in lines[3:8] for cell in line.split()[1:] if cell not in "/-"]
    assert len(cells) >= 2 * (3 * 5 + 2)
    assert max(cells) <= 1e-5
    assert lines[-1].endswith("tolerance 1.0e-05")


def test_verify_fails_above_its_tolerance(folder, capsys, monkeypatch):
    words = ["verify", str(folder), "--prompt", "the old key and the lamp", "--prompt", "the doors are", "--tolerance", "1e-12"]
    assert main(words) == 1
    assert "NOT as plain Hugging Face" in capsys.readouterr().out


def test_one_length_of_prompt_is_bad_input(folder, capsys):
    assert main(["verify", str(folder), "--prompt", "the key"]) == 2
    assert "at least two of different length" in capsys.readouterr().err
