"""A short name for a model's weights, so that a core knows which model it came from.

Two models with one fingerprint compute the same function as far as their class does; a change of a single bit anywhere, of a
type or of a parameter's name changes it. The device and the order of the parameters do not matter.
"""

from __future__ import annotations

import hashlib

import torch
from torch import nn

__all__ = ["fingerprint"]


def fingerprint(model: nn.Module) -> str:
    """The first 16 hexadecimal digits of the SHA-256 over names, types, shapes and bytes of the state dict's tensors.

    A view of a model (:class:`invariscope.models.Downstream`) has the model's own.

    >>> a, b = (nn.Embedding.from_pretrained(torch.tensor([[x]])) for x in (1.0, 2.0))
    >>> fingerprint(a) == fingerprint(a), fingerprint(a) == fingerprint(b)
    (True, False)
    """
    model = getattr(model, "viewed", model)
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        # get_extra_state() may put anything into a state dict.
        if not isinstance(tensor, torch.Tensor):
            continue
        digest.update(f"{name}:{tensor.dtype}:{list(tensor.shape)};".encode())
        # NumPy has no bfloat16: the bytes themselves are what is hashed.
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()[:16]
