"""A streaming program of Beam's SDK whose driver dies by SIGKILL at random moments: files as of an undisturbed run."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.depth import faults
from tests.faults.tally import Tally
from tests.spark import beam_lives

pytestmark = [pytest.mark.spark, pytest.mark.faults, pytest.mark.slow]

KILLS = 10
_SECONDS = 240


class Program:
    """The program with its checkpoint and its files, and the drivers that it has one after another."""

    def __init__(self, folder: Path) -> None:
        self.log, self.out, self.errors = folder / "checkpoint" / "log", folder / "out" / "sums", folder / "errors"
        options = ["--headrace_runner=SparkRunner", f"--checkpoint={folder / 'checkpoint'}", "--streaming"]
        options.append("--max_records_per_epoch=50")
        self.command = [sys.executable, "-m", "tests.spark.beam_lives", str(self.out), *options]

    def newest(self) -> int:
        """The number of the newest commit; 0 before the first one."""
        return max((int(path.name) for path in self.log.glob("*") if path.name.isdigit()), default=0)

    def killed(self, commits: int, seconds: float) -> float:
        """Kill a driver so many seconds after so many commits of its own; seconds from its start to the first one."""
        start, before, first = time.monotonic(), self.newest(), 0.0
        with self.errors.open("w") as errors:
            driver = subprocess.Popen(self.command, stdout=errors, stderr=errors)
            while self.newest() < before + commits and time.monotonic() < start + _SECONDS:
                first = first or (time.monotonic() - start if self.newest() > before else 0.0)
                assert driver.poll() is None, f"the fault did not fire\n{self.errors.read_text()}"
                time.sleep(0.01)
            time.sleep(seconds)
            driver.kill()
            assert driver.wait(_SECONDS) == -signal.SIGKILL, f"the fault did not fire\n{self.errors.read_text()}"
        return first

    def finish(self) -> None:
        """Let a driver live to the end."""
        ran = subprocess.run(self.command, capture_output=True, text=True, timeout=_SECONDS, check=False)
        assert ran.returncode == 0, ran.stderr

    def lines(self) -> list[str]:
        """All lines of the files."""
        return [line for path in self.out.parent.glob("sums*") for line in path.read_text().splitlines()]


def test_state_timers_and_side_inputs_of_a_killed_program(tmp_path: Path, tally: Callable[[int], Tally]) -> None:
    run = tally(1)
    for seed in run.seeds(quick=1, full=3):
        (tmp_path / str(seed)).mkdir()
        program, moments = Program(tmp_path / str(seed)), random.Random(seed)
        for _ in range(faults(2, KILLS)):
            run.plan()
            run.recovered(program.killed(moments.randint(1, 4), moments.uniform(0, 0.5)))
            run.fire()
        program.finish()
        run.compare(beam_lives.expected(), program.lines(), "lines of the files")
