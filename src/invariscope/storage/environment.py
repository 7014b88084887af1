"""Where numbers were made: versions, machine, threads, and the state of the code.

The facts stand in a manifest and nowhere else, so that two runs of one configuration can be compared byte for byte.

>>> facts = environment_facts()
>>> sorted(facts)
['cpu', 'git', 'num_cores', 'num_usable_cores', 'platform', 'threads', 'versions']
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

__all__ = ["environment_facts"]

_PACKAGES = ("torch", "numpy", "scipy", "invariscope")
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
_GIT_SECONDS = 10.0


def environment_facts() -> dict[str, Any]:
    """JSON with ``versions``, ``platform``, ``cpu``, ``num_cores``, ``num_usable_cores``, ``threads`` and ``git``.

    ``git`` is ``{"commit": ..., "dirty": ...}`` where this package is run from its own checkout, else None. ``threads`` holds
    the environment's settings and torch's, the latter None while torch is not loaded (this function does not load it).
    """
    torch = sys.modules.get("torch")
    return {
        "versions": {"python": platform.python_version()} | {name: _version(name) for name in _PACKAGES},
        # Not the kernel's release, which tells of the machine's host and nothing of the numbers.
        "platform": f"{platform.system()} {platform.machine()}",
        "cpu": _cpu_model(),
        "num_cores": os.cpu_count(),
        "num_usable_cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "threads": {name: os.environ.get(name) for name in _THREAD_VARIABLES}
        | {"torch": None if torch is None else torch.get_num_threads()},
        "git": _git_state(Path(__file__)),
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _cpu_model(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    try:
        for line in cpuinfo.read_text(errors="replace").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    except OSError:  # not Linux
        pass
    return platform.processor() or platform.machine()


def _git_state(file: Path) -> dict[str, str | bool] | None:
    """Commit and cleanness of the checkout that tracks ``file``; None where none does, or there is no git."""
    # An installed package may lie inside somebody else's repository (.venv in a project): only a checkout that tracks us counts.
    if _git(file.parent, "ls-files", "--error-unmatch", file.name) is None:
        return None
    commit, status = _git(file.parent, "rev-parse", "HEAD"), _git(file.parent, "status", "--porcelain")
    return None if commit is None or status is None else {"commit": commit, "dirty": bool(status)}


def _git(folder: Path, *arguments: str) -> str | None:
    # GIT_DIR and the like (set inside hooks) would point git at another repository than the folder's.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment["GIT_OPTIONAL_LOCKS"] = "0"
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            capture_output=True,
            text=True,
            check=True,
            timeout=_GIT_SECONDS,
            env=environment,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
