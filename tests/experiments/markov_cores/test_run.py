"""The whole study on a tiny configuration: files, resumption, independence of the engine, and what untrained models get."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from invariscope.cores import load_core
from invariscope.experiments.markov_cores import ArmConfig, Config, run
from invariscope.experiments.markov_cores.subjects import core_path
from invariscope.figures import Figure
from invariscope.storage.claims_file import read_claims
from invariscope.storage.records import to_json_record
from invariscope.storage.run_folder import RunFolder
from invariscope.training import TrainConfig

TINY = Config(
    sequence_length=6,
    width=16,
    num_heads=2,
    mlp_width=16,
    train=TrainConfig(steps=4, batch_size=16, eval_every=2, eval_sequences=16, checkpoint_every=2),
    real=ArmConfig(chain="four_real", seeds=(0, 1)),
    extract_sequences=64,
    evaluate_sequences=64,
    operator_sequences=64,
    control_sequences=64,
    num_random=2,
    das_steps=2,
    probe_tokens=256,
    follow_every=2,
    follow_sequences=64,
)


def carry_out(path: Path, engine: str) -> None:
    with RunFolder.open(path, config=to_json_record(TINY), experiment="markov-cores", preset="tiny") as folder:
        run(TINY, folder, preset="tiny", engine=engine, progress=False)


def digests(path: Path) -> dict[str, str]:
    files = [file for file in path.rglob("*") if file.is_file() and file.name not in ("manifest.json", ".lock")]
    return {str(file.relative_to(path)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


@pytest.fixture(scope="module")
def inline_run(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("study") / "inline"
    carry_out(path, "inline")
    return path


@pytest.mark.xdist_group("markov-run")
def test_files_of_a_run(inline_run: Path):
    found = digests(inline_run)
    assert "claims.json" in found
    assert "runs/twelve/seed-0001/checkpoints/step-00000004.safetensors" in found
    assert "cores/real/seed-0000-blocks.0.resid_mid-oblique.safetensors" in found
    assert len(read_claims(inline_run / "claims.json").claims) == 14
    assert {Figure.load(path).name for path in (inline_run / "figures").glob("*.json")} == {
        "rank_curve",
        "ablation_bars",
        "eigenvalues",
        "similarity_bars",
        "transplant",
        "training_curves",
        "core_over_training",
        "core_over_training_curves",
    }


@pytest.mark.xdist_group("markov-run")
def test_nothing_learnt_is_nothing_reproduced(inline_run: Path):
    verdicts = {claim.id.split("/")[1]: claim.verdict for claim in read_claims(inline_run / "claims.json").claims}
    for name in ("rank-resid-mid", "rank-12-state", "cca-12-state", "cca-within-groups", "spectrum", "near-optimal"):
        assert verdicts[name] == "not reproduced", name
    assert verdicts["by-construction-final-norm"] == "reproduced"


@pytest.mark.xdist_group("markov-run")
def test_run_again_and_in_processes_equal_byte_for_byte(inline_run: Path, tmp_path: Path):
    before = digests(inline_run)
    carry_out(inline_run, "inline")
    assert digests(inline_run) == before
    carry_out(tmp_path / "processes", "processes")
    assert digests(tmp_path / "processes") == before


@pytest.mark.xdist_group("markov-run")
def test_saved_cores_know_where_they_come_from(inline_run: Path):
    core = load_core(core_path(inline_run, "twelve", 1, True, "blocks.0.resid_mid", "adjoint"))
    assert core.rank == 3
    assert core.provenance.site == "blocks.0.resid_mid"
    assert core.provenance.projection == "adjoint"
    assert core.provenance.num_samples == 64 * 6
    twin = load_core(core_path(inline_run, "twelve", 1, False, "blocks.0.resid_mid", "adjoint"))
    assert twin.provenance.model != core.provenance.model
