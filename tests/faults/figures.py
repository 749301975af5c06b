"""What the tests of the fault suite told of a whole session, as a file."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.faults.tally import PROPERTY


@dataclass
class Figure:
    """One test's tallies of one row, all its parameters together."""

    test: str
    row: int
    depth: str = "quick"
    """`full`, or `quick` times what HEADRACE_FAULTS says."""
    passed: bool = True
    planned: int = 0
    fired: int = 0
    lost: int = 0
    duplicated: int = 0
    recovery_seconds: float = 0.0
    notes: dict[str, int] = field(default_factory=dict)

    def add(self, told: dict[str, Any]) -> None:
        """One more tally."""
        for name in ("planned", "fired", "lost", "duplicated"):
            setattr(self, name, getattr(self, name) + told[name])
        self.recovery_seconds = round(max(self.recovery_seconds, told["recovery_seconds"]), 1)
        for name, number in told["notes"].items():
            old = self.notes.get(name, 0)
            self.notes[name] = max(old, number) if name.startswith("most ") else old + number


def load(path: Path) -> list[Figure]:
    """The figures in a file, by row and test; none if there is no file."""
    if not path.exists():
        return []
    return [Figure(**each) for each in json.loads(path.read_text(encoding="utf-8"))]


def save(path: Path, figures: Iterable[Figure]) -> None:
    """Write figures, by row and test."""
    ordered = sorted(figures, key=lambda figure: (figure.row, figure.test))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps([asdict(each) for each in ordered], indent=1, sort_keys=True) + "\n", encoding="utf-8")


class Collector:
    """A pytest plugin: adds up what the tests tell, those in other processes too, and writes it down in the end.

    What the file has of other tests stays, so that parts of the suite can run one after another.
    """

    def __init__(self, target: Path, depth: str) -> None:
        self._target, self._depth = target, depth
        self._told: list[tuple[str, dict[str, Any]]] = []
        self._failed: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Called for every phase of every test; a tally comes with the last one."""
        test = report.nodeid.split("[")[0]
        if report.failed:
            self._failed.add(test)
        if report.when == "teardown":
            self._told += [(test, told) for name, told in report.user_properties if name == PROPERTY]

    def pytest_sessionfinish(self) -> None:
        """Everything is told."""
        figures: dict[tuple[str, int], Figure] = {}
        for test, told in self._told:
            new = Figure(test, told["row"], self._depth, test not in self._failed)
            figures.setdefault((test, told["row"]), new).add(told)
        others = [figure for figure in load(self._target) if (figure.test, figure.row) not in figures]
        save(self._target, [*others, *figures.values()])
