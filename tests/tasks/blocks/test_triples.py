"""Longer blocks: every token before the last is needed."""

import pytest
import torch

from invariscope.errors import ConfigError
from invariscope.tasks.blocks import ConditionalRetrieval, Ngram


@pytest.mark.parametrize("task", [Ngram(order=3, num_blocks=3, num_rare=12), ConditionalRetrieval(num_blocks=3, num_rare=3)])
def test_distractors_share_a_token_so_that_one_alone_does_not_tell(task):
    batch = task.sample(100, generator=torch.Generator().manual_seed(0))
    for tokens, target in zip(batch.inputs["tokens"].view(100, -1).tolist(), batch.targets[:, 0].tolist(), strict=True):
        blocks, asked = [tuple(tokens[at : at + 3]) for at in (0, 3, 6)], tokens[9:]
        assert [block[2] for block in blocks if list(block[:2]) == asked] == [target]
        assert [sum(block[side] == asked[side] for block in blocks) for side in (0, 1)] == [2, 2]


def test_what_is_not_shared_is_not():
    task = Ngram(order=2, num_blocks=3, num_rare=12, shared=False)
    tokens = task.sample(50, generator=torch.Generator().manual_seed(0)).inputs["tokens"]
    assert all(len(set(row[:-1])) == 6 for row in tokens.tolist())
    with pytest.raises(ConfigError, match="order = 1"):
        Ngram(order=1)


def test_classes_have_tokens_of_their_own():
    task = ConditionalRetrieval(num_blocks=2, num_rare=3)
    tokens = task.sample(50, generator=torch.Generator().manual_seed(0)).inputs["tokens"]
    assert torch.equal(tokens[:, :6] // 3, torch.tensor([0, 1, 2, 0, 1, 2]).expand(50, -1))
