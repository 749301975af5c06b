"""The task that stays, its executor, the driver and their connection meet real faults at every step: exactly once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.faults.tally import Tally
from tests.spark import staying
from tests.spark.faults.test_executors import cluster_environment
from tests.spark.processes import marked, none_stays_behind

pytestmark = [pytest.mark.spark, pytest.mark.faults]
LONGEST = 1500
"""Seconds that a driver may take, with its faults, on a busy machine."""


@dataclass
class Driver:
    """The program in a process of its own."""

    folder: Path
    number: int
    faults: list[str]

    def __post_init__(self) -> None:
        command = [sys.executable, "-m", "tests.spark.staying", str(self.folder), *self.faults]
        environment = cluster_environment(self.folder) | marked(self.folder)
        self._log = self.folder / f"driver-{self.number}.log"
        with self._log.open("w") as log:
            self._process = subprocess.Popen(command, env=environment, stderr=log)

    def run(self, fate: str) -> None:
        """Wait until it has ended as is its fate, or is stopped."""
        deadline = time.monotonic() + LONGEST
        while (ended := os.waitpid(self._process.pid, os.WUNTRACED | os.WNOHANG)) == (0, 0):
            assert time.monotonic() < deadline, self.said()
            time.sleep(0.05)
        _, status = ended
        if fate == "stopped":
            assert os.WIFSTOPPED(status), self.said()
        else:
            code = self._process.returncode = os.waitstatus_to_exitcode(status)
            assert code == {"killed": -signal.SIGKILL, "replaced": 1, "ends": 0}[fate], self.said()

    def continue_replaced(self) -> None:
        """Continue it when another driver has the checkpoint; what it still writes is refused."""
        os.kill(self._process.pid, signal.SIGCONT)
        self.run("replaced")
        assert "FencedError" in self.said() and "was replaced by generation" in self.said(), self.said()

    def said(self) -> str:
        return self._log.read_text()


def undergo(folder: Path, faults: list[str], run: Tally) -> None:
    """Start the program, again when its driver is dead or stopped, and compare what came out."""
    run.plan(len(faults))
    fates = [fault.split("=")[0].split()[1] for fault in faults if fault.startswith("driver")] + ["ends"]
    stopped: Driver | None = None
    with none_stays_behind(folder):
        for number, fate in enumerate(fates):
            driver = Driver(folder, number, faults)
            driver.run(fate)
            if stopped is not None:
                stopped.continue_replaced()
            stopped = driver if fate == "stopped" else None
    run.fire(len(list(folder.glob("struck-*"))))
    assert not (folder / "not replaced").exists() and not (folder / "out" / "differs").exists()
    came = [tuple(value) for path in (folder / "out").iterdir() for value, _ in json.loads(path.read_text())]
    run.compare(staying.expected(folder), came, "numbers and counts")


MOMENTS = ("sent", "staging", "first record", "answered", "plan", "last record", "commit", "deliver")
ONE_OF_EACH = list(map("=".join, zip(staying.FAULTS, MOMENTS, strict=True)))
QUICK = {"worker replaced", "executor killed", "connection cut"}
"""Faults that need no other driver: `test_zombies.py` has a replaced one, `test_driver_killed.py` a killed one."""


def test_faults_of_several_kinds(tmp_path: Path, tally: Callable[[int], Tally]) -> None:
    undergo(tmp_path, [fault for fault in ONE_OF_EACH if fault.split("=")[0] in QUICK], tally(20))


@pytest.mark.slow
def test_one_fault_of_each_kind(tmp_path: Path, tally: Callable[[int], Tally]) -> None:
    undergo(tmp_path, ONE_OF_EACH, tally(20))


@pytest.mark.slow
@pytest.mark.parametrize("fault", staying.FAULTS)
def test_a_fault_at_every_step(tmp_path: Path, tally: Callable[[int], Tally], fault: str) -> None:
    undergo(tmp_path, [f"{fault}={moment}" for moment in staying.MOMENTS], tally(20))
