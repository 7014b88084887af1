"""``invariscope circuits``: its options, what it reads, what it prints and writes, and what it refuses."""

from __future__ import annotations

import csv
import dataclasses
import json
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch

from invariscope.circuits import measure_circuits
from invariscope.cli.circuits import CircuitsOptions
from invariscope.cli.main import main
from invariscope.models import Transformer, TransformerConfig, save_lens, to_lens
from invariscope.storage.atomic import read_json
from invariscope.tasks import AssignAdd, MarkovChain, describe_task
from invariscope.training import TrainConfig, train
from invariscope.training.checkpoints import save_weights

if TYPE_CHECKING:
    import subprocess

TASK = AssignAdd(modulus=11, num_variables=4, num_pads=1)
WORDS = ("--task", "assign-add", "--modulus", "11", "--num-variables", "4", "--num-pads", "1")
FAST = ("--num", "32")


def shape(task: AssignAdd = TASK) -> TransformerConfig:
    return TransformerConfig(
        vocab_size=task.vocab_size,
        num_outputs=task.num_outputs,
        context_length=task.sequence_length,
        num_layers=2,
        width=16,
        num_heads=1,
        mlp_width=(0, 24),
        activation="relu",
    )


def build(seed: int = 0, task: AssignAdd = TASK) -> Transformer:
    return Transformer(shape(task), generator=torch.Generator().manual_seed(seed)).eval()


def save_ours(path: Path, model: Transformer, step: int = 0) -> Path:
    save_weights(path, model, step=step)
    return path


