"""Drivers that get SIGSTOP, are replaced by others, and go on with SIGCONT: nothing that they write is accepted."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace.lowlevel.checkpoint import Manifest
from headrace.lowlevel.checkpoint.log.commit_log import read_entry
from headrace.lowlevel.storage import object_names
from headrace.lowlevel.storage.object_store import ObjectStore
from headrace.runners.engine.options import RunOptions
from headrace.runners.spark import SparkRunner
from tests.depth import faults
from tests.faults.tally import Tally
from tests.spark import lives
from tests.spark.faults.test_driver_killed import Lives, expected
from tests.spark.processes import marked, none_stays_behind, started

pytestmark = [pytest.mark.spark, pytest.mark.faults]
__all__ = ["expected"]

ROOT = Path(__file__).parents[3]
STOPS = [("task", 4), ("commit", 3), ("plan", 5), ("committed", 4), ("total", 4)]
"""Points, and the epochs in which the driver is stopped there; the first is tried at any depth."""
START = "import sys; from tests.spark.lives import main; main(*sys.argv[1:])"
"""So that classes have the same names as here."""


class Zombie:
    """A driver in a process of its own, which stops itself at a point.

    `frozen` stops its Java and its workers, too, as when a machine stands still; they are on another host then, as far
    as state stores go.
    """

    def __init__(self, drivers: Lives, point: str, epoch: int, frozen: bool) -> None:
        elsewhere = {"HEADRACE_STATE_STORES": f"{drivers.folder}/state-stores"} if frozen else {}
        arguments = [drivers.place, drivers.out, point, epoch, int(signal.SIGSTOP)]
        self._process = subprocess.Popen(
            [sys.executable, "-c", START, *map(str, arguments)],
            env={**os.environ, "PYTHONPATH": str(ROOT), **marked(drivers.folder), **elsewhere},
            stderr=subprocess.PIPE,
            text=True,
        )
        _, status = os.waitpid(self._process.pid, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            pytest.fail(f"the fault did not fire: {point}\n{self._process.communicate()[1]}")
        self._all = started(drivers.folder) if frozen else [self._process.pid]
        for process in self._all:
            os.kill(process, signal.SIGSTOP)

    def go_on(self) -> str:
        """Let it continue to its end; what it says."""
        for process in self._all:
            os.kill(process, signal.SIGCONT)
        _, said = self._process.communicate(timeout=240)
        assert self._process.returncode == 1, said
        return said

    def named(self, generation: int) -> str:
        """How its error names it."""
        return rf"generation {generation} \(Spark runner on .*, process {self._process.pid}\)"


@contextmanager
def zombie_of(drivers: Lives, point: str, epoch: int, frozen: bool) -> Iterator[Zombie]:
    """A driver that stands still, and of which nothing stays behind, whatever fails."""
    with none_stays_behind(drivers.folder):
        yield Zombie(drivers, point, epoch, frozen)


@pytest.mark.parametrize("number", range(faults(1, 10)))
def test_stopped_replaced_and_continued(
    spark: SparkSession, tmp_path: Path, expected: dict[str, str], tally: Callable[[int], Tally], number: int
) -> None:
    run, drivers = tally(3), Lives(tmp_path, expected)
    run.plan()
    with zombie_of(drivers, *STOPS[number % len(STOPS)], frozen=number >= len(STOPS)) as zombie:
        run.fire()
        SparkRunner(spark, intervals=2).run_topology(
            lives.topology(drivers.out), RunOptions(drivers.place, max_records_per_epoch=16)
        )
        before = log(drivers.place)
        said = zombie.go_on()
    successor = rf"was replaced by generation 2 \(Spark runner on .*, process {os.getpid()}\)"
    assert re.search(rf"FencedError: {zombie.named(1)}.*{successor}", said), said
    run.note("stale writes accepted", len(log(drivers.place)) - len(before))
    assert log(drivers.place) == before
    assert all(earlier <= later for earlier, later in pairwise(before.values()))
    drivers.check(run)


def log(place: str) -> dict[int, int]:
    """Place in the log -> generation of the driver that wrote what is there."""
    store, found = ObjectStore(place), {}
    for number in map(object_names.number_of, store.list(object_names.LOG)):
        assert number is not None
        entry = read_entry(store, number)
        assert entry is not None
        found[number] = entry.generation if isinstance(entry, Manifest) else entry.lease.generation
    return found
