"""The core of a model of your own: a plain PyTorch module, named by its submodules; nothing of ours in it.

A small recurrent network learns to say whether a sequence of signs has a positive sum. Which directions of its 32-dimensional
state, after the last sign, carry the answer, and what happens when they are flipped?
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

import invariscope as iv


class SignOfSum(nn.Module):
    """A GRU that reads signs (0 or 1) and answers 1 where more of them are 1."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(2, 8)
        self.encoder = nn.GRU(8, 32, batch_first=True)
        self.head = nn.Linear(32, 2)

    def forward(self, signs: Tensor) -> Tensor:
        """Logits [B, T, 2] after every sign."""
        return self.head(self.encoder(self.embed(signs))[0])


def batch(num: int, seed: int) -> iv.Batch:
    """Sequences of eleven signs, the answer after the last, and its class as a label."""
    signs = torch.randint(0, 2, (num, 11), generator=torch.Generator().manual_seed(seed))
    answer = (signs.sum(1) > 5).long()
    return iv.Batch(inputs={"signs": signs}, targets=answer[:, None], labels=answer)


def main() -> None:
    """Train, extract, test."""
    torch.manual_seed(0)
    model = SignOfSum()
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for step in range(200):
        data = batch(256, seed=step)
        loss = nn.functional.cross_entropy(model(**data.inputs)[:, -1], data.targets[:, 0])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

    extraction, held_out = [batch(1024, seed=10_001)], [batch(1024, seed=10_002)]
    margin = iv.margin(positive=[1], negative=[0])
    site = "module:encoder"  # the GRU's output: a tuple whose first entry is [B, T, 32]
    moments = iv.collect_moments(model, extraction, sites=[site], objective=margin, positions="last")[site]
    core = moments.core(rank=1)
    controls = moments.controls(1, generator=torch.Generator().manual_seed(0))
    metrics = (iv.accuracy(), iv.auc(margin))
    print(iv.validate_core(core, model, held_out, metrics=metrics, controls=controls).table())

    with iv.edit_site(model, site, core.flip, positions="last") as report:
        flipped = model(**held_out[0].inputs)[:, -1].argmax(-1)
    print(f"flipped: {(flipped == held_out[0].targets[:, 0]).double().mean():.3f} right, {report.num_positions} tokens edited")


if __name__ == "__main__":
    main()
