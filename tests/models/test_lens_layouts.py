"""The axes of both layouts, tensor by tensor."""

from __future__ import annotations

import torch

from invariscope.models.lens_layouts import as_hooked, as_native, listed
from models.lens_reference import random_hooked


def test_a_linear_map_of_a_head_is_that_heads_matrix():
    hooked = random_hooked(heads=3, head_width=5, biases=True, norm=True)
    native = as_native(hooked)
    x = torch.randn(4, 8, generator=torch.Generator().manual_seed(1))
    for name in "QKV":
        together = x @ native[f"blocks.1.attn.{name.lower()}.weight"].T + native[f"blocks.1.attn.{name.lower()}.bias"]
        for head in range(3):
            alone = x @ hooked[f"blocks.1.attn.W_{name}"][head] + hooked[f"blocks.1.attn.b_{name}"][head]
            assert torch.allclose(together[:, 5 * head : 5 * head + 5], alone, atol=1e-6)
    z = torch.randn(4, 3, 5, generator=torch.Generator().manual_seed(2))
    added = sum(z[:, head] @ hooked["blocks.0.attn.W_O"][head] for head in range(3))
    assert torch.allclose(z.flatten(1) @ native["blocks.0.attn.o.weight"].T, added, atol=1e-6)
    for name, other in (("mlp.W_in", "mlp.in.weight"), ("mlp.W_out", "mlp.out.weight")):
        assert torch.equal(native[f"blocks.0.{other}"], hooked[f"blocks.0.{name}"].T)
    assert torch.equal(native["unembed.weight"], hooked["unembed.W_U"].T)
    assert torch.equal(native["ln_final.weight"], hooked["ln_final.w"])


def test_there_and_back_is_the_identity_and_constants_are_left_out():
    hooked = random_hooked(biases=True, norm=True)
    weights = {key: value for key, value in hooked.items() if not key.endswith((".mask", ".IGNORE"))}
    back = as_hooked(as_native(weights), num_heads=2, name="x")
    assert back.keys() == weights.keys() == as_hooked(hooked, num_heads=None, name="x").keys()
    for key, value in weights.items():
        assert torch.equal(back[key], value), key


def test_a_long_list_says_how_many_more_there_are():
    assert listed(["a", "b"]) == "a, b"
    assert listed(list("abcdefghij")) == "a, b, c, d, e, f, g, h and 2 more"
