"""The tests that call what a module defines, as runs of the tests have seen it (`tests.nearest.calls`)."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.house import ROOT

FOLDER = Path(os.environ.get("HEADRACE_TEST_MAP") or ROOT / "out" / "test-map")
"""Each process of pytest writes a file of its own."""


@dataclass(frozen=True)
class CallMap:
    """Test modules, and the functions that each called: of each module of the product, by its path."""

    called: Mapping[str, Collection[tuple[str, str]]]

    @classmethod
    def read(cls, folder: Path = FOLDER) -> CallMap:
        """What all processes have written; empty if there was no run."""
        called: dict[str, set[tuple[str, str]]] = {}
        for file in folder.glob("*.json"):
            for test, functions in json.loads(file.read_text()).items():
                called.setdefault(test, set()).update((path, name) for path, name in functions)
        return cls(called)

    def tests_of(self, targets: Collection[str]) -> dict[str, tuple[int, int]]:
        """Test modules with the number of the targets' functions that they called, and of all that they called.

        First come those that call most of the targets and little else: the product of both shares decides.

        >>> calls = CallMap({
        ...     "tests/test_all.py": [("a.py", "f"), ("a.py", "g"), ("b.py", "x"), ("b.py", "y"), ("c.py", "z")],
        ...     "tests/test_a.py": [("a.py", "f"), ("a.py", "g"), ("b.py", "x")],
        ...     "tests/test_b.py": [("b.py", "x")],
        ... })
        >>> calls.tests_of(["a.py"])
        {'tests/test_a.py': (2, 3), 'tests/test_all.py': (2, 5)}
        """
        wanted = set(targets)
        found = {test: sum(path in wanted for path, _ in functions) for test, functions in self.called.items()}
        counts = {test: (number, len(self.called[test])) for test, number in found.items() if number}
        return dict(sorted(counts.items(), key=lambda item: (-(item[1][0] ** 2) / item[1][1], item[0])))
