"""A program on a cluster of hosts, slow enough to be disturbed: `python -m tests.spark.onhosts PLACE OUT [SLOW_HOST]`.

Tasks note in the folder OUT.notes what they do where. What the sinks get goes to files in OUT, and the time of each
commit to the file OUT.commits.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from pathlib import Path

from headrace.lowlevel import BoundedInjector, CallSink, Record, Topology
from headrace.runners.engine.options import EpochProgress, RunOptions
from tests.spark.lives import Minute, PerMinute, Total, Visit, write

ROWS, EPOCH = 240, 8
"""Records, and how many of them an epoch brings."""
PAGES = 5
PAUSE = 0.05
"""Seconds that a record takes."""
SLOW = 1.0


class Slowly:
    """Takes its time for each record, more on one host; notes which processes work on which host, and at what."""

    def __init__(self, notes: Path, slow_host: str) -> None:
        self._notes, self._slow_host = notes, slow_host

    def __call__(self, record: Record) -> None:
        from pyspark import TaskContext

        host, task = os.environ["HEADRACE_TEST_HOST"], TaskContext.get()
        assert task is not None
        (self._notes / f"host-{host}-{os.getpid()}").touch()
        # An attempt's number in Spark is its own; stage and partition are those of all attempts at a task.
        attempt = self._notes / f"task-{task.taskAttemptId()}"
        attempt.write_text(f"stage {task.stageId()}, partition {task.partitionId()}")
        time.sleep(SLOW if host == self._slow_host else PAUSE)


def visits() -> list[tuple[Visit, int]]:
    """The input: visits and their timestamps, out of order by up to 100."""
    return [(Visit(i % PAGES, i), i * 4 + i * 37 % 100) for i in range(ROWS)]


def minutes() -> list[Minute]:
    """What comes out for each page and minute, recomputed."""
    count: Counter[tuple[int, int]] = Counter()
    seconds: Counter[tuple[int, int]] = Counter()
    for visit, timestamp in visits():
        count[visit.page, timestamp // 60] += 1
        seconds[visit.page, timestamp // 60] += visit.seconds
    return [Minute(page, minute, count[page, minute], seconds[page, minute]) for page, minute in count]


def topology(out: Path, notes: Path, slow_host: str) -> Topology:
    """Seconds of each page and minute, then of each group of pages so far."""
    made = Topology()
    made.injector("visits", BoundedInjector(visits()))
    slowly = Slowly(notes, slow_host)
    made.computation("per minute", PerMinute(slowly), {"visits": lambda visit: visit.page}, ["minutes"])
    made.computation("total", Total(), {"minutes": lambda minute: minute.page % 2}, ["totals"])
    for stream in ("minutes", "totals"):
        made.sink(stream, stream, CallSink(write(out, stream)))
    return made


def came(out: Path, sink: str) -> list[list[object]]:
    """What a sink got, in the order of epochs."""
    files = sorted(out.glob(f"{sink}-*.json"), key=lambda path: int(path.stem.rpartition("-")[2]))
    return [value for path in files for value, _ in json.loads(path.read_text())]


def main(place: str, out: str, slow_host: str = "") -> None:
    from pyspark.sql import SparkSession

    from headrace.runners.spark import SparkRunner

    session = SparkSession.builder.appName("on hosts").getOrCreate()
    notes = Path(f"{out}.notes")
    notes.mkdir(exist_ok=True)

    def committed(progress: EpochProgress) -> None:
        with Path(f"{out}.commits").open("a") as file:
            file.write(f"{progress.epoch} {time.time()}\n")

    options = RunOptions(place, max_records_per_epoch=EPOCH, progress=committed, one_task_epochs=False)
    SparkRunner(session, intervals=2).run_topology(topology(Path(out), notes, slow_host), options)
    session.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
