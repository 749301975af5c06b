"""Tables of the suites: which test modules are run, which tests are exceptions, what Beam's own runner does not pass.

A test is named by its module below `apache_beam`, its class and its function:
`transforms.ptransform_test::PTransformTest::test_str`.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
RECORDED = HERE / "beam.json"
"""Test module -> outcome with Beam's direct runner -> tests; tests that are not listed pass."""


def name_of(nodeid: str) -> tuple[str, str]:
    """Module of a test below `apache_beam`, and its class and function, of pytest's name for it."""
    file, _, test = nodeid.partition("::")
    return file.removesuffix(".py").replace("/", ".").partition("apache_beam.")[2], test


@dataclass(frozen=True, slots=True)
class Suite:
    """A test module of Beam's."""

    module: str
    """Its name below `apache_beam`."""
    quick: bool
    """Whether the ordinary tests run it."""
    only: tuple[str, ...]
    """Classes or tests that are run, all if empty."""
    leave_out: tuple[str, ...]
    """Classes or tests that are not run, for the reason that stands in the table."""
    shared: tuple[str, ...]
    """Classes with a list `all_records`, and dicts of counts, into which DoFns write, see `records`."""

    def has(self, test: str) -> bool:
        """Whether a test of the module, by its class and function, is part of the suite."""
        return (not self.only or _among(test, self.only)) and not _among(test, self.leave_out)


def _among(test: str, names: Sequence[str]) -> bool:
    return any(test == name or test.startswith((f"{name}::", f"{name}[")) for name in names)


@cache
def suites() -> Mapping[str, Suite]:
    """Test module -> its suite, in the order of the table."""
    rows = tomllib.loads((HERE / "suites.toml").read_text(encoding="utf-8"))["suite"]
    return {
        row["module"]: Suite(
            row["module"],
            row.get("quick", False),
            *(tuple(row.get(names, ())) for names in ("only", "leave_out", "shared")),
        )
        for row in rows
    }


@dataclass(frozen=True, slots=True)
class Known:
    """Why a test does not pass with HeadraceRunner although it passes with Beam's runner."""

    reason: str
    passes: bool
    """Whether it passes from time to time, so that a pass is no error."""
    runner: str | None
    """The runner with which it does not pass, "local" or "spark"; None for both."""


@cache
def exceptions(runner: str) -> Mapping[str, Known]:
    """Test -> why it may fail with a runner, "local" or "spark"."""
    rows = tomllib.loads((HERE / "exceptions.toml").read_text(encoding="utf-8")).get("exception", [])
    known = {row["test"]: Known(row["reason"], row.get("passes", False), row.get("runner")) for row in rows}
    return {test: each for test, each in known.items() if each.runner in (None, runner)}


@cache
def failing_with_beam() -> frozenset[str]:
    """Tests that Beam's direct runner does not pass in this environment."""
    outcomes = json.loads(RECORDED.read_text(encoding="utf-8")) if RECORDED.exists() else {}
    return frozenset(f"{module}::{test}" for module, found in outcomes.items() for test in found.get("failed", ()))
