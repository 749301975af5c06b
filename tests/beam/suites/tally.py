"""Counts of outcomes and seconds for each test module of a run of the suites."""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest

from tests.beam.suites.tables import name_of

OUTCOMES = ("passed", "failed", "expected", "skipped")
"""Columns of the table; "expected" is a failure that a table has the reason for."""


def outcome_of(report: pytest.TestReport) -> str:
    """The outcome that a report counts as, a member of `OUTCOMES`.

    A listed test that passes although it may fail counts as passed.
    """
    return "expected" if report.skipped and hasattr(report, "wasxfail") else report.outcome


class Tally:
    """A plugin of pytest that prints how the tests of each module ended, and how long they took."""

    def __init__(self) -> None:
        self._outcomes: dict[str, dict[str, str]] = defaultdict(dict)
        self._seconds: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a test by its call; by its set-up or tear-down only if that is no pass."""
        module, test = name_of(report.nodeid)
        self._seconds[module] += report.duration
        if report.when == "call" or not report.passed:
            self._outcomes[module][test] = outcome_of(report)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print a line for each module, and one for all."""
        lines = {module: Counter(outcomes.values()) for module, outcomes in sorted(self._outcomes.items())}
        terminalreporter.section("modules")
        terminalreporter.write_line(" ".join(f"{name:>8}" for name in (*OUTCOMES, "seconds")) + "  module")
        for module, counts in lines.items():
            terminalreporter.write_line(_line(counts, self._seconds[module], module))
        if len(lines) > 1:
            total = sum(lines.values(), Counter())
            terminalreporter.write_line(_line(total, sum(self._seconds.values()), "all"))


def _line(counts: Counter[str], seconds: float, module: str) -> str:
    return " ".join(f"{counts[name]:>8}" for name in OUTCOMES) + f" {seconds:>8.0f}  {module}"
