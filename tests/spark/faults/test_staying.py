"""The task that stays, its executor, the driver and their connection meet real faults at every step: exactly once."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.tally import Tally
from tests.spark import staying
from tests.spark.faults.test_executors import cluster_environment

pytestmark = [pytest.mark.spark, pytest.mark.faults]


def undergo(folder: Path, faults: list[str], run: Tally) -> None:
    """Start the program, again after each death of the driver, and compare what came out."""
    run.plan(len(faults))
    deaths = sum(fault.startswith("driver killed") for fault in faults)
    command = [sys.executable, "-m", "tests.spark.staying", str(folder), *faults]
    environment = cluster_environment(folder)
    for life in range(deaths + 1):
        ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=580, check=False)
        assert ran.returncode == (-signal.SIGKILL if life < deaths else 0), ran.stderr
    run.fire(len(list(folder.glob("struck-*"))))
    assert not (folder / "not replaced").exists() and not (folder / "out" / "differs").exists()
    came = [tuple(value) for path in (folder / "out").iterdir() for value, _ in json.loads(path.read_text())]
    run.compare(staying.expected(folder), came, "numbers and counts")


def test_one_fault_of_each_kind(tmp_path: Path, tally: Callable[[int], Tally]) -> None:
    moments = ("sent", "staging", "first record", "answered", "plan", "last record", "commit")
    undergo(tmp_path, list(map("=".join, zip(staying.FAULTS, moments, strict=True))), tally(20))


@pytest.mark.slow
@pytest.mark.parametrize("fault", staying.FAULTS)
def test_a_fault_at_every_step(tmp_path: Path, tally: Callable[[int], Tally], fault: str) -> None:
    undergo(tmp_path, [f"{fault}={moment}" for moment in staying.MOMENTS], tally(20))
