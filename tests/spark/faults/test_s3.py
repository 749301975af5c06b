"""Drivers on Spark with their checkpoint on an S3 server: killed and started again, stopped and replaced."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.lowlevel.checkpoint import Checkpoint
from headrace.lowlevel.storage.object_store import ObjectStore
from tests.depth import faults
from tests.faults.tally import Tally
from tests.s3 import S3
from tests.spark.faults.test_driver_killed import KILLS, Lives, expected, written
from tests.spark.processes import marked, none_stays_behind

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.faults]

__all__ = ["expected"]


def test_a_driver_killed_and_started_again(
    s3: S3, tally: Callable[[int], Tally], tmp_path: Path, expected: dict[str, str]
) -> None:
    run = tally(1)
    drivers = Lives(tmp_path, expected, s3.new_place())
    for kill, epoch in sorted(KILLS.items(), key=lambda kill: kill[1])[-faults(quick=1, full=len(KILLS)) :]:
        run.plan()
        run.recovered(drivers.live(kill, epoch))
        run.fire()
    run.recovered(drivers.live())
    drivers.check(run)


def test_a_driver_that_was_stopped_and_replaced_changes_nothing(
    s3: S3, tally: Callable[[int], Tally], tmp_path: Path, expected: dict[str, str]
) -> None:
    run = tally(3)
    place = s3.new_place()
    drivers, replaced = Lives(tmp_path, expected, place), Lives(tmp_path / "lost", expected, place)
    lost, out = replaced.out, drivers.out
    run.plan()
    command = replaced.command("commit", 3, int(signal.SIGSTOP))
    pipes, environment = subprocess.PIPE, os.environ | marked(tmp_path)
    with (
        subprocess.Popen(command, stdout=pipes, stderr=pipes, env=environment, text=True) as first,
        none_stays_behind(tmp_path),
    ):
        _, status = os.waitpid(first.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        drivers.live()
        before = Checkpoint.read(ObjectStore(place)).manifest
        os.kill(first.pid, signal.SIGCONT)
        _, said = first.communicate(timeout=120)
        assert first.returncode not in (0, None)
    assert "FencedError" in said and "was replaced by generation 2 (Spark runner on" in said, said
    run.fire()
    assert Checkpoint.read(ObjectStore(place)).manifest == before
    # What the loser delivered was committed; all together it is what one driver would have delivered.
    run.compare(expected.items(), (written(lost) | written(out)).items(), "what the sinks got")
    assert not any(int(name.split("-")[1].split(".")[0]) > 2 for name in written(lost))
