"""The language models that ship inside packages, loaded once a worker; their tests are skipped where a package is missing.

Tests that use them carry ``pytestmark = pytest.mark.xdist_group("smollm2")`` or ``("gemma3")``, so that each model loads once.
"""

from __future__ import annotations

import functools

import pytest

from invariscope.models import LanguageModel, load_language_model
from invariscope.storage.shipped_models import shipped_model

__all__ = ["shipped"]


@functools.cache
def _loaded(name: str) -> LanguageModel:
    return load_language_model(name)


def shipped(name: str) -> LanguageModel:
    """The model called ``name``, or a skip that says what to install."""
    if not shipped_model(name).installed:
        pytest.skip(f"{name} is not installed: {shipped_model(name).pip_line}")
    return _loaded(name)
