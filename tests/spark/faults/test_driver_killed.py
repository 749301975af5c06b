"""Drivers that die by SIGKILL and are started again, or are replaced: output as if nothing had happened."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace.lowlevel import FencedError
from headrace.runners.engine.options import RunOptions
from headrace.runners.local import LocalRunner
from headrace.runners.spark import SparkRunner
from tests.depth import faults
from tests.faults.tally import Tally
from tests.spark import lives

pytestmark = [pytest.mark.spark, pytest.mark.faults]

KILLS = {
    "task": 3,
    "delivering": 7,
    "committed": 5,
    "commit": 4,
    "deliver": 6,
    "plan": 2,
    "total": 8,
    "delivered": 9,
}
"""Points, and the epochs in which the driver dies there. At less than full depth the first one: the others are
in the driver's protocol alone, at all of which drivers are killed in memory too
(`tests/faults/crashes/test_kill_local.py`)."""


def written(out: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in out.iterdir()}


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What each sink gets in each epoch, in memory and undisturbed."""
    out = tmp_path_factory.mktemp("expected")
    LocalRunner(intervals=2, parallelism=2).run_topology(lives.topology(out), RunOptions(max_records_per_epoch=16))
    files = written(out)
    assert len(files) > 12
    return files


@dataclass
class Lives:
    """One checkpoint, the drivers that it has one after another, and what is right."""

    folder: Path
    expected: dict[str, str]
    place: str = ""
    """Of the checkpoint; without one it is in the folder."""

    def __post_init__(self) -> None:
        self.place, self.out = self.place or str(self.folder / "checkpoint"), self.folder / "out"
        self.out.mkdir(parents=True)
        known = self.folder / "out.expected"
        known.mkdir()
        for name, text in self.expected.items():
            (known / name).write_text(text)

    def command(self, *point: object) -> list[str]:
        """What starts a driver."""
        return [sys.executable, "-m", "tests.spark.lives", self.place, str(self.out), *map(str, point)]

    def live(self, *point: object) -> float:
        """One driver, killed at a point or living to the end; seconds from its start to its first commit."""
        before, started = len(self.commits()), time.time()
        ran = subprocess.run(self.command(*point), capture_output=True, text=True, timeout=240, check=False)
        died = -signal.SIGKILL if point else 0
        assert ran.returncode == died, f"the fault did not fire: {point}\n{ran.stderr}"
        # Java ends after the driver, and may find that nobody wants its results.
        assert not [line for line in ran.stderr.splitlines() if line.startswith("\tat ")], ran.stderr
        return next((at - started for at in self.commits()[before:]), 0.0)

    def commits(self) -> list[float]:
        """When there were commits."""
        path = self.folder / "out.commits"
        return [float(line.split()[1]) for line in path.read_text().splitlines()] if path.exists() else []

    def check(self, run: Tally) -> None:
        """Each sink got what an undisturbed driver gives it, epoch by epoch; and all of it is a recomputation's."""
        run.compare(self.expected.items(), written(self.out).items(), "files of the sinks")
        assert not (self.out / "differs").exists()
        minutes: dict[tuple[int, int], tuple[int, int]] = {}
        for path in self.out.glob("minutes-*.json"):
            for (page, minute, visits, seconds), _ in json.loads(path.read_text()):
                old = minutes.get((page, minute), (0, 0))
                minutes[page, minute] = (old[0] + visits, old[1] + seconds)
        run.compare(recomputed().items(), minutes.items(), "recomputation")


def recomputed() -> dict[tuple[int, int], tuple[int, int]]:
    """Page and minute -> visits and seconds."""
    sums: dict[tuple[int, int], tuple[int, int]] = {}
    for visit, at in lives.visits():
        assert isinstance(visit, lives.Visit)
        old = sums.get((visit.page, at // 60), (0, 0))
        sums[visit.page, at // 60] = (old[0] + 1, old[1] + visit.seconds)
    return sums


def test_a_driver_killed_at_eight_points_and_started_again(
    tmp_path: Path, expected: dict[str, str], tally: Callable[[int], Tally]
) -> None:
    run = tally(1)
    kills = sorted(list(KILLS.items())[: faults(1, len(KILLS))], key=lambda kill: kill[1])
    for number in range(faults(1, 5)):
        drivers = Lives(tmp_path / str(number), expected)
        for kill, epoch in kills:
            run.plan()
            run.recovered(drivers.live(kill, epoch))
            run.fire()
        run.recovered(drivers.live())
        drivers.check(run)


@pytest.mark.slow
def test_a_driver_killed_twice_running_while_it_recovers(
    tmp_path: Path, expected: dict[str, str], tally: Callable[[int], Tally]
) -> None:
    run = tally(2)
    for number in range(faults(1, 2)):
        drivers = Lives(tmp_path / str(number), expected)
        drivers.live("deliver", 3)
        for kill in (("recovering", 0), ("task", 4)):
            run.plan()
            drivers.live(*kill)
            run.fire()
        run.recovered(drivers.live())
        drivers.check(run)


def test_a_second_driver_fences_the_first_and_the_loser_says_by_whom(
    spark: SparkSession, tmp_path: Path, expected: dict[str, str], tally: Callable[[int], Tally]
) -> None:
    run = tally(3)
    run.plan()
    place, out, lost = tmp_path / "checkpoint", tmp_path / "out", tmp_path / "lost"
    out.mkdir()
    lost.mkdir()
    options = RunOptions(str(place), max_records_per_epoch=16)

    class Interrupted(lives.KillAt):
        """While epoch 3 waits for its commit, another driver takes the checkpoint and finishes the work."""

        def step(self, name: str, epoch: int) -> None:
            if (name, epoch) == ("commit", 3):
                SparkRunner(spark).run_topology(lives.topology(out), options)
                run.fire()

    with pytest.raises(FencedError, match=r"generation 1 \(Spark runner on .*replaced by generation 2 \(Spark"):
        SparkRunner(spark, intervals=2, steps=Interrupted("never", 0)).run_topology(lives.topology(lost), options)
    # What the loser delivered was committed; all together it is what one driver would have delivered.
    run.compare(expected.items(), (written(lost) | written(out)).items())
    assert not any(int(name.split("-")[1].split(".")[0]) > 2 for name in written(lost))
