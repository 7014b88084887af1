"""docs/errors/: one page a class, and the message on each page is the one that the library says today."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from invariscope import errors
from invariscope.batch import Batch, check_batches, check_finite
from invariscope.models import Transformer, TransformerConfig
from invariscope.numerics import fit_cca, fit_operator
from invariscope.parallel import map_jobs
from invariscope.positions import select_positions
from invariscope.sites import edit_site, margin, read_sites, resolve_site
from invariscope.storage import RunFolder, save_tensors
from invariscope.tasks import MarkovChain, Pair
from invariscope.training.checkpoints import load_model, load_weights

PAGES = Path(__file__).parents[1] / "docs" / "errors"
SECTIONS = ["Symptom", "Cause", "Mend"]

CLASSES = {
    name: value
    for name, value in vars(errors).items()
    if inspect.isclass(value) and issubclass(value, errors.InvariscopeError) and value.__module__ == errors.__name__
}


def small_model(**choices: int) -> Transformer:
    config = TransformerConfig(**({"vocab_size": 12, "context_length": 16, "width": 64} | choices))
    return Transformer(config, generator=torch.Generator().manual_seed(0))


def tokens(num: int = 2, length: int = 16) -> torch.Tensor:
    return torch.zeros(num, length, dtype=torch.long)


def root() -> None:
    check_batches(Batch(inputs={"tokens": tokens()}))


def unknown_name() -> None:
    resolve_site(small_model(), "blocks.0.resid_middle")


def shape() -> None:
    small_model()(tokens(length=32))


def non_finite() -> None:
    activations = torch.zeros(512, 64)
    activations[3, 7] = torch.nan
    check_finite("activations", activations)


def position() -> None:
    select_positions(12, valid=torch.ones(4, 8, dtype=torch.bool))


def no_forward() -> None:
    with edit_site(small_model(), "blocks.0.resid_mid", lambda rows: rows):
        pass


def hooked_site() -> None:
    model = small_model()
    with read_sites(model, ["blocks.0.resid_mid"]):
        model.last_logits(tokens())


def compiled_model() -> None:
    model = small_model()
    model.compile(backend="eager")
    resolve_site(model, "blocks.0.resid_mid")


def objective() -> None:
    margin(positive=[3, 5], negative=[5])


def pairs() -> None:
    Pair(prompt="The old key", answers="is", foils="is", line=2)


def rank() -> None:
    z = torch.randn(256, 2, generator=torch.Generator().manual_seed(0))
    fit_cca(torch.cat([z, z[:, :1]], dim=1), z)


def too_few_samples() -> None:
    z = torch.randn(8, 3, generator=torch.Generator().manual_seed(0))
    fit_operator(z, z, groups=torch.zeros(8, dtype=torch.long))


def transition_matrix() -> None:
    MarkovChain([[0.0, 1.0], [1.0, 0.0]])


def not_enumerable() -> None:
    MarkovChain.named("spread_12").enumerate("train", 64)


def reiterable() -> None:
    check_batches(Batch(inputs={"tokens": tokens()}) for _ in range(3))


def config() -> None:
    TransformerConfig(vocab_size=12, context_length=16, width=64, num_heads=5)


def folder() -> None:
    for steps in (400, 1200):
        with RunFolder.open("out/markov-cores", config={"steps": steps}, experiment="markov-cores", preset="quick"):
            pass


def foreign_file() -> None:
    save_tensors("core.safetensors", {"write": torch.zeros(64, 3)}, kind="core", metadata={})
    load_model("core.safetensors")


def checkpoint() -> None:
    load_weights(small_model(), small_model(width=128).state_dict(), "step-00000400.safetensors")


def job() -> None:
    map_jobs("json:loads", [{"s": "[1, 2"}], engine="inline")


PROVOCATIONS: dict[str, Callable[[], None]] = {
    "CheckpointError": checkpoint,
    "CompiledModelError": compiled_model,
    "ConfigError": config,
    "FolderError": folder,
    "ForeignFileError": foreign_file,
    "HookedSiteError": hooked_site,
    "InvariscopeError": root,
    "JobError": job,
    "NoForwardError": no_forward,
    "NonFiniteError": non_finite,
    "NotEnumerableError": not_enumerable,
    "ObjectiveError": objective,
    "PairsError": pairs,
    "PositionError": position,
    "RankError": rank,
    "ReiterableError": reiterable,
    "ShapeError": shape,
    "TooFewSamplesError": too_few_samples,
    "TransitionMatrixError": transition_matrix,
    "UnknownNameError": unknown_name,
}


def page(name: str) -> str:
    return (PAGES / f"{name}.md").read_text(encoding="utf-8")


def symptom(name: str) -> str:
    found = re.search(r"^## Symptom\n+```text\n(.+?)\n```$", page(name), re.MULTILINE | re.DOTALL)
    assert found, f"docs/errors/{name}.md has no message under Symptom"
    return found[1]


def said_by(name: str) -> errors.InvariscopeError:
    with pytest.raises(CLASSES[name]) as caught:
        PROVOCATIONS[name]()
    return caught.value


def test_every_class_has_a_page_and_every_page_a_class() -> None:
    assert {path.stem for path in PAGES.glob("*.md")} == set(CLASSES) | {"index"}
    assert set(PROVOCATIONS) == set(CLASSES)


def test_every_class_is_a_public_name_of_its_module() -> None:
    assert set(CLASSES) <= set(errors.__all__)


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_a_page_says_symptom_cause_and_mend(name: str) -> None:
    text = page(name)
    assert text.startswith(f"# {name}\n")
    parts = re.split(r"^## ", text, flags=re.MULTILINE)
    assert [part.split("\n", 1)[0] for part in parts[1:]] == SECTIONS
    assert all(len(part.split()) > 8 for part in parts[1:]), "a section says nothing"


@pytest.mark.parametrize("name", sorted(PROVOCATIONS))
def test_the_message_on_the_page_is_the_one_that_is_said(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    error = said_by(name)
    assert f"invariscope.errors.{type(error).__name__}: {error}" == symptom(name)


@pytest.mark.parametrize("name", sorted(PROVOCATIONS))
def test_every_message_has_its_three_parts(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    error = said_by(name)
    assert all((error.given, error.expected, error.do)), f"given {error.given!r}, expected {error.expected!r}, do {error.do!r}"
    assert "\n" not in str(error)
