"""requirements-dev.lock pins versions, and nothing of the machine or the registry that it was made with."""

from __future__ import annotations

import re
import tomllib
from itertools import chain
from pathlib import Path

LOCK = Path(__file__).parents[3] / "requirements-dev.lock"


def test_every_line_is_a_name_and_a_version() -> None:
    lines = LOCK.read_text(encoding="utf-8").splitlines()
    assert lines
    wrong = [line for line in lines if not re.fullmatch(r"[a-z0-9._-]+==[0-9][\w.!+]*( ; [\w\s.'<>=!()]+)?", line)]
    assert not wrong


def test_a_package_has_the_same_bounds_in_each_extra() -> None:
    """The oldest versions are tried with all extras at once, so a lower bound of one extra alone would not be tried."""
    project = tomllib.loads((LOCK.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    bounds: dict[str, set[str]] = {}
    for requirement in [*project["dependencies"], *chain.from_iterable(project["optional-dependencies"].values())]:
        parts = re.fullmatch(r"([\w-]+)(?:\[[\w,-]+\])?(\S+)", requirement)
        assert parts is not None, requirement
        bounds.setdefault(parts[1], set()).add(parts[2])
    assert not {package: found for package, found in bounds.items() if len(found) > 1}
