"""Fingerprint: a change of one bit, a type, a shape or a name changes it; nothing else does."""

from __future__ import annotations

import copy
import hashlib

import pytest
import torch
from torch import nn

from invariscope.models import Transformer, TransformerConfig, fingerprint


def build(seed: int = 0, dtype: torch.dtype = torch.float32) -> Transformer:
    config = TransformerConfig(vocab_size=5, context_length=4, width=8, num_heads=2, mlp_width=8)
    return Transformer(config, generator=torch.Generator().manual_seed(seed)).to(dtype)


def test_equal_weights_have_one_fingerprint_and_others_another() -> None:
    assert fingerprint(build()) == fingerprint(build()) == fingerprint(copy.deepcopy(build()))
    assert fingerprint(build()) != fingerprint(build(1))


def test_it_is_the_beginning_of_a_sha256_over_names_types_shapes_and_bytes_in_the_order_of_the_names() -> None:
    module = nn.Module()
    module.register_buffer("b", torch.arange(4, dtype=torch.int64))
    module.register_buffer("a", torch.tensor([[True, False]]))
    said = b"a:torch.bool:[1, 2];\x01\x00b:torch.int64:[4];" + b"".join(i.to_bytes(8, "little") for i in range(4))
    assert fingerprint(module) == hashlib.sha256(said).hexdigest()[:16]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_one_bit_anywhere_changes_it(dtype: torch.dtype) -> None:
    model = build(dtype=dtype)
    before = fingerprint(model)
    for parameter in model.parameters():
        bits = parameter.data.view(torch.uint8).flatten()
        bits[-1] ^= 1
        assert fingerprint(model) != before
        bits[-1] ^= 1
        assert fingerprint(model) == before


def test_the_type_the_shape_and_the_name_count() -> None:
    def holding(name: str, value: torch.Tensor) -> str:
        module = nn.Module()
        module.register_buffer(name, value)
        return fingerprint(module)

    x = torch.zeros(2, 4, dtype=torch.float32)
    found = [holding("x", x), holding("y", x), holding("x", x.view(torch.int32)), holding("x", x.reshape(4, 2))]
    assert len(set(found)) == 4


def test_memory_layout_the_mode_and_frozen_weights_do_not_count() -> None:
    module = nn.Module()
    module.register_buffer("x", torch.arange(6.0).reshape(2, 3))
    before = fingerprint(module)
    module.x = torch.arange(6.0).reshape(2, 3).T.contiguous().T
    assert not module.x.is_contiguous()
    assert fingerprint(module) == before
    model = build()
    assert fingerprint(model.eval().requires_grad_(False)) == fingerprint(build())


def test_scalars_empty_tensors_and_a_state_that_is_no_tensor_are_no_hindrance() -> None:
    class Odd(nn.Module):
        def __init__(self, extra: str) -> None:
            super().__init__()
            self.extra = extra
            self.register_buffer("scalar", torch.tensor(1.5, dtype=torch.bfloat16))
            self.register_buffer("empty", torch.zeros(0, 3))

        def get_extra_state(self) -> str:
            return self.extra

    assert fingerprint(Odd("a")) == fingerprint(Odd("b"))
    odd = Odd("a")
    odd.scalar += 1
    assert fingerprint(odd) != fingerprint(Odd("a"))
