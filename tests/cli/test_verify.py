"""invariscope verify: a line a layer, and a status that says whether it passed."""

from __future__ import annotations

import pytest

from invariscope.cli.main import main
from tiny_language_models import save_tiny_folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_tiny_folder(tmp_path_factory.mktemp("tiny") / "model")


def test_verify_prints_a_line_a_layer_and_passes(folder, capsys):
    words = ["verify", str(folder), "--prompt", "the old key and the lamp", "--prompt", "the doors are"]
    assert main(words) == 0
    text = capsys.readouterr().out
    assert "blocks.2" in text
    assert "as plain Hugging Face" in text


def test_verify_fails_above_its_tolerance(folder, capsys, monkeypatch):
    words = ["verify", str(folder), "--prompt", "the old key and the lamp", "--prompt", "the doors are", "--tolerance", "1e-12"]
    assert main(words) == 1
    assert "NOT as plain Hugging Face" in capsys.readouterr().out


def test_one_length_of_prompt_is_bad_input(folder, capsys):
    assert main(["verify", str(folder), "--prompt", "the key"]) == 2
    assert "at least two of different length" in capsys.readouterr().err
