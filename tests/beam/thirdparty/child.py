"""Runs the tests of a code base with a runner, in the environment of the code base; writes how each of them ended.

`python -m tests.beam.thirdparty.child RUNNER FILE SECONDS [arguments of pytest]`
"""

from __future__ import annotations

import importlib.util
import json
import sys
import unittest
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.beam.suites.substitution import at_most, substitute
from tests.beam.thirdparty import daemon
from tests.beam.thirdparty.daemon import forget_ours

ROOT = Path(__file__).parents[3]


class Outcomes:
    """A plugin of pytest that notes how each test ended.

    Args:
        seconds: The longest time of a test.
    """

    def __init__(self, seconds: int) -> None:
        self._seconds = seconds
        self.of: dict[str, str] = {}
        """Test to outcome, with what it recorded: of its call, or of its set-up or tear-down if that is no pass."""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note an outcome."""
        if report.when == "call" or not report.passed:
            self.of[report.nodeid] = report.outcome
        elif report.when == "teardown" and report.user_properties:
            self.of[report.nodeid] += f" {report.user_properties}"

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note a module that cannot be imported, or that skips all its tests."""
        if not report.passed:
            self.of[report.nodeid] = report.outcome

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Iterator[None]:
        """Stop a test that takes too long."""
        with at_most(self._seconds):
            return (yield)


def main(runner: str, written: Path, seconds: int, arguments: list[str]) -> int:
    """Run pytest; the exit code.

    Modules of ours are forgotten first, as the tests of many code bases are in a package `tests`, too.
    """
    substitute(runner)
    if runner == "spark":
        _prepare_workers()
    forget_ours()
    sys.path[:] = [path for path in sys.path if path and Path(path).resolve() != ROOT]
    _read_flags()
    unittest.TestCase.__getstate__ = _without_outcome
    outcomes = Outcomes(seconds)
    code = pytest.main(arguments, [outcomes])
    written.write_text(json.dumps(outcomes.of), encoding="utf-8")
    return int(code)


def _prepare_workers() -> None:
    """Have results of eager pipelines come to the test, and workers forked from our daemon.

    The session is made here, as its start counts to no test, and our daemon is found from the current folder.
    """
    from headrace.runners.spark import new_session, session
    from tests.beam.suites.eager import collect_on_driver

    collect_on_driver()
    new_session._QUIET["spark.python.daemon.module"] = daemon.__name__
    session.open_session()


def _without_outcome(case: unittest.TestCase) -> dict[str, object]:
    """What is pickled of a test case that a function in a pipeline refers to: not what pytest keeps there."""
    return {name: value for name, value in vars(case).items() if name != "_outcome"}


def _read_flags() -> None:
    """Have the flags of absl their defaults, if it is installed: its own runner of tests would read them."""
    if importlib.util.find_spec("absl") is not None:
        from absl import flags
        from absl.testing import absltest  # noqa: F401  # it has flags, too

        flags.FLAGS.mark_as_parsed()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]))
