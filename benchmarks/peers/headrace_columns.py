"""Our engine where a program says what it wants by names of columns: no Python value is made of a record."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from typing import Any, ClassVar, cast

import pyarrow as pa

import headrace as beam
from benchmarks.dataset import FILE_EVENTS, Dataset
from benchmarks.generator import SECOND
from benchmarks.panes import require_late
from benchmarks.peers.headrace import MANY
from benchmarks.peers.headrace_inputs import Elements, Inputs
from benchmarks.peers.headrace_pipelines import windows_with_panes
from benchmarks.peers.peer import Peer, Run
from benchmarks.session import spark_processes, start_session
from benchmarks.workload import GAP, PERIOD, W1, W2, W3, W4, W5, W9, WINDOW, Workload
from headrace.lowlevel import ColumnComputation, ColumnContext, RecordColumns, TimerColumns
from headrace.options.pipeline_options import PipelineOptions
from headrace.transforms.schemas import Join
from headrace.transforms.window import FixedWindows, IntervalWindow, Sessions, SlidingWindows


class MinuteTotals(ColumnComputation):
    """W3: state is the total of past minutes; the sums of those to come are what timers come with."""

    state_fields: ClassVar = {"total": int}
    timer_fields: ClassVar = {"sum": int}
    combine_timers: ClassVar = {"sum": "sum"}

    def process_columns(self, batch: RecordColumns, context: ColumnContext) -> None:
        minutes = batch.timestamps - batch.timestamps % WINDOW + WINDOW
        context.set_timers(minutes, sum=batch["value"])

    def process_timers(self, due: TimerColumns, context: ColumnContext) -> None:
        totals = due.running_sum(due["sum"], context.state["total"])
        context.state["total"] = totals[due.last]
        context.produce_columns("totals", {"key": due.key_values(), "minute": due.timestamps, "total": totals})


def fixed_sums(rows: Elements) -> Elements:
    windowed = rows | beam.WindowInto(FixedWindows(WINDOW // SECOND))
    summed = windowed | beam.GroupBy("key").aggregate_field("value", sum, "sum")
    return summed | beam.Select("key", start=beam.window_start(), sum="sum")


def session_counts(rows: Elements) -> Elements:
    windowed = rows | beam.WindowInto(Sessions(GAP // SECOND))
    counted = windowed | beam.GroupBy("key").aggregate_field("value", beam.combiners.CountCombineFn(), "count")
    return counted | beam.Select("key", start=beam.window_start(), end=beam.window_end(), count="count")


def minute_totals(rows: Elements) -> Elements:
    return cast(Elements, rows | beam.RunComputation(MinuteTotals(), key=beam.col.key, outputs="totals"))


def panes(inputs: Inputs) -> Elements:
    windowed = inputs.rows(behind=inputs.late()) | windows_with_panes()
    summed = windowed | beam.GroupBy("key").aggregate_field("value", sum, "sum")
    of_pane = {"timing": beam.pane_timing(), "index": beam.pane_index()}
    return summed | beam.Select("key", start=beam.window_start(), **of_pane, sum="sum")


def sliding_sums(rows: Elements) -> Elements:
    windowed = rows | beam.WindowInto(SlidingWindows(WINDOW // SECOND, PERIOD // SECOND))
    summed = windowed | beam.GroupBy("key").aggregate_field("value", sum, "sum")
    return summed | beam.Select("key", start=beam.window_start(), sum="sum")


def _sale(row: Any, window: IntervalWindow = beam.DoFn.WindowParam) -> dict[str, object]:
    return {
        "key": row.shown.key,
        "value": row.shown.value,
        "start": window.start,
        "shown": row.shown.at,
        "clicked": row.click.at,
    }


def clicked(inputs: Inputs) -> Elements:
    windows = FixedWindows(WINDOW // SECOND)
    shown, clicks = (
        rows
        | f"Times {name}" >> beam.Select("key", "value", at=beam.event_time())
        | f"Windows {name}" >> beam.WindowInto(windows)
        for name, rows in (("shown", inputs.rows()), ("clicked", inputs.click_rows()))
    )
    return shown | Join(clicks, ["key", "value"], names=("shown", "click")) | beam.Map(_sale)


def _of_rows(build: Callable[[Elements], Elements]) -> Callable[[Inputs], Elements]:
    return lambda inputs: build(inputs.rows())


_BUILDS: list[tuple[Workload, Callable[[Inputs], Elements]]] = [
    (W1, _of_rows(fixed_sums)),
    (W2, _of_rows(session_counts)),
    (W3, _of_rows(minute_totals)),
    (W4, panes),
    (W5, _of_rows(sliding_sums)),
    (W9, clicked),
]


def _run(workload: Workload, build: Callable[[Inputs], Elements], streamed: bool) -> Run:
    def run(dataset: Dataset) -> pa.Table:
        start_session()
        tables: list[pa.Table] = []
        options: dict[str, object] = {"max_records_per_epoch": FILE_EVENTS} if streamed else {}
        with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
            options["checkpoint"] = f"{folder}/checkpoint"
            with beam.Pipeline("SparkRunner", options=PipelineOptions([], **options)) as pipeline:
                results = build(Inputs(pipeline, dataset, streamed))
                _ = results | beam.io.WriteToTables(lambda epoch, table: tables.append(table))
        result = pa.concat_tables(tables)
        if workload is W4 and streamed and dataset.events >= MANY:
            require_late(result["timing"].to_pylist())
        return result

    return run


COLUMNS_BOUNDED = Peer(
    "Headrace columns bounded",
    {workload.name: _run(workload, build, streamed=False) for workload, build in _BUILDS},
    events=1_000_000,
    warm_whole=True,
    note="the same, by names of columns, W3 as a ColumnComputation; local[2], durable checkpoint",
    processes=spark_processes,
)
COLUMNS_STREAMED = Peer(
    "Headrace columns streamed",
    {workload.name: _run(workload, build, streamed=True) for workload, build in _BUILDS},
    events=1_000_000,
    note=f"the same, by names of columns; local[2], epochs of {FILE_EVENTS:,}, durable checkpoint",
    processes=spark_processes,
)
