"""Chains: their links are shuffled, and the end follows from the head."""

import pytest
import torch

from invariscope.errors import ConfigError
from invariscope.tasks.blocks import KHop


def test_following_the_links_leads_to_the_answer():
    task = KHop(num_hops=3, num_blocks=6, num_rare=10, num_common=2, rare_share=0.6)
    batch = task.sample(100, generator=torch.Generator().manual_seed(0))
    for tokens, target in zip(batch.inputs["tokens"].tolist(), batch.targets[:, 0].tolist(), strict=True):
        links = dict(zip(tokens[:-1:2], tokens[1::2], strict=True))
        assert len(links) == 6
        assert links[links[links[tokens[-1]]]] == target


def test_a_common_chain_leads_from_its_head_to_its_end():
    assert KHop(num_hops=3, num_blocks=3, num_common=2, rare_share=0.5).relation.tolist() == [[0, 3], [4, 7]]
    with pytest.raises(ConfigError, match="num_hops = 0"):
        KHop(num_hops=0)
