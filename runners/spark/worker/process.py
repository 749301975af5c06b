"""The objects of a worker process of Spark that live from task to task; `PROCESS` is their only owner.

A process begins without runs, and `begin_task` loads them. The objects of a run go when the run ends or is displaced by
other runs (`LoadedRuns`); the daemon calls `end` when the process ends. Memory that the process gives back to the
system is counted in `runners.spark.memory`, as the driver may have state stores, too.
"""

from __future__ import annotations

import gc
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pyarrow as pa
from pyspark import TaskContext

from headrace.lowlevel.metric import Where
from headrace.lowlevel.processing.state_cache import StateCache
from headrace.runners.spark.memory import settle
from headrace.runners.spark.statestore.store_cache import Sweeping
from headrace.runners.spark.worker.host import SparkHost
from headrace.runners.spark.worker.last_step import LastStep
from headrace.runners.spark.worker.printed_output import flush, printing_to
from headrace.runners.spark.worker.task_payload import PayloadContents, TaskPayload

_MOST = 4
"""Largest number of loaded runs."""


class LoadedRuns:
    """Unpacked task payloads, each with its host; user code is torn down when a run leaves.

    After that, or if user code could not be set up, a payload is unpacked again for the next task, as an instance is
    set up only once. So it is after a task that failed or was given up: its functions have begun bundles that they did
    not finish, and must not be called again.
    """

    def __init__(self, step_begins: Callable[[Where], None] | None = None) -> None:
        """`step_begins` is called with the name of each step whose code begins to run."""
        self._step_begins = step_begins
        self._sweeping = Sweeping()
        self._runs: OrderedDict[TaskPayload, tuple[PayloadContents, SparkHost]] = OrderedDict()

    def take(self, payload: TaskPayload) -> tuple[PayloadContents, SparkHost]:
        """The unpacked payload, and its host; if there are more than four runs, the least recently used one leaves."""
        run = self._runs.get(payload)
        if run is not None and run[1].has_failed:
            run[0].program.teardown()
        if run is None or run[0].program.is_over:
            contents = payload.unpack()
            host = self._host_of(contents) or self._new_host(contents)
            run = self._runs[payload] = (contents, host)
        self._runs.move_to_end(payload)
        if len(self._runs) > _MOST:
            self.leave(next(iter(self._runs)))
        return run

    def _new_host(self, contents: PayloadContents) -> SparkHost:
        self._sweeping.when_due()
        return SparkHost(contents.store, contents.run, contents.cache_bytes, self._step_begins)

    def _host_of(self, contents: PayloadContents) -> SparkHost | None:
        """The host that the run had with an earlier topology, if any: no process may open a state store twice."""
        for payload, (before, host) in list(self._runs.items()):
            if before.run == contents.run:
                self.leave(payload)
                # Classes of cached objects may have changed, and the checkpoint may be a copy of the previous one.
                host.states = StateCache(contents.cache_bytes)
                host.move_to(contents.store)
                return host
        return None

    def leave(self, payload: TaskPayload) -> None:
        """Tear down a run; no task of it follows in this process."""
        if (run := self._runs.pop(payload, None)) is not None:
            run[0].program.teardown()

    def leave_all(self) -> None:
        """Tear down all runs, as the process ends."""
        while self._runs:
            self.leave(next(iter(self._runs)))


PROGRAM_PATH = "_HEADRACE_PROGRAM_PATH"
"""Environment variable of a worker whose PYTHONPATH has all that the program has added to its search path."""


class GarbageThresholds:
    """Makes garbage collection cheap: it skips objects that live for ever, and runs seldom within a task.

    Spark's worker collects garbage after every task, in all objects that were ever loaded: 10 ms and more each time.
    Objects that exist when the first few tasks begin are modules, code and open files, so they are frozen. A task makes
    records by the ten thousand, hardly any of them in a reference cycle: the usual threshold of 700 costs an eighth of
    the task. The higher one costs nothing, and cycles of user code still go before they fill the memory.
    """

    _FREEZING_TASKS = frozenset({2, 3, 5, 9, 17})
    _THRESHOLDS = (200_000, 10, 10)
    _SECONDS = 1.0
    """Least time between two collections of a task that runs many epochs."""

    def __init__(self) -> None:
        self._tasks = 0
        self._collected = time.monotonic()

    def task_begins(self) -> None:
        """Call at the start of each task, when Spark's worker has just collected."""
        self._tasks += 1
        gc.set_threshold(*self._THRESHOLDS)
        if self._tasks in self._FREEZING_TASKS:
            gc.freeze()

    def epoch_ends(self) -> None:
        """Call after each epoch of a task that runs many, in place of the collection that Spark's worker makes."""
        now = time.monotonic()
        if now - self._collected >= self._SECONDS:
            self.task_begins()
            gc.collect()
            self._collected = time.monotonic()


class WorkerProcess:
    """One process, which runs one task at a time."""

    def __init__(self) -> None:
        self.last_step = LastStep()
        self._runs = LoadedRuns(self.last_step.step)
        self._garbage = GarbageThresholds()

    @contextmanager
    def tuned(self, payload: TaskPayload) -> Iterator[None]:
        """Inside, memory and standard output of this process are those of a task of the run; then as they were before.

        The program's own tasks use the same processes.
        """
        thresholds, pool = gc.get_threshold(), pa.default_memory_pool()
        self._garbage.task_begins()
        settle()
        try:
            with printing_to(payload.printed):
                yield
        finally:
            gc.set_threshold(*thresholds)
            pa.set_memory_pool(pool)

    @contextmanager
    def task(self, payload: TaskPayload, whole_epoch: bool = False) -> Iterator[tuple[PayloadContents, SparkHost]]:
        """Prepare for one of Spark's tasks; yields its unpacked payload, and the host."""
        with self.tuned(payload):
            yield self.begin(payload, whole_epoch)

    @contextmanager
    def epoch(self, payload: TaskPayload) -> Iterator[tuple[PayloadContents, SparkHost]]:
        """Prepare for one epoch of a task that runs many; yields the unpacked payload, and the host."""
        yield self.begin(payload, whole_epoch=True)
        flush()
        self._garbage.epoch_ends()

    def begin(self, payload: TaskPayload, whole_epoch: bool = False) -> tuple[PayloadContents, SparkHost]:
        """Begin a task, or an epoch of one that runs many; returns its unpacked payload, and the host."""
        self.last_step.task_begins()
        contents, host = self._runs.take(payload)
        self.last_step.belongs_to(contents.run)
        host.begin(current_task().attemptNumber(), whole_epoch)
        return contents, host

    def leave(self, payload: TaskPayload) -> None:
        """Tear down the user code of a run that has ended."""
        with self.tuned(payload):
            self._runs.leave(payload)

    def end(self) -> None:
        """Tear down the user code of all runs, as the process ends."""
        self._runs.leave_all()


def current_task() -> TaskContext:
    """The task of Spark that calls this function."""
    task = TaskContext.get()
    assert task is not None, "Spark calls this inside a task"
    return task


PROCESS = WorkerProcess()
