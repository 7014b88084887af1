"""``invariscope compare --model ... --pairs ...``: coordinates of cores on the same prompts, of one model or of two."""

from __future__ import annotations

import dataclasses
import itertools
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from cli.test_compare import refused, rows
from cli.trained_runs import train_two
from cores.hand_made import orthogonal, random_core
from invariscope.cli.main import main
from invariscope.cores import Core, compare_pair_coordinates, extract_core, load_core, read_pair_coordinates
from invariscope.models import fingerprint, load_language_model
from invariscope.sites import choices
from invariscope.tasks import builtin_pairs, read_pairs
from language_models import shipped
from tiny_language_models import save_tiny_folder

NAMES = ("CCA", "Spearman", "Procrustes", "CKA")
MEANS = [f"{name} of coordinates, held out" for name in NAMES]


def number_csv(path: Path, nouns: int = 8) -> Path:
    """Prompts of words that the tiny tokeniser knows, both numbers of one noun phrase in a group: 8 groups a noun."""
    forms = {
        "key": "keys", "lamp": "lamps", "door": "doors", "coin": "coins",
        "old key": "old keys", "new lamp": "new lamps", "red door": "red doors", "blue coin": "blue coins",
    }  # fmt: skip
    lines = ["prompt,answer,foil,group"]
    for (one, many), before in itertools.product(
        list(forms.items())[:nouns], itertools.product(("The", "the"), ("old", "red", "new", "blue"))
    ):
        group = f"{' '.join(before)} {one}"
        lines += [f"{' '.join(before)} {one},is,are,{group}", f"{' '.join(before)} {many},are,is,{group}"]
    path.write_text("\n".join(lines) + "\n")
    return path


@dataclasses.dataclass(frozen=True)
class Lab:
    """Two tiny models of 32 and 48 dimensions, cores of theirs, and a table."""

    narrow: str
    wide: str
    pairs: str
    core: str
    turned: str
    white: str
    of_wide: str


def save_wide_folder(folder: Path) -> Path:
    """A tiny model of another width, behind the same tokeniser."""
    from transformers import LlamaConfig, LlamaForCausalLM

    save_tiny_folder(folder)
    shape = LlamaConfig(hidden_size=48, num_hidden_layers=3, num_attention_heads=4, intermediate_size=64, vocab_size=50)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        model = LlamaForCausalLM(shape)
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    folder = tmp_path_factory.mktemp("lab")
    narrow, wide = (
        load_language_model(save(folder / name)) for save, name in ((save_tiny_folder, "narrow"), (save_wide_folder, "wide"))
    )
    pairs = read_pairs(number_csv(folder / "pairs.csv"))
    made: dict[str, Any] = {"site": "blocks.1.resid_post", "positions": "last", "projection": "oblique"}
    core = random_core(32, 2, **made, model=fingerprint(narrow.model))
    z = read_pair_coordinates(core, narrow, pairs).values
    cores = {
        "core": core,
        "turned": in_basis(core, orthogonal(2, 3)),
        # Its coordinates are uncorrelated and of one size.
        "white": in_basis(core, torch.linalg.inv(torch.linalg.qr(z - z.mean(0)).R)),
        "of_wide": random_core(48, 1, 5, **made, model=fingerprint(wide.model)),
    }
    for name, one in cores.items():
        one.save(folder / f"{name}.safetensors")
    files = {name: str(folder / f"{name}.safetensors") for name in cores}
    return Lab(narrow=narrow.name, wide=wide.name, pairs=str(folder / "pairs.csv"), **files)


def in_basis(core: Core, basis: torch.Tensor) -> Core:
    """The same subspaces, with coordinates z @ basis."""
    return dataclasses.replace(core, read=core.read @ basis, write=core.write @ torch.linalg.inv(basis).T)


