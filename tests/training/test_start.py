"""A training that begins with another model's weights and keeps some of them; pools that are scored on the way; folded steps."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from invariscope.errors import ConfigError, FolderError, UnknownNameError
from invariscope.models import Transformer, TransformerConfig, part_names, weight_part
from invariscope.tasks import AssignAdd
from invariscope.training import Start, TrainConfig, train
from invariscope.training.checkpoints import checkpoint_path, save_weights
from invariscope.training.train import train_in_folder
from training.toy_tasks import run_bytes

TASK = AssignAdd(modulus=5, num_variables=3, min_assignments=2, max_assignments=2, num_pads=1)
SHAPE = TransformerConfig(
    vocab_size=TASK.vocab_size,
    num_outputs=5,
    context_length=TASK.sequence_length,
    num_layers=2,
    width=16,
    num_heads=1,
    mlp_width=(0, 24),
    activation="relu",
)
CONFIG = TrainConfig(
    steps=12, batch_size=8, warmup_steps=2, eval_every=6, eval_sequences=16, checkpoint_every=5, batches_at_once=4
)


def teacher(folder: Path, shape: TransformerConfig = SHAPE) -> tuple[str, Transformer]:
    model = Transformer(shape, generator=torch.Generator().manual_seed(99))
    path = checkpoint_path(folder, 7)
    save_weights(path, model, step=7)
    return str(path), model


def differing(model: Transformer, other: Transformer) -> list[str]:
    return [
        name
        for name in part_names(model.config)
        if not all(torch.equal(a, b) for a, b in zip(weight_part(model, name), weight_part(other, name), strict=True))
    ]


def go(folder: Path | None, start: Start | None = None, config: TrainConfig = CONFIG):
    return train(TASK, SHAPE, config, seeds=[0], folder=folder, start=start, progress=False)[0]


def test_what_is_frozen_stays_bit_for_bit_and_the_rest_moves(tmp_path: Path):
    path, model = teacher(tmp_path)
    frozen = ("blocks.1.value_output", "blocks.1.mlp", "unembedding")
    trained = go(tmp_path / "run", Start(checkpoint=path, frozen=frozen)).model
    assert differing(trained, model) == ["embeddings", "blocks.0.query_key", "blocks.0.value_output", "blocks.1.query_key"]


def test_what_is_not_taken_begins_fresh(tmp_path: Path):
    path, model = teacher(tmp_path)
    still = TrainConfig(steps=1, batch_size=4, learning_rate=0.0, weight_decay=0.0, eval_sequences=4)
    taken = ("blocks.0.query_key", "blocks.0.value_output", "blocks.1.query_key")
    fresh, begun = go(None, config=still).model, go(None, Start(checkpoint=path, taken=taken), still).model
    assert differing(begun, fresh) == list(taken)
    assert differing(begun, model) == [name for name in part_names(SHAPE) if name not in taken]


def test_a_start_belongs_to_the_run_s_identity_by_its_weights(tmp_path: Path):
    path, _ = teacher(tmp_path)
    start = Start(checkpoint=path, frozen=("unembedding",))
    whole = go(tmp_path / "run", start)
    moved = tmp_path / "elsewhere.safetensors"
    moved.write_bytes(Path(path).read_bytes())
    again = go(tmp_path / "run", Start(checkpoint=str(moved), frozen=("unembedding",)))
    assert differing(whole.model, again.model) == []
    with pytest.raises(FolderError, match=r"start.frozen is \['unembedding'\] there and \[\] here"):
        go(tmp_path / "run", Start(checkpoint=path))


def test_an_interrupted_training_goes_on_with_what_is_frozen(tmp_path: Path):
    path, model = teacher(tmp_path)
    start = Start(checkpoint=path, frozen=("blocks.1.mlp",))

    def carry_on(folder: Path, until: int | None = None) -> Transformer:
        def stop(done: int) -> None:
            if done == until:
                raise KeyboardInterrupt

        return train_in_folder(TASK, SHAPE, CONFIG, seed=0, folder=folder, start=start, on_step=stop)

    whole = carry_on(tmp_path / "whole")
    for until in (3, 8, 11):
        with pytest.raises(KeyboardInterrupt):
            carry_on(tmp_path / "partial", until)
    carry_on(tmp_path / "partial")
    assert run_bytes(tmp_path / "partial") == run_bytes(tmp_path / "whole")
    assert differing(whole, model) == [name for name in part_names(SHAPE) if name != "blocks.1.mlp"]


def test_starts_that_do_not_fit_are_refused(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"frozen parts \['unembedding'\] that are not taken from the checkpoint"):
        Start(checkpoint="x", taken=("embeddings",), frozen=("unembedding",))
    path, _ = teacher(tmp_path)
    with pytest.raises(UnknownNameError, match=r"'blocks.0.mlp'.*nearest: blocks.1.mlp"):
        go(None, Start(checkpoint=path, frozen=("blocks.0.mlp",)))
    other, _ = teacher(tmp_path / "other", TransformerConfig(vocab_size=4, context_length=4))
    with pytest.raises(ConfigError, match=r"a model of another configuration; expected .*; train with the configuration"):
        go(None, Start(checkpoint=other))


def test_pools_are_scored_at_every_evaluation_and_unknown_ones_refused():
    config = TrainConfig(steps=4, batch_size=8, eval_every=2, eval_sequences=32, eval_pools=("0var-held", "2var-seen"))
    events = go(None, config=config).metrics
    assert [sorted(event["pools"]) for event in events] == [["0var-held", "2var-seen"]] * 2
    scores = events[-1]["pools"]["2var-seen"]
    assert 0 <= scores["accuracy"] <= 1
    assert 0 < scores["cross_entropy"] < 5
    with pytest.raises(UnknownNameError, match=r"'0var-hel'.*nearest: 0var-held"):
        go(None, config=TrainConfig(steps=1, eval_pools=("0var-hel",)))


def test_every_forward_trains_the_same_model():
    losses = {
        forward: [
            event["train_loss"]
            for event in go(None, config=TrainConfig(steps=20, batch_size=16, eval_every=5, forward=forward)).metrics
        ]
        for forward in ("plain", "last", "folded")
    }
    assert losses["plain"] == pytest.approx(losses["last"], abs=1e-5)
    assert losses["plain"] == pytest.approx(losses["folded"], abs=1e-5)
