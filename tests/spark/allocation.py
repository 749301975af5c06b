"""A run whose executors come and go: `python -m tests.spark.allocation FOLDER [NAME=VALUE...]`.

Spark's dynamic allocation starts executors for waiting tasks and ends those without any. The input asks for both:
large epochs until there are two executors, small ones until one is left, nothing until none is left, and large ones
again. FOLDER gets `course.json`, a list of [phase, splits that were asked for, executors, whether a task stays] as the
run has seen them, and a file for each epoch of the sink; NAME=VALUE are further settings of Spark.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from threading import enumerate
from typing import Any, cast

from pyspark.sql import SparkSession

from headrace.lowlevel import BaseInjector, Batch, CallSink, Computation, Context, Delivery, Record, Topology
from headrace.lowlevel.injectors.injector import Split
from headrace.runners.engine.options import RunOptions
from tests.spark.lives import write

KEYS = 8
PHASES = {"large": 2, "small": 1, "none": 0, "large again": 2}
"""The phases, and the number of executors at which each ends."""
_SECONDS_OF_PHASE = 240.0
"""After which a phase ends anyway; executors start and end in seconds, but not on a busy machine."""
_SMALL_EPOCHS = 20
"""Small epochs at least, before and after one executor has gone."""
_PART_SECONDS = 1.5
"""How long a task reads in a large epoch: longer than Spark lets tasks wait before it starts an executor."""
_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.executor.cores": "1",
    "spark.executor.memory": "512m",
    "spark.driver.memory": "512m",
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.timeout": "2s",
    "spark.dynamicAllocation.executorIdleTimeout": "2s",
    "spark.dynamicAllocation.schedulerBacklogTimeout": "1s",
    "spark.dynamicAllocation.minExecutors": "0",
    "spark.dynamicAllocation.maxExecutors": "3",
}


class Part(Split):
    """Some numbers, which take their time."""

    def __init__(self, numbers: list[int], seconds: float) -> None:
        self._numbers, self._seconds = numbers, seconds

    def read(self) -> Iterable[Batch]:
        time.sleep(self._seconds)
        return [Batch(self._numbers, self._numbers)]


class Phases(BaseInjector):
    """Plans the phases one after another; the position is the next number."""

    def __init__(self, session: SparkSession, course: list[tuple[str, int, int, bool]]) -> None:
        self._session, self._course = session, course
        self._left = list(PHASES.items())
        self._epochs, self._since = 0, time.monotonic()

    def plan(self, position: object, limit: int, splits: int) -> Delivery:
        number, now = cast(int, position), executors(self._session)
        stays = any(thread.name == "headrace-resident" for thread in enumerate())
        if self._is_over(now, stays):
            del self._left[0]
            self._epochs, self._since = 0, time.monotonic()
        if not self._left:
            self._course.append(("end", splits, now, stays))
            return Delivery([], position, number, done=True)
        name, _ = self._left[0]
        self._course.append((name, splits, now, stays))
        if name == "none":
            return Delivery([], position, number, idle=True, quiet_seconds=0.5)
        self._epochs += 1
        size, seconds, parts = (4, 0.0, 1) if name == "small" else (200, _PART_SECONDS, 4)
        numbers = range(number, number + parts * size)
        made = [Part(list(numbers[at * size : (at + 1) * size]), seconds) for at in range(parts)]
        return Delivery(made, numbers.stop, number)

    def _is_over(self, executors: int, stays: bool) -> bool:
        name, wanted = self._left[0]
        if name == "small" and executors > wanted:
            self._epochs = min(self._epochs, _SMALL_EPOCHS)
        reached = executors == wanted and (name != "small" or (self._epochs >= 2 * _SMALL_EPOCHS and not stays))
        return reached or time.monotonic() > self._since + _SECONDS_OF_PHASE


class Count(Computation):
    """Counts the records of each key."""

    def process_record(self, record: Record, context: Context) -> None:
        context.state = cast(int, context.state or 0) + 1
        context.produce("counts", (record.value, context.state))


def executors(session: SparkSession) -> int:
    """How many executors there are now."""
    context: Any = cast(Any, session.sparkContext)._jsc.sc()
    return len(context.statusTracker().getExecutorInfos()) - 1


def main(place: str, *settings: str) -> None:
    from headrace.runners.spark import SparkRunner

    folder = Path(place)
    given = dict(setting.split("=", 1) for setting in settings)
    session = SparkSession.builder.config(map={**_SETTINGS, **given}).getOrCreate()
    course: list[tuple[str, int, int, bool]] = []
    made = Topology()
    made.injector("numbers", Phases(session, course))
    made.computation("count", Count(), {"numbers": lambda number: number % KEYS}, ["counts"])
    made.sink("seen", "counts", CallSink(write(folder, "seen")))
    options = RunOptions(str(folder / "checkpoint"), task_idle_seconds=2.0)
    SparkRunner(session).run_topology(made, options)
    (folder / "course.json").write_text(json.dumps(course))
    session.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
