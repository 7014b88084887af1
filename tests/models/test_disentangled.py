"""The disentangled transformer: paths, what a hand-made induction head answers, orientation, masks, choices and errors."""

import itertools

import pytest
import torch

from invariscope.errors import ConfigError, ShapeError, UnknownNameError
from invariscope.models.disentangled import Disentangled, DisentangledConfig
from invariscope.tasks.blocks import AssociativeRecall

TASK = AssociativeRecall(num_blocks=3, num_rare=8, num_slots=4)


def build(seed=0, std=0.5, **changes):
    config = DisentangledConfig(vocab_size=TASK.vocab_size, num_labels=TASK.num_labels, **changes)
    return Disentangled(config, generator=torch.Generator().manual_seed(seed), initial_std=std).double()


def batch(num=20):
    return TASK.sample(num, generator=torch.Generator().manual_seed(1))


def test_paths_are_named_in_the_order_of_the_stream():
    assert DisentangledConfig(vocab_size=3, num_labels=2, num_layers=3).paths(3) == (
        *("x", "a1", "a2", "a2a1"),
        *("a3", "a3a1", "a3a2", "a3a2a1"),
    )
    two = DisentangledConfig(vocab_size=3, num_labels=2, num_heads=2)
    assert two.paths(1) == ("x", "a1.0", "a1.1")
    assert len(two.paths(2)) == 9
    assert two.width(2) == 45
    assert DisentangledConfig(vocab_size=3, num_labels=2, stream="additive").paths(2) == ("x",)


@pytest.mark.parametrize("causal", [True, False])
def test_an_induction_head_made_by_hand_recalls(causal):
    model = build(readout="direct", causal=causal)
    V, D = TASK.vocab_size, TASK.vocab_size + TASK.num_labels
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        # Layer 1: a label (second of a slot) attends to the item (first of the same slot); rows are queries.
        for slot in range(4):
            model.key_query[0][0, V + 2 * slot + 1, V + 2 * slot] = 50.0
        # Layer 2: the token asked for attends to what has it in a1.
        model.key_query[1][0, :V, D : D + V] = 50 * torch.eye(V)
        # The first token of a sequence sees itself alone: what matches by being itself does not count.
        model.key_query[1][0, :V, :V] = -30 * torch.eye(V)
        found = batch(200)
        answers = model(**found.inputs).argmax(-1)
        assert torch.equal(answers, found.targets[:, 0])
        # The other way round items would read labels, which a mask forbids: then even attention does, but not without one.
        model.key_query[0].copy_(model.key_query[0].mT.clone())
        assert causal or not torch.equal(model(**found.inputs).argmax(-1), found.targets[:, 0])


def test_the_last_query_alone_is_what_the_whole_layer_says():
    model = build(num_layers=3, num_heads=2, score_norm=True, feed_forward="plain")
    x = model.embed(**batch().inputs)
    for layer in range(3):
        whole, last = (model._layer(x, layer, last_only=one) for one in (False, True))
        if layer == 2:
            torch.testing.assert_close(whole[:, -1:], last)
        x = whole
    torch.testing.assert_close(model(**batch().inputs), x[:, -1] @ model.readout.T)


def test_a_causal_model_does_not_see_what_comes_later():
    found = batch(4)
    changed = {name: value.clone() for name, value in found.inputs.items()}
    changed["tokens"][:, -2] = (changed["tokens"][:, -2] + 1) % TASK.vocab_size
    for causal in (True, False):
        model = build(causal=causal)
        first, second = (model._layer(model.embed(**inputs), 0, last_only=False)[:, :4] for inputs in (found.inputs, changed))
        assert torch.equal(first, second) == causal


@pytest.mark.parametrize(
    "changes", [{}, {"num_heads": 2}, {"score_norm": True}, {"feed_forward": "plain"}, {"centred": True}, {"readout": "direct"}]
)
def test_renaming_tokens_and_weights_together_changes_nothing(changes):
    model, renamed = build(**changes), build(**changes)
    V, D = TASK.vocab_size, TASK.vocab_size + TASK.num_labels
    token = torch.randperm(V, generator=torch.Generator().manual_seed(3))
    inverse = token.argsort()
    one = torch.cat([inverse, torch.arange(V, D)])
    with torch.no_grad():
        for source, target in zip(
            itertools.chain(model.key_query, model.feed_forward),
            itertools.chain(renamed.key_query, renamed.feed_forward),
            strict=True,
        ):
            index = torch.cat([one + D * block for block in range(source.shape[-1] // D)])
            target.copy_(source[..., index, :][..., index])
        if model.readout is not None:
            index = torch.cat([one + D * block for block in range(model.readout.shape[1] // D)])
            renamed.readout.copy_(model.readout[inverse][:, index])
    found = batch()
    logits = renamed(tokens=token[found.inputs["tokens"]], positions=found.inputs["positions"])
    torch.testing.assert_close(logits[:, token], model(**found.inputs))


def test_what_is_no_shape_or_choice_is_refused():
    with pytest.raises(ConfigError, match="num_heads = 0"):
        build(num_heads=0)
    with pytest.raises(UnknownNameError, match="nearest: rotated"):
        build(feed_forward="rotate")
    with pytest.raises(UnknownNameError, match=r"unknown path 'a3'.*"):
        build(readout="direct", readout_paths=("a3",))
    with pytest.raises(ShapeError, match=r"positions of shape \[2, 3\] beside tokens of \[2, 4\]; expected \[B, T\] of numbers"):
        build()(tokens=torch.zeros(2, 4, dtype=torch.long), positions=torch.zeros(2, 3, dtype=torch.long))
    with pytest.raises(ShapeError, match="from 0 to 7"):
        build()(tokens=torch.full((1, 2), 8), positions=torch.zeros(1, 2, dtype=torch.long))


def test_labels_that_are_not_said_are_the_places():
    model = Disentangled(DisentangledConfig(vocab_size=5, num_labels=6), generator=torch.Generator().manual_seed(0))
    tokens = torch.tensor([[0, 3, 1, 4], [2, 2, 0, 1]])
    assert torch.equal(model(tokens), model(tokens, torch.arange(4).expand(2, 4)))
