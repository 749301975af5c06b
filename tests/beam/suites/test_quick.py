"""The quick part of Beam's own tests, in a process where HeadraceRunner takes the place of Beam's runners."""

from __future__ import annotations

import subprocess
import sys

import pytest


def run_suites(*arguments: str) -> str:
    """What the command of the suites prints."""
    command = [sys.executable, "-m", "tests.beam.suites", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stdout[-5000:]
    return done.stdout


@pytest.mark.slow
def test_quick_suites() -> None:
    assert " passed" in run_suites("--quick")


# All suites on Spark: `./dev beam --spark`.
@pytest.mark.soak
@pytest.mark.spark
def test_state_and_timers_on_spark() -> None:
    assert " passed" in run_suites("--spark", "transforms.userstate_test")
