"""PyFlink's DataStream: the file is read and parsed in the JVM, keys, windows and state are the user's Python.

Argument: "process" for Python workers beside the JVM, "thread" for Python inside it. Either way each job has Python
start anew; time is from when the last of its functions is ready.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

from pyflink.common import Row, Time, Types
from pyflink.datastream import (
    AggregateFunction,
    DataStream,
    KeyedProcessFunction,
    ProcessWindowFunction,
    RuntimeContext,
)
from pyflink.datastream.state import MapStateDescriptor, ValueStateDescriptor
from pyflink.datastream.window import EventTimeSessionWindows, TimeWindow, TumblingEventTimeWindows
from pyflink.table import StreamTableEnvironment

from benchmarks.peers.foreign.arrivals import COLUMNS
from benchmarks.peers.foreign.flink import Results, create_events, prepare, start_cluster, stream_environment
from benchmarks.peers.foreign.protocol import Job
from benchmarks.peers.foreign.serving import Started, serve

_MILLISECOND = 1_000


class _Sum(AggregateFunction):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Row, accumulator: int) -> int:
        return accumulator + value[1]

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, one: int, other: int) -> int:
        return one + other


class _Ready:
    """Notes when a worker has its function ready, as a file in a folder."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def open(self, runtime_context: RuntimeContext) -> None:
        (Path(self._folder) / uuid4().hex).write_text(str(time.perf_counter()))


class _Start(_Ready, ProcessWindowFunction):
    def process(self, key: str, context: ProcessWindowFunction.Context, elements: Iterable[int]) -> Iterator[Row]:
        window: TimeWindow = context.window()
        for result in elements:
            yield Row(key, window.start * _MILLISECOND, result)


class _Count(_Ready, ProcessWindowFunction):
    """Counts what the window has kept: in thread mode PyFlink loses a part of what is aggregated when windows merge."""

    def process(self, key: str, context: ProcessWindowFunction.Context, elements: Iterable[Row]) -> Iterator[Row]:
        window: TimeWindow = context.window()
        yield Row(key, window.start * _MILLISECOND, window.end * _MILLISECOND, sum(1 for _ in elements))


class _MinuteTotals(_Ready, KeyedProcessFunction):
    """W3: the total of past minutes, the sums of those to come, and a timer for each of these."""

    def __init__(self, folder: str, length: int) -> None:
        super().__init__(folder)
        self._length = length

    def open(self, runtime_context: RuntimeContext) -> None:
        self._total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))
        self._sums = runtime_context.get_map_state(MapStateDescriptor("sums", Types.LONG(), Types.LONG()))
        super().open(runtime_context)

    def process_element(self, value: Row, ctx: KeyedProcessFunction.Context) -> None:
        timestamp = value[2]
        minute = timestamp - timestamp % self._length + self._length
        summed = self._sums.get(minute)
        if summed is None:
            ctx.timer_service().register_event_time_timer(minute)
        self._sums.put(minute, (summed or 0) + value[1])

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Row]:
        total = (self._total.value() or 0) + self._sums.get(timestamp)
        self._sums.remove(timestamp)
        self._total.update(total)
        yield Row(ctx.get_current_key(), timestamp * _MILLISECOND, total)


def _types(workload: str) -> Any:
    names = COLUMNS[workload]
    return Types.ROW_NAMED(list(names), [Types.STRING(), *[Types.LONG()] * (len(names) - 1)])


def _computed(stream: DataStream, job: Job, folder: str) -> DataStream:
    keyed = stream.key_by(lambda event: event[0], key_type=Types.STRING())
    types = _types(job.workload)
    if job.workload == "W3":
        return keyed.process(_MinuteTotals(folder, job.window // _MILLISECOND), types)
    if job.workload == "W1":
        windows = keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(job.window // _MILLISECOND)))
        return windows.aggregate(_Sum(), _Start(folder), Types.LONG(), types)
    sessions = keyed.window(EventTimeSessionWindows.with_gap(Time.milliseconds(job.gap // _MILLISECOND)))
    return sessions.process(_Count(folder), types)


class Streams:
    """The workloads on one cluster."""

    def __init__(self, mode: str) -> None:
        python = {"python.execution-mode": mode, "python.executable": sys.executable}
        self._settings = {**start_cluster(), **python, "python.client.executable": sys.executable}

    def run(self, job: Job) -> Started:
        tables = StreamTableEnvironment.create(stream_environment(self._settings))
        tables.get_config().set_local_timezone("UTC")
        results = Results(dict.fromkeys(COLUMNS[job.workload], "BIGINT") | {"key": "STRING"})
        with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder, results:
            create_events(tables, job)
            results.create(tables)
            events = tables.to_data_stream(tables.sql_query("SELECT word, number, ms, happened FROM events"))
            rows = tables.from_data_stream(_computed(events, job, folder))
            rows.execute_insert("results").wait()
            ready = max(float(note.read_text()) for note in Path(folder).iterdir())
            return Started(results.read(), ready)


if __name__ == "__main__":
    serve(lambda: dict.fromkeys(COLUMNS, Streams(sys.argv[1]).run), prepare)
