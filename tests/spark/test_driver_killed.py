"""Drivers that die by SIGKILL and are started again, or are replaced: output as if nothing had happened."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace.lowlevel import FencedError
from headrace.runners.engine.options import RunOptions
from headrace.runners.local import LocalRunner
from headrace.runners.spark import SparkRunner
from tests.spark import lives

pytestmark = pytest.mark.spark

KILLS = [("plan", 2), ("task", 3), ("commit", 4), ("committed", 5), ("deliver", 6)]


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


def live(place: Path | str, out: Path, *kill: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.spark.lives", str(place), str(out), *kill]
    return subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)


@pytest.mark.slow
def test_a_driver_killed_at_five_points_and_started_again(tmp_path: Path, expected: dict[str, str]) -> None:
    place, out = tmp_path / "checkpoint", tmp_path / "out"
    out.mkdir()
    for kill, epoch in KILLS:
        killed = live(place, out, kill, str(epoch))
        assert killed.returncode == -signal.SIGKILL, f"the fault did not fire: {kill} {epoch}\n{killed.stderr}"
    last = live(place, out)
    assert last.returncode == 0, last.stderr
    assert written(out) == expected


def test_a_second_driver_fences_the_first_and_the_loser_says_by_whom(
    spark: SparkSession, tmp_path: Path, expected: dict[str, str]
) -> None:
    place, out, lost = tmp_path / "checkpoint", tmp_path / "out", tmp_path / "lost"
    out.mkdir()
    lost.mkdir()
    options = RunOptions(str(place), max_records_per_epoch=16)

    class Interrupted(lives.KillAt):
        """While epoch 3 waits for its commit, another driver takes the checkpoint and finishes the work."""

        def step(self, name: str, epoch: int) -> None:
            if (name, epoch) == ("commit", 3):
                SparkRunner(spark).run_topology(lives.topology(out), options)

    with pytest.raises(FencedError, match=r"generation 1 \(Spark runner on .*replaced by generation 2 \(Spark"):
        SparkRunner(spark, intervals=2, steps=Interrupted("never", 0)).run_topology(lives.topology(lost), options)
    # What the loser delivered was committed; all together it is what one driver would have delivered.
    assert written(lost) | written(out) == expected
    assert not any(int(name.split("-")[1].split(".")[0]) > 2 for name in written(lost))
