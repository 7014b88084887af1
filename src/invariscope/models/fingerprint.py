"""A short name for a model's weights, so that a core knows which model it came from."""

from __future__ import annotations

import hashlib

import torch
from torch import nn

__all__ = ["fingerprint"]


def fingerprint(model: nn.Module) -> str:
    """The first 16 hexadecimal digits of the SHA-256 over names, types, shapes and bytes of all parameters and buffers.

    >>> a, b = nn.Linear(2, 2), nn.Linear(2, 2)
    >>> fingerprint(a) == fingerprint(a), fingerprint(a) == fingerprint(b)
    (True, False)
    """
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name}:{tensor.dtype}:{list(tensor.shape)};".encode())
        # NumPy has no bfloat16: the bytes themselves are what is hashed.
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()[:16]
