"""Ours, on Spark: pipelines in Beam's names, W3 as a raw computation inside one.

Bounded: the file in one epoch (the default size), its end ends all windows. Streamed: the row of files in epochs of one
file's size, with a watermark that stays the greatest delay behind, as in the queries of `transformWithState`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from typing import Any, cast

import headrace as beam
from benchmarks.dataset import FILE_EVENTS, Dataset
from benchmarks.generator import SECOND
from benchmarks.panes import PANE_COLUMNS, require_late
from benchmarks.peers.headrace_inputs import Elements, Event, Inputs
from benchmarks.peers.headrace_pipelines import PIPELINES, sum_row
from benchmarks.peers.peer import Peer, Run
from benchmarks.result import Rows
from benchmarks.session import spark_processes, start_session
from benchmarks.workload import GAP, W1, W2, W3, W4, WINDOW, Workload
from headrace.io import Write
from headrace.lowlevel import CallSink, Computation
from headrace.lowlevel.topology.timer import Timer
from headrace.options.pipeline_options import PipelineOptions
from headrace.transforms.window import FixedWindows, IntervalWindow, Sessions

Row = tuple[object, ...]
MANY = 10 * FILE_EVENTS
"""Events in whose stream some are sure to be late."""


def _count_row(counted: Event, window: IntervalWindow = beam.DoFn.WindowParam) -> Row:
    return counted[0], window.start.micros, window.end.micros, counted[1]


class MinuteTotals(Computation):
    """W3: state is the total of past minutes and the sums of those to come, a timer for each of these."""

    def initial_state(self) -> object:
        return [0, {}]

    # As a user would write it: `cast` is a call, and there are two million places for it.
    def process_record(self, record: Any, context: Any) -> None:
        sums = context.state[1]
        minute = record.timestamp - record.timestamp % WINDOW + WINDOW
        if minute not in sums:
            sums[minute] = 0
            context.set_timer(str(minute), minute)
        sums[minute] += record.value["value"]

    def process_timer(self, timer: Timer, context: Any) -> None:
        state = context.state
        state[0] += state[1].pop(timer.timestamp)
        context.produce("totals", (context.key, timer.timestamp, state[0]))


def fixed_sums(events: Elements) -> Elements:
    windowed = events | beam.WindowInto(FixedWindows(WINDOW // SECOND))
    return windowed | beam.CombinePerKey(sum) | "Row" >> beam.Map(sum_row)


def session_counts(events: Elements) -> Elements:
    windowed = events | beam.WindowInto(Sessions(GAP // SECOND))
    return windowed | beam.combiners.Count.PerKey() | "Row" >> beam.Map(_count_row)


def minute_totals(inputs: Inputs) -> Elements:
    return cast(Elements, inputs.rows() | beam.RunComputation(MinuteTotals(), key=beam.col.key, outputs="totals"))


def _of_events(build: Callable[[Elements], Elements]) -> Callable[[Inputs], Elements]:
    return lambda inputs: build(inputs.events())


_BUILDS = {
    W1: _of_events(fixed_sums),
    W2: _of_events(session_counts),
    W3: minute_totals,
    **PIPELINES,
}


def _runs(durable: bool, streamed: bool) -> dict[str, Run]:
    return {workload.name: _Run(workload, durable, streamed) for workload in _BUILDS}


class _Run:
    """A workload's run, in memory or durable; bounded, or streamed in epochs of a file's size."""

    def __init__(self, workload: Workload, durable: bool, streamed: bool) -> None:
        self._workload, self._durable, self._streamed = workload, durable, streamed

    def __call__(self, dataset: Dataset) -> Rows:
        start_session()
        rows: list[Row] = []
        options: dict[str, object] = {"max_records_per_epoch": FILE_EVENTS} if self._streamed else {}
        with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
            if self._durable:
                options["checkpoint"] = f"{folder}/checkpoint"
            with beam.Pipeline("SparkRunner", options=PipelineOptions([], **options)) as pipeline:
                sink = CallSink(lambda epoch, delivered: rows.extend(cast(Row, row) for row, _ in delivered))
                _ = _BUILDS[self._workload](Inputs(pipeline, dataset, self._streamed)) | Write(sink)
        if self._workload is W4 and self._streamed and dataset.events >= MANY:
            require_late(row[PANE_COLUMNS.index("timing")] for row in rows)
        return rows


IN_MEMORY = Peer(
    "Headrace in memory",
    _runs(durable=False, streamed=False),
    events=1_000_000,
    warm_whole=True,
    note="local[2], bounded, the checkpoint goes with the run",
    processes=spark_processes,
)
BOUNDED = Peer(
    "Headrace bounded",
    _runs(durable=True, streamed=False),
    events=1_000_000,
    note="local[2], durable checkpoint",
    processes=spark_processes,
)
STREAMED = Peer(
    "Headrace streamed",
    _runs(durable=True, streamed=True),
    events=1_000_000,
    note=f"local[2], epochs of {FILE_EVENTS:,}, durable checkpoint",
    processes=spark_processes,
)
