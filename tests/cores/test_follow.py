"""A core over checkpoints: numbers against direct measurement, the file, and what is refused."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from invariscope.cores import CoreSeries, collect_moments, core_coordinates, identify_operator, projector_overlap, rank_curve
from invariscope.cores.follow import follow_core
from invariscope.errors import CheckpointError, ConfigError, ForeignFileError, RankError, UnknownNameError
from invariscope.models import TransformerConfig
from invariscope.tasks import MarkovChain, SampledBatches, derive_seed
from invariscope.training import Run, TrainConfig, find_checkpoints, initial_model, load_model, train

SITE = "blocks.0.resid_mid"


@pytest.fixture(scope="module")
def chain() -> MarkovChain:
    return MarkovChain.named("four_real", 8)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, chain: MarkovChain) -> Run:
    shape = TransformerConfig(vocab_size=4, context_length=8, width=16, num_heads=2, mlp_width=32)
    config = TrainConfig(steps=250, batch_size=64, learning_rate=1e-2, eval_every=0, checkpoint_every=125)
    folder = tmp_path_factory.mktemp("followed")
    (found,) = train(chain, shape, config, seeds=[0], folder=folder, engine="inline", progress=False)
    return found


@pytest.fixture(scope="module")
def series(run: Run, chain: MarkovChain) -> CoreSeries:
    return follow_core(run, chain, site=SITE, num_sequences=256, operator_sequences=1024, num_bootstrap=20, progress=False)


def drawn(chain: MarkovChain, num: int, purpose: str, pool: str) -> SampledBatches:
    return chain.batches(num, batch_size=256, seed=derive_seed(0, "follow", purpose), pool=pool)


def test_a_trained_chain_ends_with_its_rank_and_its_spectrum(series: CoreSeries) -> None:
    first, last = series.checkpoints
    assert (first.step, last.step) == (125, 250)
    # A net of width 16 after 250 steps still holds some of it in a fourth direction.
    assert (series.rank, last.sufficient) == (3, 3)
    assert last.necessary in (3, 4)
    assert (series.dim, series.coordinates, series.map_name) == (16, "core", "time shift")
    assert sorted(round(real, 3) for real, _ in series.expected) == [-0.472, 0.498, 0.674]
    assert last.spectrum_error is not None
    assert last.spectrum_error.value < 0.1
    assert last.spectrum_error.low is not None
    assert last.keep_loss is not None
    assert last.keep_loss < 0.02
    assert last.cross_entropy < first.cross_entropy < series.chance


def test_the_last_core_overlaps_itself_and_the_others_are_shown_beside_chance(series: CoreSeries) -> None:
    first, last = series.checkpoints
    assert last.overlap.value == pytest.approx(1.0)
    assert last.overlap.null_mean == pytest.approx(3 / 16)
    assert first.overlap.null_high < first.overlap.value < 1


def test_each_number_is_that_of_a_direct_measurement(series: CoreSeries, run: Run, chain: MarkovChain) -> None:
    assert run.folder is not None
    extraction, heldout = drawn(chain, 256, "extraction", "train"), drawn(chain, 256, "heldout", "heldout")
    models = [load_model(path) for _, path in find_checkpoints(run)]
    moments = [collect_moments(model, extraction, sites=[SITE], positions="all")[SITE] for model in models]
    cores = [found.core(3, "adjoint") for found in moments]
    curve = rank_curve(moments[0], models[0], heldout, projection="adjoint", positions="all")
    transitions = drawn(chain, 1024, "transitions", "heldout")
    operator = identify_operator(cores[0], models[0], chain, transitions, num_bootstrap=0, num_shuffles=0).best.operator
    first = series.checkpoints[0]
    assert first.cross_entropy == pytest.approx(curve.full)
    assert first.keep_loss == pytest.approx(curve.keep_loss()[2])
    assert first.sufficient == curve.sufficient(0.02)
    assert first.overlap.value == pytest.approx(projector_overlap(*cores).value)
    assert [complex(*pair) for pair in first.eigenvalues] == pytest.approx(operator.eigenvalues.tolist())


def test_a_run_its_folder_and_a_folder_of_its_checkpoints_are_one(
    series: CoreSeries, run: Run, chain: MarkovChain, tmp_path: Path
) -> None:
    assert run.folder is not None
    shutil.copytree(run.folder / "checkpoints", tmp_path / "elsewhere")
    options = {"site": SITE, "num_sequences": 256, "operator_sequences": 1024, "num_bootstrap": 20, "progress": False}
    assert follow_core(str(tmp_path / "elsewhere"), chain, **options) == series
    assert [path.name for _, path in find_checkpoints(run.folder)] == [path.name for _, path in find_checkpoints(run)]


def test_a_given_rank_and_another_projection_are_kept(run: Run, chain: MarkovChain) -> None:
    found = follow_core(
        run,
        chain,
        site=SITE,
        rank=2,
        projection="oblique",
        num_sequences=128,
        operator_sequences=128,
        num_bootstrap=0,
        progress=False,
    )
    assert (found.rank, found.rank_rule, found.projection, found.coordinates) == (2, "given", "oblique", "law")
    assert all(len(at.eigenvalues) == 2 for at in found.checkpoints)
    assert found.checkpoints[-1].keep_loss is not None
    assert found.checkpoints[-1].keep_loss > 0.02
    assert found.checkpoints[-1].sufficient == 3


def test_a_task_without_maps_has_no_spectrum(run: Run, chain: MarkovChain) -> None:
    plain = MarkovChain.named("four_real", 8)
    plain.candidate_maps = ()
    found = follow_core(run, plain, site=SITE, rank=3, num_sequences=64, progress=False)
    assert {(at.eigenvalues, at.spectrum_error) for at in found.checkpoints} == {((), None)}
    assert (found.map_name, found.expected) == ("", ())
    assert found.cells()[0][-1] == "-"


def test_the_table_has_a_line_a_checkpoint(series: CoreSeries) -> None:
    lines = series.table().splitlines()
    assert lines[0].startswith(f"four_real at {SITE}, positions all: adjoint cores of rank 3 of 16 (keep loses at most 0.02")
    assert lines[1].split()[:4] == ["step", "nats", "suffices", "necessary"]
    assert [line.split()[0] for line in lines[2:]] == ["125", "250"]
    assert lines[-1].split()[2:4] == ["3", str(series.checkpoints[-1].necessary)]


def test_a_run_in_memory_has_no_checkpoints(chain: MarkovChain, run: Run) -> None:
    lost = Run(seed=3, model=run.model, metrics=(), folder=None)
    with pytest.raises(ConfigError, match="seed 3, which was trained in memory; expected a run whose checkpoints are on disk"):
        follow_core(lost, chain, site=SITE)


def test_a_folder_without_checkpoints_is_refused(chain: MarkovChain, tmp_path: Path) -> None:
    with pytest.raises(
        CheckpointError, match=r"holds no checkpoints; expected the folder of one seed, or .*; give such a folder"
    ):
        follow_core(tmp_path, chain, site=SITE)
    with pytest.raises(CheckpointError, match="which is no folder"):
        follow_core(tmp_path / "nowhere", chain, site=SITE)


def test_a_foreign_file_among_the_checkpoints_is_named(chain: MarkovChain, run: Run, tmp_path: Path) -> None:
    assert run.folder is not None
    folder = tmp_path / "some"
    shutil.copytree(run.folder / "checkpoints", folder)
    (folder / "step-00000200.safetensors").write_bytes(b"nothing of ours")
    with pytest.raises(ForeignFileError, match=r"step-00000200\.safetensors"):
        follow_core(folder, chain, site=SITE, rank=3, num_sequences=32, operator_sequences=64, num_bootstrap=0, progress=False)
    (folder / "model.safetensors").touch()
    with pytest.raises(ForeignFileError, match=r"model\.safetensors, whose name says no step; expected step-00001200"):
        follow_core(folder, chain, site=SITE)


@pytest.mark.parametrize("task", [MarkovChain.named("spread_12", 8), MarkovChain.named("four_real", 9)])
def test_a_task_that_does_not_fit_is_refused_with_the_file(task: MarkovChain, run: Run) -> None:
    with pytest.raises(
        ConfigError, match=r"step-00000250\.safetensors, a model of 4 tokens, 4 outputs and context 8, for the task"
    ):
        follow_core(run, task, site=SITE)


def test_unknown_names_and_impossible_ranks_are_refused(chain: MarkovChain, run: Run) -> None:
    with pytest.raises(UnknownNameError, match=r"unknown projection 'adjont'.*adjoint"):
        follow_core(run, chain, site=SITE, projection="adjont")
    with pytest.raises(UnknownNameError, match=r"blocks\.0\.resid_md"):
        follow_core(run, chain, site="blocks.0.resid_md", num_sequences=32)
    with pytest.raises(UnknownNameError, match=r"unknown coordinates 'laws'.*law"):
        follow_core(run, chain, site=SITE, coordinates="laws")  # pyright: ignore[reportArgumentType]  # what a user may type
    with pytest.raises(RankError, match="17"):
        follow_core(run, chain, site=SITE, rank=17, num_sequences=32)


def test_following_moves_no_global_random_state(chain: MarkovChain, run: Run) -> None:
    before = torch.get_rng_state()
    follow_core(run, chain, site=SITE, rank=3, num_sequences=32, operator_sequences=64, num_bootstrap=0, progress=False)
    assert torch.equal(torch.get_rng_state(), before)


def test_means_are_those_of_each_token_turned_but_not_stretched(series: CoreSeries, run: Run, chain: MarkovChain) -> None:
    extraction = drawn(chain, 256, "extraction", "train")
    tokens = torch.cat([batch.inputs["tokens"] for batch in extraction]).flatten()
    assert series.tokens == (0, 1, 2, 3)
    measured = []
    for _, path in find_checkpoints(run):
        model = load_model(path)
        core = collect_moments(model, extraction, sites=[SITE], positions="all")[SITE].core(3, "adjoint")
        z, _ = core_coordinates(core, model, extraction)
        measured.append(torch.stack([z[tokens == token].mean(0) for token in range(4)]))
    first, last = (torch.tensor(found.means, dtype=torch.float64) for found in series.checkpoints)
    torch.testing.assert_close(last, measured[1])
    # Turning keeps every product of two means, and cannot have made the way to the last core longer.
    torch.testing.assert_close(first @ first.T, measured[0] @ measured[0].T)
    assert (first - last).norm() < (measured[0] - last).norm() + 1e-9


def test_the_series_may_begin_before_the_first_step(run: Run, chain: MarkovChain) -> None:
    assert run.folder is not None
    options = {"site": SITE, "rank": 3, "num_sequences": 64, "operator_sequences": 64, "num_bootstrap": 0, "progress": False}
    series = follow_core(run, chain, initial=initial_model(run.model.config, 0), **options)
    assert [found.step for found in series.checkpoints] == [0, 125, 250]
    # Untrained, it does not know the chain: no causal rank, and a core unlike the last one.
    assert (series.checkpoints[0].sufficient, series.checkpoints[0].keep_loss) == (None, None)
    assert series.checkpoints[0].overlap.value < series.checkpoints[1].overlap.value
    assert series.checkpoints[1:] == follow_core(run, chain, **options).checkpoints
    foreign = initial_model(TransformerConfig(vocab_size=5, context_length=8, width=16, num_heads=2, mlp_width=32), 0)
    with pytest.raises(ConfigError, match="the initial model, a model of 5 tokens, 5 outputs and context 8, for the task"):
        follow_core(run, chain, initial=foreign, **options)


def test_some_steps_may_be_chosen_and_the_last_one_always_is(series: CoreSeries, run: Run, chain: MarkovChain) -> None:
    options = {"site": SITE, "num_sequences": 256, "operator_sequences": 1024, "num_bootstrap": 20, "progress": False}
    assert follow_core(run, chain, steps=(), **options).checkpoints == series.checkpoints[1:]
    assert follow_core(run, chain, steps=[250, 125], **options) == series
    with pytest.raises(CheckpointError, match="no checkpoint of step 7, 9; expected some of 125, 250; name steps that"):
        follow_core(run, chain, steps=(9, 125, 7), **options)
