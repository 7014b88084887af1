"""Two names, one gives, the other gets."""

import torch

from invariscope.tasks.blocks import IndirectObject


def test_who_does_not_give_gets():
    task = IndirectObject(num_blocks=2, num_rare=6, num_common=2, rare_share=0.5)
    batch = task.sample(400, generator=torch.Generator().manual_seed(0))
    givers = 0
    for tokens, target in zip(batch.inputs["tokens"].tolist(), batch.targets[:, 0].tolist(), strict=True):
        pairs, giver = [tokens[0:2], tokens[2:4]], tokens[4]
        [pair] = [pair for pair in pairs if giver in pair]
        assert {giver, target} == set(pair)
        assert task.text(torch.tensor(tokens)).endswith(" give) (to ?)")
        givers += giver == pair[0]
    assert 150 < givers < 250
    assert task.relation.tolist() == [[0, 1], [2, 3], [1, 0], [3, 2]]
