"""Drivers on Spark with their checkpoint on an S3 server: killed and started again, stopped and replaced."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.lowlevel.checkpoint import Checkpoint
from headrace.lowlevel.store import ObjectStore
from tests.depth import faults
from tests.faults.tally import Tally
from tests.s3 import S3
from tests.spark.test_driver_killed import KILLS, expected, live, written

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.faults]

__all__ = ["expected"]


def test_a_driver_killed_and_started_again(
    s3: S3, tally: Callable[[int], Tally], tmp_path: Path, expected: dict[str, str]
) -> None:
    run = tally(1)
    place, out = s3.new_place(), tmp_path / "out"
    out.mkdir()
    for kill, epoch in KILLS[-faults(quick=1, full=len(KILLS)) :]:
        run.plan()
        killed = live(place, out, kill, str(epoch))
        assert killed.returncode == -signal.SIGKILL, f"the fault did not fire: {kill} {epoch}\n{killed.stderr}"
        run.fire()
    last = live(place, out)
    assert last.returncode == 0, last.stderr
    run.compare(expected.items(), written(out).items(), "what the sinks got")


def test_a_driver_that_was_stopped_and_replaced_changes_nothing(
    s3: S3, tally: Callable[[int], Tally], tmp_path: Path, expected: dict[str, str]
) -> None:
    run = tally(3)
    place, lost, out = s3.new_place(), tmp_path / "lost", tmp_path / "out"
    lost.mkdir()
    out.mkdir()
    run.plan()
    command = [sys.executable, "-m", "tests.spark.lives", place, str(lost), "stop-commit", "3"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as first:
        _, status = os.waitpid(first.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        second = live(place, out)
        assert second.returncode == 0, second.stderr
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
