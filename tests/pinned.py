"""Whether a package has the version that requirements-dev.lock pins; `./dev test --lowest` has older ones."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

LOCK = Path(__file__).parents[1] / "requirements-dev.lock"


def is_pinned(package: str) -> bool:
    """Whether the installed version of a package is the pinned one."""
    return f"{package}=={version(package)}" in LOCK.read_text(encoding="utf-8").splitlines()
