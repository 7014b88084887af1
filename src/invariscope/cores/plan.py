"""How much memory a sweep over a language model takes, before anything is loaded.

A :class:`MemoryPlan` lists what stands in memory at once: the weights after dequantising, the keys and values of the prompts, one
batch's activations, the predictions, and the factors of activations and Jacobians. It is arithmetic on the model's shape, so it
costs nothing and needs no model; the peak is an upper estimate for the batch's activations, which depend on the attention.

>>> shape = ModelShape(
...     num_layers=30, width=576, vocab_size=49152, key_value_width=192, mlp_width=1536, num_parameters=134_515_008
... )
>>> plan = plan_sweep(shape, num_prompts=704, tokens=12, layers=30, batch_size=64)
>>> plan.entries[0].num_bytes == 4 * 134_515_008, plan.peak_bytes < 2e9
(True, True)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from invariscope.errors import ConfigError

__all__ = ["MemoryPlan", "ModelShape", "PlanEntry", "available_bytes", "plan_sweep", "shape_of"]

BYTES = {"float32": 4, "bfloat16": 2, "float16": 2, "float64": 8}


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShape:
    """What a plan needs to know of a model.

    Args:
        num_layers, width, vocab_size: as usual.
        key_value_width: key heads times their width.
        mlp_width: hidden units of one MLP.
        num_parameters: tied ones once.
    """

    num_layers: int
    width: int
    vocab_size: int
    key_value_width: int
    mlp_width: int
    num_parameters: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanEntry:
    """One class of tensors: what it is, its bytes, and the option that makes it smaller."""

    name: str
    num_bytes: int
    lever: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPlan:
    """What stands in memory at once.

    Args:
        entries: by class of tensors.
        available_bytes: free before the start; None where the system does not say.
    """

    entries: tuple[PlanEntry, ...]
    available_bytes: int | None = None

    @property
    def peak_bytes(self) -> int:
        """All entries together."""
        return sum(entry.num_bytes for entry in self.entries)

    @property
    def fits(self) -> bool:
        """Whether the peak is below what is free."""
        return self.available_bytes is None or self.peak_bytes <= self.available_bytes

    def check(self) -> None:
        """Refuse a plan that does not fit.

        Raises:
            ConfigError: with the largest entry that an option makes smaller, and that option.
        """
        if self.fits:
            return
        assert self.available_bytes is not None
        largest = max(self.entries, key=lambda entry: entry.num_bytes)
        raise ConfigError(
            f"a sweep that takes {format_bytes(self.peak_bytes)}, most of it {largest.name} ({format_bytes(largest.num_bytes)})",
            expected=f"at most the {format_bytes(self.available_bytes)} that are free",
            do=largest.lever,
        )

    def table(self) -> str:
        """The plan as text, one line an entry."""
        lines = [(entry.name, format_bytes(entry.num_bytes), entry.lever) for entry in self.entries]
        free = "unknown" if self.available_bytes is None else format_bytes(self.available_bytes)
        lines += [("together", format_bytes(self.peak_bytes), f"free: {free}")]
        widths = [max(len(line[column]) for line in lines) for column in range(2)]
        return "\n".join(f"{name.ljust(widths[0])}  {size.rjust(widths[1])}  {lever}" for name, size, lever in lines)


def plan_sweep(
    shape: ModelShape,
    *,
    num_prompts: int,
    tokens: int,
    layers: int,
    batch_size: int,
    dtype: str = "float32",
    whole_prompts: bool = False,
    available: int | None = None,
) -> MemoryPlan:
    """The memory of :func:`invariscope.cores.sweep_batches`.

    Args:
        shape: of the model.
        num_prompts: to extract from and held out, together.
        tokens: of the longest prompt.
        layers: that are swept.
        batch_size: prompts at a time.
        dtype: of the weights once loaded.
        whole_prompts: edits act before the last token.
        available: free bytes; None: not known.

    Raises:
        ConfigError: for an unknown type of number.
    """
    if dtype not in BYTES:
        raise ConfigError(f"dtype {dtype!r}", expected=f"one of {', '.join(BYTES)}", do="choose one of them")
    size = BYTES[dtype]
    stream = batch_size * tokens * (12 * shape.width + 3 * shape.mlp_width + 4 * shape.key_value_width)
    graph = batch_size * shape.num_layers * (12 * shape.width + 3 * shape.mlp_width + 4 * shape.key_value_width)
    cached = num_prompts * tokens * shape.num_layers * 2 * shape.key_value_width
    states = num_prompts * tokens * shape.width if whole_prompts else num_prompts * shape.width
    # Rows wait until a fold of max(4096, 4 D) is worth a factorisation; then a triangle [D + 1, D + 1] remains.
    waiting = min(num_prompts, max(4096, 4 * shape.width)) * (shape.width + 1)
    factors = layers * 2 * (waiting + (shape.width + 1) ** 2)
    return MemoryPlan(
        entries=(
            PlanEntry(name="weights", num_bytes=size * shape.num_parameters, lever="--dtype bfloat16, or a smaller model"),
            PlanEntry(name="keys and values of the prompts", num_bytes=size * cached, lever="fewer or shorter prompts"),
            PlanEntry(name="activations of a batch", num_bytes=size * (stream + graph), lever="a smaller --batch-size"),
            PlanEntry(name="states under edit", num_bytes=size * states, lever="fewer prompts"),
            PlanEntry(
                name="predictions over the vocabulary", num_bytes=3 * 4 * num_prompts * shape.vocab_size, lever="fewer prompts"
            ),
            PlanEntry(name="factors, float64", num_bytes=8 * factors, lever="fewer --layers"),
        ),
        available_bytes=available,
    )


def shape_of(config: Mapping[str, Any], num_parameters: int | None = None) -> ModelShape:
    """The shape in a ``config.json`` of transformers.

    Args:
        config: its content.
        num_parameters: where the weights' file says it; None: estimated from the shape.

    Raises:
        ConfigError: where the shape is not in it.
    """
    config = config.get("text_config") or config

    def first(*names: str) -> int:
        for name in names:
            if isinstance(config.get(name), int):
                return config[name]
        raise ConfigError(
            f"a config.json without {names[0]}", expected="the shape of a transformer", do="give a causal language model"
        )

    num_layers, width = first("num_hidden_layers", "n_layer"), first("hidden_size", "n_embd")
    heads = first("num_attention_heads", "n_head")
    key_heads = config.get("num_key_value_heads") or heads
    key_value_width = key_heads * (config.get("head_dim") or width // heads)
    mlp_width = config.get("intermediate_size") or config.get("n_inner") or 4 * width
    vocab_size = first("vocab_size")
    if num_parameters is None:
        block = 2 * width * width + 2 * width * key_value_width + 3 * width * mlp_width
        tied = config.get("tie_word_embeddings", True)
        num_parameters = int(num_layers * block + vocab_size * width * (1 if tied else 2))
    return ModelShape(
        num_layers=num_layers,
        width=width,
        vocab_size=vocab_size,
        key_value_width=key_value_width,
        mlp_width=mlp_width,
        num_parameters=num_parameters,
    )


def available_bytes() -> int | None:
    """Memory that this process can still take, in bytes; None where the system does not say."""
    free = _kernel_bytes()
    limits = [Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")]
    try:
        limit, used = (path.read_text().strip() for path in limits)
        # Inside a container the kernel's number is the whole machine's.
        left = int(limit) - int(used)
    except (OSError, ValueError):
        return free
    return left if free is None else min(free, left)


def _kernel_bytes() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    found = [line.split()[1] for line in lines if line.startswith("MemAvailable:")]
    return 1024 * int(found[0]) if found else None


def format_bytes(num_bytes: int) -> str:
    """In MB or GB, three digits.

    >>> format_bytes(538_060_032), format_bytes(12_400_000_000)
    ('538 MB', '12.4 GB')
    """
    return f"{num_bytes / 1e9:.3g} GB" if num_bytes >= 1e9 else f"{num_bytes / 1e6:.3g} MB"
