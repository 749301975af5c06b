"""Ours, on Spark: W1 and W2 as pipelines in Beam's names, W3 as a raw computation inside one.

Bounded: the file in one epoch (the default size), its end ends all windows. Streamed: the row of files in epochs of one
file's size, with a watermark that stays the greatest delay behind, as in the queries of `transformWithState`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from typing import cast

import pyarrow as pa

import headrace as beam
from benchmarks.dataset import FILE_EVENTS, Dataset
from benchmarks.generator import SECOND
from benchmarks.peers.peer import Peer, Run
from benchmarks.session import start_session
from benchmarks.workload import GAP, W1, W2, W3, WINDOW, Workload
from headrace.io import ReadFromParquet, Write
from headrace.lowlevel import CallSink, Computation
from headrace.lowlevel.computation import Context
from headrace.lowlevel.record import Record
from headrace.lowlevel.timer import Timer
from headrace.options.pipeline_options import PipelineOptions
from headrace.transforms.window import FixedWindows, IntervalWindow, Sessions

Row = tuple[object, ...]
Event = tuple[str, int]
"""Key and value."""
Elements = beam.PCollection[object]
_FIELDS = ["key", "value"]


def _event(row: dict[str, object]) -> Event:
    return cast(Event, (row["key"], row["value"]))


def _key(event: object) -> str:
    return cast(Event, event)[0]


def _sum_row(summed: Event, window: IntervalWindow = beam.DoFn.WindowParam) -> Row:
    return summed[0], window.start.micros, summed[1]


def _count_row(counted: Event, window: IntervalWindow = beam.DoFn.WindowParam) -> Row:
    return counted[0], window.start.micros, window.end.micros, counted[1]


class MinuteTotals(Computation):
    """W3: state is the total of past minutes and the sums of those to come, a timer for each of these."""

    def initial_state(self) -> object:
        return [0, {}]

    def process_record(self, record: Record, context: Context) -> None:
        sums = cast("list[dict[int, int]]", context.state)[1]
        minute = record.timestamp - record.timestamp % WINDOW + WINDOW
        if minute not in sums:
            sums[minute] = 0
            context.set_timer(str(minute), minute)
        sums[minute] += cast(Event, record.value)[1]

    def process_timer(self, timer: Timer, context: Context) -> None:
        state = cast("list[int]", context.state)
        state[0] += cast("list[dict[int, int]]", state)[1].pop(timer.timestamp)
        context.produce("totals", (context.key, timer.timestamp, state[0]))


def fixed_sums(events: Elements) -> Elements:
    windowed = events | beam.WindowInto(FixedWindows(WINDOW // SECOND))
    return windowed | beam.CombinePerKey(sum) | "Row" >> beam.Map(_sum_row)


def session_counts(events: Elements) -> Elements:
    windowed = events | beam.WindowInto(Sessions(GAP // SECOND))
    return windowed | beam.combiners.Count.PerKey() | "Row" >> beam.Map(_count_row)


def minute_totals(events: Elements) -> Elements:
    return cast(Elements, events | beam.RunComputation(MinuteTotals(), key=_key, outputs="totals"))


Build = Callable[[Elements], Elements]
_BUILDS: list[tuple[Workload, Build]] = [(W1, fixed_sums), (W2, session_counts), (W3, minute_totals)]


def _bounded(workload: Workload, build: Build, durable: bool) -> Run:
    def run(dataset: Dataset) -> pa.Table:
        return _run(workload, build, ReadFromParquet(str(dataset.one), columns=_FIELDS, timestamp="timestamp"), durable)

    return run


def _streamed(workload: Workload, build: Build) -> Run:
    def run(dataset: Dataset) -> pa.Table:
        delay = dataset.plan.greatest_delay // SECOND
        pattern = f"{dataset.many}/*.parquet"
        reading = ReadFromParquet(pattern, columns=_FIELDS, timestamp="timestamp", max_delay=delay)
        return _run(workload, build, reading, durable=True, max_records_per_epoch=FILE_EVENTS)

    return run


def _run(workload: Workload, build: Build, reading: ReadFromParquet, durable: bool, **options: object) -> pa.Table:
    start_session()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
        if durable:
            options["checkpoint"] = f"{folder}/checkpoint"
        with beam.Pipeline("SparkRunner", options=PipelineOptions([], **options)) as pipeline:
            events = pipeline | reading | "Event" >> beam.Map(_event)
            sink = CallSink(lambda epoch, delivered: rows.extend(cast(Row, row) for row, _ in delivered))
            _ = build(events) | Write(sink)
    return pa.table(list(zip(*rows, strict=True)), schema=workload.schema)


IN_MEMORY = Peer(
    "Headrace in memory",
    {workload.name: _bounded(workload, build, durable=False) for workload, build in _BUILDS},
    events=1_000_000,
    warm_whole=True,
    note="local[2], bounded, the checkpoint goes with the run",
)
BOUNDED = Peer(
    "Headrace bounded",
    {workload.name: _bounded(workload, build, durable=True) for workload, build in _BUILDS},
    events=1_000_000,
    note="local[2], durable checkpoint",
)
STREAMED = Peer(
    "Headrace streamed",
    {workload.name: _streamed(workload, build) for workload, build in _BUILDS},
    events=1_000_000,
    note=f"local[2], epochs of {FILE_EVENTS:,}, durable checkpoint",
)