def compared(lab: Lab, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[list[str], dict[str, list[str]]]:
    """The lines above the table, and its rows by measure, of a comparison of two cores."""
    assert main(["compare", *words, "--pairs", lab.pairs]) == 0
    said = capsys.readouterr().out
    return [line for line in said.splitlines() if " | " not in line], {row[1]: row[2:] for row in rows(said)}


def test_a_core_has_the_coordinates_of_itself(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    lines, found = compared(lab, capsys, lab.core, lab.core, "--model", lab.narrow)
    where = (
        f"{lab.core}: oblique core of rank 2 at blocks.1.resid_post of {lab.narrow}, read at 'last' of 128 prompts in 64 groups"
    )
    assert lines == [where, where, "Note: a space is put before the answers and foils of 128 of 128 pairs"]
    smallest = [f"{name}, smallest component, held out" for name in NAMES[:2]]
    overlaps = ["overlap of write spans", "overlap of read spans"]
    assert list(found) == [*overlaps, MEANS[0], smallest[0], MEANS[1], smallest[1], *MEANS[2:]]
    assert {found[name][0].split()[0] for name in (*overlaps, *MEANS)} == {"1.0000"}
    assert found[smallest[0]][0] == "1.0000 [1.0000, 1.0000]"
    assert found["Procrustes of coordinates, held out"][0] == "1.0000 [1.0000, 1.0000]"
    for name in MEANS:
        assert float(found[name][1]) < 0.5
        assert found[name][3].split(", ")[1] == "d 2 and 2"
    numbers = [int(number) for number in found[MEANS[0]][3].split(",")[0].removeprefix("n ").split("+")]
    assert sum(numbers) == 128
    # Both prompts of a group are on one side.
    assert [number % 2 for number in numbers] == [0, 0]


def test_a_core_in_another_basis_is_the_same_to_cca_alone(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    _, turned = compared(lab, capsys, lab.core, lab.turned, "--model", lab.narrow)
    # Spearman is of canonical variates, and so as blind to a rotation.
    assert [turned[name][0].split()[0] for name in MEANS] == ["1.0000"] * 4
    _, white = compared(lab, capsys, lab.core, lab.white, "--model", lab.narrow)
    assert [white[name][0] for name in MEANS[:2]] == ["1.0000"] * 2
    assert 0.6 < float(white[MEANS[2]][0].split()[0]) < 0.95
    assert white["overlap of read spans"][0] == "1.0000"


def test_cores_of_two_widths_are_compared_by_their_coordinates_alone(
    lab: Lab, start: Callable[..., subprocess.Popen[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["compare", lab.core, lab.of_wide, "--model", lab.narrow, lab.wide, "--pairs", lab.pairs, "--seed", "3"]
    process = start(*words)
    said, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    assert errors.endswith("reading coordinates: 2 of 2 cores\n")
    found = {row[1]: row[2:] for row in rows(said)}
    assert list(found) == ["overlap of spans", *MEANS]
    assert found["overlap of spans"] == ["-", "-", "-", "not defined for cores of dimensions 32 and 48"]
    pairs = read_pairs(lab.pairs)
    read = [
        read_pair_coordinates(core, load_language_model(folder), pairs)
        for core, folder in ((load_core(lab.core), lab.narrow), (load_core(lab.of_wide), lab.wide))
    ]
    expected = compare_pair_coordinates(*read, generator=torch.Generator().manual_seed(3))
    for name, one in zip(MEANS, (expected.cca, expected.spearman, expected.procrustes, expected.cka), strict=True):
        interval = "".join(f" [{low:.4f}, {high:.4f}]" for low, high in one.heldout_intervals)
        assert found[name] == [
            f"{one.heldout:.4f}{interval}",
            f"{one.null_mean:.4f}",
            f"[{one.null_low:.4f}, {one.null_high:.4f}]",
            f"n {one.num_fit}+{one.num_heldout}, d {one.dims[0]} and {one.dims[1]}, k 1",
        ]
    assert main(words) == 0
    assert capsys.readouterr().out == said


def test_a_core_of_another_model_is_refused_unless_forced(lab: Lab, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = str(save_tiny_folder(tmp_path / "other", seed=1))
    weights = [fingerprint(load_language_model(folder).model) for folder in (lab.narrow, other)]
    words = [lab.core, lab.turned, "--model", lab.narrow, other]
    assert main(["compare", *words, "--pairs", lab.pairs]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines()[-1] == (
        f"error: {lab.turned} in {other}: a core of the weights {weights[0]} and a model with the weights {weights[1]}; expected "
        "the model that the core was extracted from, untrained since; extract the core from this model, or pass force=True "
        "(--force) to see what another model's core does"
    )
    _, found = compared(lab, capsys, *words, "--force")
    assert found["overlap of write spans"][0] == "1.0000"
    assert found[MEANS[0]][0] != "1.0000"


def test_spans_in_two_models_of_one_width_are_not_compared(lab: Lab, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = str(save_tiny_folder(tmp_path / "other", seed=1))
    known, unknown = tmp_path / "known.safetensors", tmp_path / "unknown.safetensors"
    core = load_core(lab.core)
    for path, model in ((known, fingerprint(load_language_model(other).model)), (unknown, "")):
        dataclasses.replace(core, provenance=dataclasses.replace(core.provenance, model=model)).save(path)
    for path in (known, unknown):
        _, found = compared(lab, capsys, lab.core, str(path), "--model", lab.narrow, other)
        why = "not defined for cores of two models, whose spaces have no basis in common"
        assert found.pop("overlap of spans") == ["-", "-", "-", why]
        assert MEANS[0] in found
        assert not any("overlap" in name for name in found)
    _, found = compared(lab, capsys, lab.core, str(unknown), "--model", lab.narrow)
    assert found["overlap of write spans"][0] == "1.0000"


def test_coordinates_that_do_not_vary_are_said_and_the_other_pairs_compared(
    lab: Lab, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    constant = tmp_path / "constant.safetensors"
    random_core(32, 1, site="blocks.0.resid_post", positions=0).save(constant)
    made = random_core(32, 1, site="blocks.1.resid_post", positions="last")
    made.save(tmp_path / "one.safetensors")
    csv = tmp_path / "the.csv"
    csv.write_text("\n".join(line.replace("The ", "the ") for line in Path(lab.pairs).read_text().splitlines()))
    words = [str(tmp_path / "one.safetensors"), lab.core, str(constant), "--model", lab.narrow, "--pairs", str(csv)]
    assert main(["compare", *words]) == 0
    found = rows(capsys.readouterr().out)
    refused_rows = [row for row in found if row[1] == "similarities of coordinates"]
    assert [row[0].split(" | ")[1] for row in refused_rows] == [str(constant)] * 2
    assert all(row[2:5] == ["-", "-", "-"] and "does not vary" in row[5] for row in refused_rows)
    assert sum(row[1] == MEANS[0] for row in found) == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["{core}", "{core}", "--model", "{narrow}"],
            "--model without --pairs; expected a model that the cores came from and prompts to read their coordinates on; give "
            "both, or neither to compare spans only",
        ),
        (["{core}", "{core}", "--pairs", "{pairs}"], "--pairs without --model; expected a model that the cores came from"),
        (
            ["{core}", "{core}", "{core}", "--model", "{narrow}", "{narrow}", "--pairs", "{pairs}"],
            "2 models for 3 cores; expected one model for all, or one for each core in their order; name every core's model",
        ),
        (
            ["--model", "{narrow}", "{core}", "{core}", "--pairs", "{pairs}"],
            "0 to compare; expected two or more cores or runs; name them before --model",
        ),
        (
            ["{run}", "{core}", "--model", "{narrow}", "--pairs", "{pairs}"],
            "a run, with --model and --pairs; expected cores of language models; give the files of cores, or leave both options",
        ),
        (
            ["{core}", "{core}", "--model", "{narrow}", "--pairs", "agrement"],
            "'agrement', which is neither a file nor a built-in",
        ),
        (["{core}", "{core}", "--model", "{narrow}", "--pairs", "{tmp}/no.csv"], "no.csv, which cannot be read"),
        (["{core}", "{core}", "--model", "narow", "--pairs", "{pairs}"], "language model 'narow'; expected a shipped name"),
        (
            ["{unnamed}", "{core}", "--model", "{narrow}", "--pairs", "{pairs}"],
            "unnamed.safetensors in {narrow}: a core that does not know its site and positions; expected a core whose provenance",
        ),
        (["{core}", "{core}", "--model", "{narrow}", "--pairs", "{pairs}", "--batch-size", "0"], "a batch size of 0"),
        (
            ["{of_wide}", "{of_wide}", "--model", "{narrow}", "--pairs", "{pairs}", "--force"],
            "of_wide.safetensors in {narrow}: activations of shape",
        ),
    ],
)
def test_bad_input_about_coordinates_is_one_line(
    words: list[str], said: str, lab: Lab, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    unnamed = tmp_path / "unnamed.safetensors"
    random_core(32, 2).save(unnamed)
    names = dataclasses.asdict(lab) | {
        "run": train_two(tmp_path, steps=3)[0] if "{run}" in words else "",
        "tmp": tmp_path,
        "unnamed": unnamed,
    }
    assert said.format(**names) in refused([word.format(**names) for word in words], capsys)


def test_too_few_groups_and_rows_that_do_not_match_are_refused(
    lab: Lab, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    everywhere = tmp_path / "everywhere.safetensors"
    core = load_core(lab.core)
    dataclasses.replace(core, provenance=dataclasses.replace(core.provenance, positions="all")).save(everywhere)
    few = number_csv(tmp_path / "few.csv", nouns=2)
    for words, said in (
        (
            [lab.core, lab.core, "--pairs", str(few)],
            "16 rows in 8 groups to be fitted, of up to 2 dimensions; expected at least 20",
        ),
        ([lab.core, str(everywhere), "--pairs", lab.pairs], "cores read at 'last' and at 'all', which are 1 and 3 tokens of the"),
    ):
        assert main(["compare", *words, "--model", lab.narrow]) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        # Above it stands the progress of what was done before.
        assert captured.err.splitlines()[-1].startswith(f"error: {said}")


@pytest.mark.xdist_group("smollm2")
def test_two_layers_of_a_pretrained_model_carry_number_in_one_coordinate(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lm = shipped("smollm2-135m")
    monkeypatch.setattr("invariscope.models.load_language_model", lambda name, **options: lm)
    few = dataclasses.replace(builtin_pairs("agreement").train, pairs=builtin_pairs("agreement").train.pairs[:48])
    batches = few.encode(lm.encode).batches(24)
    paths = [tmp_path / f"layer-{layer}.safetensors" for layer in (26, 27)]
    for path in paths:
        site = f"blocks.{path.stem.removeprefix('layer-')}.resid_post"
        extract_core(lm.model, batches, site=site, objective=choices(num_classes=2), positions="last", rank=1).save(path)
    assert main(["compare", *map(str, paths), "--model", "smollm2-135m", "--pairs", "agreement"]) == 0
    said = capsys.readouterr().out
    assert "of smollm2-135m, read at 'last' of 192 prompts in 35 groups" in said
    found = {row[1]: row[2:] for row in rows(said)}
    assert float(found[MEANS[0]][0].split()[0]) > 0.9 > 0.3 > float(found[MEANS[0]][1])
