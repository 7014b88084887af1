"""The front door: every public name is there, stands where the types say, and costs nothing before it is used."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import invariscope as iv

SOURCE = Path(__file__).parents[1] / "src" / "invariscope" / "__init__.py"

# The names that users' programs stand on. Add to them; a name that is taken away here breaks a program out there.
PROMISED = """
    Batch Moments Core collect_moments extract_core validate_core Effects identify_operator fit_operator compare_coordinates
    projector_overlap transplant load_core rank_curve core_coordinates weight_cosine read_sites edit_site logits margin
    choices read_pairs cross_entropy accuracy auc by_energy by_gap by_sufficiency Transformer TransformerConfig untrained train
    TrainConfig load_run Run follow_core CoreSeries tasks Estimate Similarity InvariscopeError QRFactor load_language_model
    LanguageModel sweep_layers LayerSweep export_steering verify_model circuits measure_circuits folded_logits
    from_lens to_lens load_lens save_lens lens_series Start InductionManifold
    ReducedLoss Disentangled DisentangledConfig
"""


def typed_imports() -> dict[str, str]:
    """Name to module, as the type checker sees them."""
    tree = ast.parse(SOURCE.read_text(encoding="utf-8"))
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    return {alias.name: str(node.module) for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}


def test_no_promised_name_is_missing() -> None:
    assert set(PROMISED.split()) <= set(iv.__all__)


def test_what_is_listed_is_what_the_type_checker_sees() -> None:
    assert sorted(typed_imports()) == sorted(iv.__all__)


@pytest.mark.parametrize("name", iv.__all__)
def test_every_name_is_the_one_that_the_type_checker_sees(name: str) -> None:
    if name in ("circuits", "tasks"):
        assert getattr(iv, name) is importlib.import_module(f"invariscope.{name}")
        return
    assert getattr(iv, name) is getattr(importlib.import_module(typed_imports()[name]), name)


def test_functions_are_not_hidden_by_the_modules_of_their_names() -> None:
    importlib.import_module("invariscope.cores.transplant")
    importlib.import_module("invariscope.training.train")
    importlib.import_module("invariscope.models.untrained")
    assert all(callable(getattr(iv, name)) for name in ("transplant", "train", "untrained"))


@pytest.mark.parametrize("code", ["", "dir(iv)", "iv.__version__", "hasattr(iv, 'nope')", "iv.InvariscopeError"])
def test_nothing_is_loaded_before_it_is_used(code: str) -> None:
    program = f"import sys; import invariscope as iv; {code}\nprint(sorted({{'torch', 'numpy', 'scipy'}} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout == "[]\n"


def test_the_version_is_the_installed_one() -> None:
    assert iv.__version__ == version("invariscope")


def test_dir_shows_the_public_names_and_nothing_of_the_machinery() -> None:
    shown = dir(iv)
    assert {*iv.__all__, "__version__"} <= set(shown)
    assert [name for name in shown if not name.startswith("__") and name not in iv.__all__] == []


@pytest.mark.parametrize(
    ("name", "nearest"), [("extract_cor", "extract_core"), ("by_enrgy", "by_energy"), ("transformer", "Transformer")]
)
def test_an_unknown_name_is_answered_with_the_nearest_three(name: str, nearest: str) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(iv, name)
    said, _, named = str(caught.value).partition("; nearest: ")
    assert said == f"module 'invariscope' has no name {name!r}"
    assert nearest == named.split(", ")[0]
    assert len(named.split(", ")) == 3


def test_an_unknown_name_is_an_ordinary_attribute_error_and_parts_can_still_be_imported() -> None:
    assert not hasattr(iv, "nope")
    with pytest.raises(ImportError):
        importlib.import_module("invariscope.nope")
    from invariscope import storage

    assert storage.RunFolder.__name__ == "RunFolder"
