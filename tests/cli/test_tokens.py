"""invariscope tokens and list --models, on a tiny folder."""

from __future__ import annotations

import subprocess
import sys

import pytest

from invariscope.cli.main import main
from invariscope.storage.shipped_models import SHIPPED_MODELS
from tiny_language_models import save_tiny_folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_tiny_folder(tmp_path_factory.mktemp("tiny") / "model")


def test_tokens_have_positions_ids_and_a_last_one(folder, capsys):
    assert main(["tokens", str(folder), "the old key", "red"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("stands before every text: none")
    assert lines[1] == "'the old key': 3 tokens"
    assert lines[4].split() == ["2", "4", "'key'", "last"]
    assert "last" not in lines[3]
    assert lines[5] == "'red': 1 tokens"


def test_models_are_listed_with_licence_and_how_to_install_them_without_torch():
    program = "import sys; from invariscope.cli.main import main; main(['list', '--models']); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    for name, model in SHIPPED_MODELS.items():
        assert f"{name}  {model.summary}; licence: {model.licence}" in done.stdout
    assert done.stdout.strip().endswith("False")
