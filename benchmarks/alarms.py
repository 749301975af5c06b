"""Our engine with very many event-time timers, of which ten are due in each epoch."""

from __future__ import annotations

import tempfile
import threading
import time
from itertools import count
from queue import SimpleQueue
from typing import cast

from benchmarks.tiny_epoch import BEGINNING, let_task_leave, options
from headrace.lowlevel import Batch, CallSink, Computation, Context, MemorySplit, Record, Timer, Topology
from headrace.lowlevel.injectors.injector import BaseInjector, Delivery
from headrace.runners.spark import SparkRunner

_DUE = 10
_FAR = 1 << 50
"""A time that no step reaches, microseconds."""


class Bell(BaseInjector):
    """Delivers what it is given, (keys and times, watermark), and stops the driver meanwhile; None ends the input."""

    def __init__(self) -> None:
        self.given: SimpleQueue[tuple[list[tuple[int, int]], int] | None] = SimpleQueue()
        self.asked: SimpleQueue[float] = SimpleQueue()

    def __getstate__(self) -> dict[str, object]:
        return {}

    def plan(self, position: object, limit: int, splits: int) -> Delivery:
        assert isinstance(position, int)
        self.asked.put(time.perf_counter())
        given = self.given.get()
        if given is None:
            return Delivery([], position, done=True)
        timers, watermark = given
        share = max(1, -(-len(timers) // splits))
        parts = [timers[at : at + share] for at in range(0, len(timers), share)]
        # The records themselves are on time.
        batches = [Batch(part, [watermark] * len(part)) for part in parts]
        return Delivery([MemorySplit(batch) for batch in batches], position + 1, watermark)


class Alarm(Computation):
    """Sets a timer for the time in each record, and says when it fires."""

    def process_record(self, record: Record, context: Context) -> None:
        context.set_timer("alarm", cast("tuple[int, int]", record.value)[1])

    def process_timer(self, timer: Timer, context: Context) -> None:
        context.produce("rang", timer.timestamp)


class Alarms:
    """A run of ours. Each `step` sets ten timers and fires the ten of the step before, and no others."""

    def __init__(self, name: str, waiting: int) -> None:
        self.name = name
        self._home = tempfile.TemporaryDirectory(prefix="headrace-bench-")
        self._bell = Bell()
        self._rang: list[int] = []
        self._failure: BaseException | None = None
        self._numbers = count(1)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self._wait()
        self._deliver([(-number, _FAR + number) for number in range(1, waiting + 1)], 0)

    def _run(self) -> None:
        topology = Topology()
        topology.injector("timers", self._bell)
        topology.computation("alarm", Alarm(), {"timers": lambda timer: timer[0]}, ["rang"])
        topology.sink("rang", "rang", CallSink(lambda epoch, rows: self._rang.extend(cast(int, at) for at, _ in rows)))
        try:
            SparkRunner().run_topology(topology, options(self._home.name))
        except BaseException as failure:
            self._failure = failure
        self._bell.asked.put(time.perf_counter())

    def _wait(self) -> float:
        asked = self._bell.asked.get()
        if self._failure is not None:
            raise self._failure
        return asked

    def _deliver(self, timers: list[tuple[int, int]], watermark: int) -> float:
        started = time.perf_counter()
        self._bell.given.put((timers, watermark))
        return self._wait() - started

    def begin(self) -> None:
        for _ in range(BEGINNING):
            self.step()

    def rest(self) -> None:
        let_task_leave()

    def step(self) -> float:
        """Seconds of an epoch. Raises `AssertionError` if other timers fired than those that were due."""
        number = next(self._numbers)
        self._rang.clear()
        first = number * _DUE
        seconds = self._deliver([(at % 50, at) for at in range(first + 1, first + _DUE + 1)], first)
        due = [] if number == 1 else list(range(first - _DUE + 1, first + 1))
        assert sorted(self._rang) == due, (due, self._rang)
        return seconds

    def close(self) -> None:
        self._bell.given.put(None)
        self._thread.join()
        self._home.cleanup()