def measured(out: Path) -> list[dict[str, Any]]:
    return read_json(out / "circuits.json")["checkpoints"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = TrainConfig(steps=20, batch_size=32, eval_every=0, checkpoint_every=10, forward="folded")
    [found] = train(TASK, shape(), config, seeds=[0], folder=tmp_path_factory.mktemp("runs"), engine="inline", progress=False)
    assert found.folder is not None
    return found.folder


def test_the_options_are_these() -> None:
    assert [(field.name, field.default) for field in dataclasses.fields(CircuitsOptions)][1:] == [
        ("task", None),
        ("modulus", None),
        ("num_variables", None),
        ("min_assignments", None),
        ("max_assignments", None),
        ("num_pads", None),
        ("layout", None),
        ("split", None),
        ("split_seed", None),
        ("heldout_share", None),
        ("series", False),
        ("num", 512),
        ("probes", 0),
        ("seed", 0),
        ("out", None),
        ("debug", False),
    ]


def test_our_checkpoint_and_state_dicts_in_both_layouts_give_the_same_measures(tmp_path: Path) -> None:
    model = build()
    files = [save_ours(tmp_path / "ours.safetensors", model), tmp_path / "hooked.pt", tmp_path / "native.safetensors"]
    torch.save(to_lens(model), files[1])
    save_lens(files[2], model, layout="native")
    found = []
    for path in files:
        assert main(["circuits", str(path), *WORDS, *FAST, "--out", str(tmp_path / path.stem)]) == 0
        [one] = measured(tmp_path / path.stem)
        found.append(one["measures"])
    assert found[0] == found[1] == found[2]
    # They are what the library measures.
    expected = measure_circuits(model, TASK, torch.Generator().manual_seed(0), num_sequences=32, num_pairs=16)
    for row in expected.rows():
        assert found[0][row.name]["value"] == row.value


def test_one_checkpoint_is_a_table_of_every_measure_with_its_control(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = save_ours(tmp_path / "ours.safetensors", build())
    assert main(["circuits", str(path), *WORDS, *FAST, "--out", str(tmp_path / "out")]) == 0
    title, headings, *lines, last = capsys.readouterr().out.splitlines()
    assert title == (
        f"{path}: presentation layout, sums modulo 11, 4 variables, unordered split; 32 sequences of each kind, seed 0"
    )
    assert headings.split("  ")[0] == "measure"
    assert last == f"Measures: {tmp_path / 'out' / 'circuits.json'}, {tmp_path / 'out' / 'circuits.csv'}"
    [found] = measured(tmp_path / "out")
    assert found["step"] is None
    names = [line.split("  ")[0] for line in lines]
    assert names == list(found["measures"])
    assert names[:3] == ["accuracy 0var-seen", "accuracy 0var-held", "accuracy 1var-seen"]
    assert {"accuracy 2var-held-bad2", "attn1_equal_to_operands", "frequency_share", "gradient_cosine"} < set(names)
    (identity,) = [line for line in lines if line.startswith("qk2_ov1_variable_identity")]
    assert identity.split("  ")[-1] == "1 / variables"
    assert " 0.25 " in identity
    with (tmp_path / "out" / "circuits.csv").open(encoding="utf-8") as file:
        table = list(csv.DictReader(file))
    assert [row["measure"] for row in table] == names
    for row in table:
        assert float(row["value"]) == found["measures"][row["measure"]]["value"]
        assert row["step"] == ""
        assert row["control"]


def test_the_accuracies_are_those_of_the_model(tmp_path: Path) -> None:
    # A model that always answers 3: its unembedding reads a constant that the position of '=' alone carries.
    model = build()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        model.position_embedding[-1, 0] = 1.0
        model.unembedding.weight[3, 0] = 5.0
    path = save_ours(tmp_path / "three.safetensors", model)
    assert main(["circuits", str(path), *WORDS, "--num", "2000", "--out", str(tmp_path)]) == 0
    found = measured(tmp_path)[0]["measures"]["accuracy 0var-seen"]
    sums = TASK.pairs("0var-seen").sum(1) % 11
    assert found["value"] == pytest.approx(float((sums == 3).double().mean()), abs=0.03)
    assert found["chance"] == TASK.chance().accuracy


def test_forty_state_dicts_in_a_folder_become_a_followed_series(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    steps = [1 + 500 * index for index in range(40)]
    # Some folders sort 10001 before 501.
    for step in reversed(steps):
        torch.save({"model": to_lens(build(step)), "step": step}, _made(tmp_path / "series") / f"step_{step}.pt")
    assert main(["circuits", str(tmp_path / "series"), *WORDS, "--num", "16", "--out", str(tmp_path / "out")]) == 0
    title, headings, *lines = capsys.readouterr().out.splitlines()
    assert title.startswith(f"{tmp_path / 'series'}, 40 checkpoints: presentation layout")
    assert headings.split("  ")[:4] == ["step", " 0var-held", "1var-held", "2var-held"] or headings.startswith("step")
    assert [line.split()[0] for line in lines[:40]] == [str(step) for step in steps]
    assert any(line.startswith("identity: ") and "0.25 is 1 / variables" in line for line in lines[40:])
    found = measured(tmp_path / "out")
    assert [one["step"] for one in found] == steps
    assert len({one["measures"]["identity_diagonal"]["value"] for one in found}) == 40
    # Every step is measured as it would be alone.
    alone = ["circuits", str(tmp_path / "series" / "step_1001.pt"), *WORDS, "--num", "16", "--out", str(tmp_path / "alone")]
    assert main(alone) == 0
    assert measured(tmp_path / "alone")[0]["measures"] == found[2]["measures"]


def _made(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    return folder


def test_a_run_knows_its_task_and_its_last_checkpoint_stands_for_it(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["circuits", str(run), *FAST, "--out", str(tmp_path / "run")]) == 0
    assert [one["step"] for one in measured(tmp_path / "run")] == [20]
    # So does a checkpoint inside, and the words may say what is so anyway.
    file = run / "checkpoints" / "step-00000020.safetensors"
    assert main(["circuits", str(file), "--task", "assign-add", "--num-pads", "1", *FAST, "--out", str(tmp_path / "file")]) == 0
    assert measured(tmp_path / "file")[0]["measures"] == measured(tmp_path / "run")[0]["measures"]
    capsys.readouterr()
    assert main(["circuits", str(run), "--series", *FAST, "--out", str(tmp_path / "series")]) == 0
    assert [one["step"] for one in measured(tmp_path / "series")] == [10, 20]
    assert measured(tmp_path / "series")[1]["measures"] == measured(tmp_path / "run")[0]["measures"]
    assert capsys.readouterr().out.splitlines()[0].startswith(f"{run}, 2 checkpoints: ")


def test_a_description_is_a_task_and_options_change_it(tmp_path: Path) -> None:
    task = AssignAdd(modulus=11, num_variables=4, num_pads=3, split="ordered")
    description = tmp_path / "task.json"
    description.write_text(json.dumps(describe_task(task)))
    path = save_ours(tmp_path / "ours.safetensors", build())
    words = ["circuits", str(path), "--task", str(description), "--num-pads", "1", *FAST, "--out", str(tmp_path)]
    assert main(words) == 0
    assert read_json(tmp_path / "circuits.json")["task"] == describe_task(dataclasses.replace(task, num_pads=1))
    # The mirror leak is a row of its own.
    assert {"accuracy 0var-held-swapped", "accuracy 0var-held-unseen"} <= set(measured(tmp_path)[0]["measures"])


def test_the_papers_layout_and_probes(tmp_path: Path) -> None:
    task = dataclasses.replace(AssignAdd.paper(), modulus=11)
    path = tmp_path / "paper.pth"
    torch.save(to_lens(build(task=task)), path)
    words = ["circuits", str(path), "--task", "assign-add-paper", "--modulus", "11", *FAST, "--out", str(tmp_path)]
    assert main(words) == 0
    without = measured(tmp_path)[0]["measures"]
    assert "own_variable_probe_after" not in without
    assert without["qk2_ov1_variable_identity"]["chance"] == pytest.approx(1 / 12)
    assert main([*words, "--probes", "600"]) == 0
    assert "own_variable_probe_after" in measured(tmp_path)[0]["measures"]


def test_on_a_terminal_it_is_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    path = save_ours(tmp_path / "ours.safetensors", build())
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "160")
    assert main(["circuits", str(path), *WORDS, *FAST]) == 0
    said = capsys.readouterr().out
    assert "─────" in said
    assert "qk2_ov1_variable_identity" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["{tmp}/nowhere.pt"], "nowhere.pt, which is not there; expected a checkpoint, a run's folder, or a folder of state"),
        (["{ours}"], "without --task; expected a task, because weights do not say which one they were trained on"),
        (["{ours}", "--task", "asign-add"], "unknown task 'asign-add'; expected one of its known names; nearest: assign-add"),
        (["{ours}", "--task", "{tmp}/no.json"], "no.json, which cannot be read"),
        (["{ours}", "--task", "{chain}"], "chain.json, whose task is 'four_real'; expected Assign and Add"),
        (["{ours}", *WORDS, "--series"], "--series with {ours}, a single file; expected a folder with a checkpoint a step"),
        (["{ours}", *WORDS, "--max-assignments", "9"], "max_assignments = 9; expected as many assignments as there are"),
        (
            ["{ours}", "--task", "assign-add", "--modulus", "11"],
            "ours.safetensors: a model with token_embedding [19, 16], position_embedding [17, 16]; "
            "expected token_embedding [21, 16], position_embedding [20, 16]",
        ),
        (["{ours}", *WORDS, "--num", "0"], "a sample of 0 sequences"),
        (["{ours}", *WORDS, "--out", "{ours}"], "--out {ours}, a file; expected a folder, new or not"),
        (["{trap}", *WORDS], "trap.pt, which holds more than tensors"),
        (["{tmp}/cut.safetensors", *WORDS], "cut.safetensors, which is cut off, damaged, or no file of tensors"),
        (["{tmp}/empty", *WORDS], "empty; expected a folder with files .safetensors, .pt, .pth"),
        (["{tmp}/nameless", *WORDS], "final.pt, with no step in its name; expected one file a step, such as step_501.pt"),
        (["{run}", "--num-pads", "3"], "num_pads = 3, for a run that was trained otherwise; expected num_pads = 1, as {run}"),
        (["{run}", "--task", "assign-add-paper"], "layout = paper, "),
    ],
)
def test_bad_input_is_one_line(
    words: list[str], said: str, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    places = {"tmp": tmp_path, "run": run, "ours": save_ours(tmp_path / "ours.safetensors", build())}
    places |= {"trap": tmp_path / "trap.pt", "chain": tmp_path / "chain.json"}
    places["trap"].write_bytes(pickle.dumps({"W": Path("touched")}))
    places["chain"].write_text(json.dumps(describe_task(MarkovChain.named("four_real", 8))))
    (tmp_path / "cut.safetensors").write_bytes(places["ours"].read_bytes()[:200])
    for name in ("empty", "nameless"):
        (tmp_path / name).mkdir()
    torch.save(to_lens(build()), tmp_path / "nameless" / "final.pt")
    assert main(["circuits", *(word.format(**places) for word in words)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    assert line.startswith("error: ")
    assert said.format(**places) in line


def test_a_run_of_another_task_is_refused(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chain = MarkovChain.named("four_real", 8)
    config = TransformerConfig(vocab_size=4, context_length=8, width=8, num_heads=2, mlp_width=8)
    train_config = TrainConfig(steps=1, batch_size=8, eval_sequences=8)
    train(chain, config, train_config, seeds=[0], folder=tmp_path, engine="inline", progress=False)
    assert main(["circuits", str(tmp_path / "seed-0000")]) == 2
    assert "seed-0000, whose task is 'four_real'; expected Assign and Add" in capsys.readouterr().err
    # Nor is a whole study the folder of one model.
    shutil.copytree(run, tmp_path / "study")
    manifest = tmp_path / "study" / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"kind": "run"', '"kind": "experiment"'))
    assert main(["circuits", str(tmp_path / "study")]) == 2


def test_in_a_process_of_its_own(start: Callable[..., subprocess.Popen[str]], tmp_path: Path) -> None:
    torch.save(to_lens(build()), tmp_path / "model.pt")
    process = start("circuits", "model.pt", *WORDS, *FAST, "--out", "out")
    out, err = process.communicate()
    assert (process.returncode, err) == (0, "")
    assert out.splitlines()[0].startswith("model.pt: presentation layout, sums modulo 11")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["circuits.csv", "circuits.json"]
    process = start("circuits", "model.pt", "--task", "assign-add-papr")
    out, err = process.communicate()
    assert (process.returncode, out) == (2, "")
    assert (
        err == "error: unknown task 'assign-add-papr'; expected one of its known names; nearest: assign-add-paper, assign-add\n"
    )
