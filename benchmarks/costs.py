"""What the parts of an epoch cost on this machine, one by one: the input of `benchmarks.simulation`.

Tasks and the driver are timed on the local runner, which runs the same code in one process, by processor time, so that
other work on the machine does not count; what they wait for, writes that reach the disk, is timed apart. What Spark
adds to an epoch and to each task is timed on Spark, and is only worth something on a quiet machine.
"""

from __future__ import annotations

import gc
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median
from unittest.mock import patch

from benchmarks.paced import Guarantees, Stage
from benchmarks.session import CORES, start_session
from headrace.lowlevel import BoundedInjector, CallSink, Topology
from headrace.lowlevel.storage.object_store import ObjectStore
from headrace.runners.engine.driver import running_topology
from headrace.runners.engine.options import EpochProgress, RunOptions
from headrace.runners.local import LocalRunner
from headrace.runners.local.executor import Scheduler
from headrace.runners.spark import SparkRunner

_WARM = 2
"""Epochs that are not looked at."""
_FULL = Guarantees(is_strong=True, exactly_once=True)


class Timeline(Scheduler):
    """Notes when each step of the protocol begins, in every epoch."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: dict[int, list[tuple[str, float]]] = defaultdict(list)

    def step(self, name: str, epoch: int) -> None:
        """Note it."""
        super().step(name, epoch)
        if not name.startswith("saved"):
            self.steps[epoch].append((name, time.process_time()))


@dataclass(slots=True)
class Parts:
    """Processor time of the tasks of some epochs, seconds, one by one."""

    reading: list[float] = field(default_factory=list)
    keyed: list[float] = field(default_factory=list)


def parts(workers: int, records: int, epochs: int = 6, many_tasks: int = running_topology.MANY_TASKS) -> Parts:
    """Epochs of so many records for each of so many tasks a level, which count as many from `many_tasks` on."""
    timeline = Timeline()
    topology = Topology()
    count = workers * records * epochs
    topology.injector("records", BoundedInjector([((number, 0.0), number) for number in range(count)]))
    stage = Stage("passed", _FULL.is_strong, _FULL.exactly_once)
    topology.computation("stage", stage, {"records": lambda record: record[0] % (50 * workers)}, ["passed"])
    topology.sink("passed", "passed", CallSink(lambda epoch, rows: None))
    # All tasks are in one process here, whose collections would look at what all of them have.
    gc.disable()
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as home:
        options = RunOptions(f"{home}/checkpoint", max_records_per_epoch=workers * records, balancer=None)
        with patch.object(running_topology, "MANY_TASKS", many_tasks):
            LocalRunner(scheduler=timeline, intervals=workers, parallelism=workers).run_topology(topology, options)
    gc.enable()
    found = Parts()
    for epoch in range(1 + _WARM, epochs):
        _add(found, timeline.steps[epoch])
    return found


def _add(found: Parts, steps: list[tuple[str, float]]) -> None:
    by_level: dict[str, list[float]] = {"0": [], "1": []}
    for (name, began), (_, ended) in pairwise(steps):
        if name.startswith("run level"):
            by_level[name.split()[2]].append(ended - began)
    found.reading += by_level["0"]
    # From the last task on, it is the driver that gathers the reports.
    found.keyed += by_level["1"][:-1]


def write_seconds(rounds: int = 40) -> float:
    """Until a small object is on the disk, in a folder that is new as that of an epoch is."""
    taken = []
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as home:
        store = ObjectStore(home)
        for number in range(rounds):
            began = time.perf_counter()
            store.put(f"deltas/{number}/delta", bytes(1_000))
            taken.append(time.perf_counter() - began)
    return median(taken)


def spark_epoch_seconds(epochs: int = 30) -> float:
    """Of an almost empty epoch that is spread, with as many tasks as run at once."""
    start_session()
    topology = Topology()
    topology.injector("records", BoundedInjector([((number, 0.0), number) for number in range(10 * epochs)]))
    stage = Stage("passed", _FULL.is_strong, _FULL.exactly_once)
    topology.computation("stage", stage, {"records": lambda record: record[0] % 5}, ["passed"])
    topology.sink("passed", "passed", CallSink(lambda epoch, rows: None))
    seconds: list[float] = []

    def note(progress: EpochProgress) -> None:
        seconds.append(progress.seconds)

    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as home:
        options = RunOptions(
            f"{home}/checkpoint", max_records_per_epoch=10, one_task_epochs=False, balancer=None, progress=note
        )
        SparkRunner().run_topology(topology, options)
    return median(seconds[epochs // 3 :])


def spark_task_seconds(tasks: int = 1_000, rounds: int = 9) -> float:
    """What one more task takes of Spark's driver, at most: on this machine its threads also run the empty task.

    The first rounds only warm up: Java takes three times as long for the first thousand tasks.
    """
    session = start_session()
    few, many = (session.range(0, number, 1, number) for number in (CORES, tasks))
    times: dict[int, list[float]] = {CORES: [], tasks: []}
    for _ in range(rounds):
        for number, frame in ((CORES, few), (tasks, many)):
            began = time.perf_counter()
            frame.collect()
            times[number].append(time.perf_counter() - began)
    many, few_of_them = (median(times[number][rounds // 2 :]) for number in (tasks, CORES))
    return max(0.0, many - few_of_them) / (tasks - CORES)
