"""Models built by hand, whose cores are known, and rows for metrics."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from invariscope.batch import Batch
from invariscope.cores import Core, Provenance
from invariscope.positions import Rows
from invariscope.tasks import MarkovChain


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def orthogonal(dim: int, seed: int = 0) -> Float[Tensor, "D D"]:
    return torch.linalg.qr(torch.randn(dim, dim, dtype=torch.float64, generator=generator(seed)))[0]


def random_core(dim: int, rank: int, seed: int = 0, **provenance: Any) -> Core:
    """An oblique core: read is not write, readᵀ write = I."""
    source = generator(seed)
    write, other = (torch.randn(dim, rank, dtype=torch.float64, generator=source) for _ in range(2))
    read = other @ torch.linalg.inv(write.T @ other)
    mean = torch.randn(dim, dtype=torch.float64, generator=source)
    return Core(read=read, write=write, mean=mean, singular_values=torch.ones(rank), provenance=Provenance(**provenance))


class TwoDirections(nn.Module):
    """Four tokens at the corners of a rectangle in a plane of R^D; the four logits read that plane and nothing else.

    The rest of R^D holds what tells the tokens and positions apart too, but is not read. At the centre all logits are equal, so
    the prediction there is the best constant one.
    """

    def __init__(self, dim: int = 10, seed: int = 0) -> None:
        super().__init__()
        basis = orthogonal(dim, seed)
        self.plane, rest = basis[:, :2], basis[:, 2:]
        corners = torch.tensor([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]], dtype=torch.float64)
        noise = torch.randn(6, dim - 2, dtype=torch.float64, generator=generator(seed + 1))
        self.tokens = nn.Parameter(corners @ self.plane.T + noise[:4] @ rest.T)
        self.positions = nn.Parameter(noise[4:] @ rest.T)
        self.site = nn.Identity()
        self.readout = nn.Parameter(self.plane @ torch.diag(torch.tensor([2.0, 1.2], dtype=torch.float64)) @ corners.T)

    def forward(self, tokens: Int[Tensor, "B T"]) -> Float[Tensor, "B T 4"]:
        return self.site(self.tokens[tokens] + self.positions[: tokens.shape[1]]) @ self.readout

    def batches(self) -> list[Batch]:
        """All sequences of two tokens, each with the model's own law: nobody predicts it better."""
        tokens = torch.cartesian_prod(torch.arange(4), torch.arange(4))
        with torch.no_grad():
            law = self(tokens).softmax(-1)
        weights = torch.full((16,), 1 / 16, dtype=torch.float64)
        whole = Batch(inputs={"tokens": tokens}, probabilities=law, targets=law.argmax(-1), weights=weights)
        return [whole.take(torch.arange(0, 10)), whole.take(torch.arange(10, 16))]


class ExactChain(nn.Module):
    """The optimal predictor of a Markov chain: its logits are log T of the last token, read from a code of it in R^D."""

    def __init__(self, chain: MarkovChain, dim: int = 16, seed: int = 0) -> None:
        super().__init__()
        code = torch.randn(chain.num_states, dim, dtype=torch.float64, generator=generator(seed))
        logits = chain.transition.log()
        self.code = nn.Parameter(code)
        self.site = nn.Identity()
        self.readout = nn.Parameter(torch.linalg.pinv(code) @ (logits - logits.mean(1, keepdim=True)))

    def forward(self, tokens: Int[Tensor, "B T"]) -> Float[Tensor, "B T V"]:
        return self.site(self.code[tokens]) @ self.readout

    def rotated(self, seed: int) -> ExactChain:
        """The same function in another basis."""
        turn = orthogonal(self.code.shape[1], seed)
        other = ExactChain.__new__(ExactChain)
        nn.Module.__init__(other)
        other.code, other.site = nn.Parameter(self.code.detach() @ turn), nn.Identity()
        other.readout = nn.Parameter(turn.T @ self.readout.detach())
        return other


class Through(nn.Module):
    """Activations that are given, at a site of their own, and a linear readout."""

    def __init__(self, readout: Float[Tensor, "D V"]) -> None:
        super().__init__()
        self.site, self.readout = nn.Identity(), nn.Parameter(readout)

    def forward(self, states: Float[Tensor, "B T D"]) -> Float[Tensor, "B T V"]:
        return self.site(states) @ self.readout


def rows(num: int, **known: Tensor) -> Rows:
    """Rows that are sequences of one token each."""
    index = torch.arange(num)
    return Rows(**{"b": index, "t": torch.zeros(num, dtype=torch.long), "groups": index} | known)
