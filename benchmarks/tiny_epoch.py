"""Our engine, one tiny epoch at a time: one grouping, state, a durable checkpoint."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from operator import itemgetter
from pathlib import Path
from queue import SimpleQueue
from typing import cast

import pyarrow.parquet as pq

from benchmarks.micro_batch import tiny_file
from headrace.lowlevel import Batch, CallSink, Computation, Topology
from headrace.lowlevel.injectors.injector import BaseInjector, Delivery
from headrace.lowlevel.records.record import KeyExtractor, Record
from headrace.lowlevel.topology.computation import Context
from headrace.runners.engine.options import RunOptions
from headrace.runners.spark import SparkRunner


@dataclass(frozen=True, slots=True)
class FileSplit:
    """A file that a task reads."""

    path: str

    def read(self) -> Iterator[Batch]:
        events = pq.read_table(self.path)
        yield Batch(list(zip(events["key"].to_pylist(), events["value"].to_pylist(), strict=True)), [0] * len(events))


class Gate(BaseInjector):
    """Has nothing to read until it is given a file, and stops the driver meanwhile; None ends the input."""

    def __init__(self) -> None:
        self.files: SimpleQueue[Path | None] = SimpleQueue()
        self.asked: SimpleQueue[float] = SimpleQueue()
        """When the driver came for the next file: it had finished the epoch before."""

    def __getstate__(self) -> dict[str, object]:
        return {}

    def plan(self, position: object, limit: int, splits: int) -> Delivery:
        assert isinstance(position, int)
        self.asked.put(time.perf_counter())
        path = self.files.get()
        if path is None:
            return Delivery([], position, done=True)
        return Delivery([FileSplit(str(path))], position + 1)


class RunningCount(Computation):
    """A count per key, put out whenever it changes."""

    def initial_state(self) -> object:
        return 0

    def process_record(self, record: Record, context: Context) -> None:
        context.state = cast(int, context.state) + 1
        context.produce("counts", (context.key, context.state))


class Relay(Computation):
    """Counts the events of a key, and passes them on."""

    def __init__(self, output: str) -> None:
        self._output = output

    def process_record(self, record: Record, context: Context) -> None:
        context.state = cast(int, context.state or 0) + 1
        context.produce(self._output, record.value)


def _other_key(stage: int) -> KeyExtractor:
    """Of five keys another one at each stage, so that every grouping sends its events elsewhere."""
    return lambda event: cast("tuple[str, int]", event)[1] * 3**stage % 5


BEGINNING = 6
"""Steps after which an epoch surely runs in a task that stays."""
_IDLE_SECONDS = 0.5


def options(home: str) -> RunOptions:
    """Of a run that takes turns with others: its task leaves soon after its turn."""
    return RunOptions(checkpoint=f"{home}/checkpoint", task_idle_seconds=_IDLE_SECONDS)


def let_task_leave() -> None:
    """Wait until the task of a run with these options has left."""
    time.sleep(2 * _IDLE_SECONDS)


class TinyEpochs:
    """A run of ours. Each `step` adds one tiny file and waits until its epoch is committed and delivered.

    `groupings` stand in a row, each with its state. A file given as `before` is read before the first step.
    """

    def __init__(self, name: str, groupings: int = 1, before: Path | None = None) -> None:
        self.name = name
        self._groupings = groupings
        self._home = tempfile.TemporaryDirectory(prefix="headrace-bench-")
        self._numbers = count()
        self._gate = Gate()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self._wait()
        if before is not None:
            self._gate.files.put(before)
            self._wait()

    def _run(self) -> None:
        topology = Topology()
        topology.injector("events", self._gate)
        source = "events"
        for stage in range(1, self._groupings):
            topology.computation(
                f"relay {stage}", Relay(f"stage {stage}"), {source: _other_key(stage)}, [f"stage {stage}"]
            )
            source = f"stage {stage}"
        topology.computation("count", RunningCount(), {source: cast(KeyExtractor, itemgetter(0))}, ["counts"])
        topology.sink("counts", "counts", CallSink(lambda epoch, rows: None))
        try:
            SparkRunner().run_topology(topology, options(self._home.name))
        except BaseException as failure:
            self._failure = failure
        self._gate.asked.put(time.perf_counter())

    def _wait(self) -> float:
        asked = self._gate.asked.get()
        if self._failure is not None:
            raise self._failure
        return asked

    def begin(self) -> None:
        for _ in range(BEGINNING):
            self.step()

    def rest(self) -> None:
        let_task_leave()

    def step(self) -> float:
        """Seconds from planning the epoch to being ready for the next: its commit, delivery and upkeep included."""
        path = tiny_file(Path(self._home.name), next(self._numbers))
        started = time.perf_counter()
        self._gate.files.put(path)
        return self._wait() - started

    def close(self) -> None:
        self._gate.files.put(None)
        self._thread.join()
        self._home.cleanup()
