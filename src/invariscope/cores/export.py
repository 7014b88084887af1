"""A core as a steering vector for any tool: the plain matrices, and recipes that use them without this library.

What is written is a safetensors file of ``read`` [D, k], ``write`` [D, k] and ``mean`` [D] in float32, with its provenance as
metadata, and a text file with recipes for a PyTorch hook, TransformerLens and nnsight. All three carry out

    h + (c - 1) write readᵀ (h - mean)        c = 1 leaves h as it is, 0 removes the core, -1 flips it

>>> import tempfile
>>> axis = torch.tensor([[1.0], [0.0]], dtype=torch.float64)
>>> core = Core(read=axis, write=axis, mean=torch.zeros(2, dtype=torch.float64), singular_values=torch.ones(1))
>>> sorted(path.name for path in export_steering(core, tempfile.mkdtemp(), layer=3).iterdir())
['RECIPES.md', 'steering.safetensors']
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import torch

from invariscope.cores.core import Core
from invariscope.storage.atomic import write_text
from invariscope.storage.tensors import save_tensors

__all__ = ["export_steering"]

STEERING_NAME, RECIPES_NAME = "steering.safetensors", "RECIPES.md"


def export_steering(core: Core, folder: Path | str, *, layer: int, model_name: str = "") -> Path:
    """Write the core's matrices and the recipes into ``folder``; return the folder.

    Args:
        core: of the residual stream after block ``layer``.
        folder: made where it does not exist.
        layer: from 0. model_name: for the text.

    Raises:
        FolderError: where the folder cannot be written.
    """
    folder = Path(folder)
    tensors = {name: getattr(core, name).to(torch.float32) for name in ("read", "write", "mean")}
    provenance = dataclasses.asdict(core.provenance)
    save_tensors(folder / STEERING_NAME, tensors, kind="steering vector", metadata={"provenance": provenance})
    write_text(folder / RECIPES_NAME, recipes(layer, model_name))
    return folder


def recipes(layer: int, model_name: str = "") -> str:
    """The text beside the matrices."""
    title = f"the residual stream after block {layer}{f' of {model_name}' if model_name else ''}"
    return _TEXT.replace("TITLE", title).replace("LAYER", str(layer))


_TEXT = """# A core of TITLE

`steering.safetensors` holds `read` [D, k], `write` [D, k] and `mean` [D]. Every recipe below carries out

    h + (c - 1) write readᵀ (h - mean)

at all tokens it sees: `c = 1` changes nothing, `c = 0` removes the core, `c = -1` flips it, `c = 2` doubles it.

```python
from safetensors.torch import load_file

core = load_file("steering.safetensors")


def steer(h, c=-1.0):
    read, write, mean = (core[name].to(h) for name in ("read", "write", "mean"))
    return h + (c - 1) * ((h - mean) @ read) @ write.T
```

## A PyTorch hook (Hugging Face)

```python
block = model.model.layers[LAYER]        # GPT-2: model.transformer.h[LAYER]; GPT-NeoX: model.gpt_neox.layers[LAYER]
handle = block.register_forward_hook(lambda module, args, out: steer(out))
try:
    tokens = model.generate(**inputs, max_new_tokens=20)
finally:
    handle.remove()
```

## TransformerLens

The core was taken from the model as Hugging Face runs it. Load it without folding or centring, or the stream is another one:
`model = TransformerBridge.boot_transformers("folder or hub id")` and no compatibility mode; before version 4,
`HookedTransformer.from_pretrained_no_processing(...)`.

```python
logits = model.run_with_hooks(tokens, fwd_hooks=[("blocks.LAYER.hook_resid_post", lambda h, hook: steer(h))])
```

## nnsight

With `model = TransformersModel("folder or hub id", task="text-generation", tokenizer=tokenizer)`, in a file or a notebook:

```python
with model.trace(prompt):
    out = model.model.layers[LAYER].output
    model.model.layers[LAYER].output = steer(out)
    logits = model.lm_head.output.save()
```
"""
