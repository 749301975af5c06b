"""Programs of Apache Beam's SDK, on its own Python runner and, unchanged, on ours: in memory and on Spark.

Beam's runner is the one for bounded input, in this process and without a network.
"""

# Beam's decorators and default arguments mean nothing to a type checker.
# mypy: ignore-errors

from __future__ import annotations

import tempfile
from collections.abc import Iterable

import apache_beam as beam
from apache_beam.coders import PickleCoder
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec, TimerSpec, on_timer
from apache_beam.transforms.window import FixedWindows, Sessions
from apache_beam.utils.timestamp import Timestamp

from benchmarks.dataset import Dataset
from benchmarks.generator import SECOND
from benchmarks.peers.beam_inputs import HEADRACE, Collect, Row, collected, events
from benchmarks.peers.beam_pipelines import PIPELINES
from benchmarks.peers.peer import Peer
from benchmarks.result import Rows
from benchmarks.session import spark_processes, start_session
from benchmarks.workload import GAP, W1, W2, W3, W5, W8, W9, WINDOW, Workload


def _with_window(counted: tuple[str, int], window: object = beam.DoFn.WindowParam) -> Row:
    key, result = counted
    return key, window.start.micros, window.end.micros, result


def fixed_sums(pipeline: beam.Pipeline, dataset: Dataset) -> beam.PCollection:
    windowed = events(pipeline, dataset.one) | beam.WindowInto(FixedWindows(WINDOW // SECOND))
    rows = windowed | beam.CombinePerKey(sum) | "window" >> beam.Map(_with_window)
    return rows | "rows" >> beam.Map(lambda row: (row[0], row[1], row[3]))


def session_counts(pipeline: beam.Pipeline, dataset: Dataset) -> beam.PCollection:
    windowed = events(pipeline, dataset.one) | beam.WindowInto(Sessions(GAP // SECOND))
    return windowed | beam.combiners.Count.PerKey() | "window" >> beam.Map(_with_window)


class MinuteTotals(beam.DoFn):
    """W3: state is the total of past minutes and the sums of those to come, a timer for each of these.

    The runner fires the timers of a key in any order, so each reports all minutes up to its own. One timer, always
    set to the earliest minute, takes the runner nearly twice as long.
    """

    STATE = ReadModifyWriteStateSpec("totals", PickleCoder())
    TIMER = TimerSpec("minute", TimeDomain.WATERMARK)

    def process(
        self,
        element: tuple[str, int],
        timestamp: Timestamp = beam.DoFn.TimestampParam,
        state: object = beam.DoFn.StateParam(STATE),
        timer: object = beam.DoFn.TimerParam(TIMER),
    ) -> None:
        total, sums = state.read() or (0, {})
        minute = timestamp.micros - timestamp.micros % WINDOW + WINDOW
        if minute not in sums:
            sums[minute] = 0
            timer.set(Timestamp(micros=minute), dynamic_timer_tag=str(minute))
        sums[minute] += element[1]
        state.write((total, sums))

    @on_timer(TIMER)
    def report(
        self,
        key: str = beam.DoFn.KeyParam,
        timestamp: Timestamp = beam.DoFn.TimestampParam,
        state: object = beam.DoFn.StateParam(STATE),
    ) -> Iterable[Row]:
        total, sums = state.read()
        for minute in sorted(minute for minute in sums if minute <= timestamp.micros):
            total += sums.pop(minute)
            yield key, minute, total
        state.write((total, sums))


def minute_totals(pipeline: beam.Pipeline, dataset: Dataset) -> beam.PCollection:
    return events(pipeline, dataset.one) | "totals" >> beam.ParDo(MinuteTotals())


_BUILDS = {W1: fixed_sums, W2: session_counts, W3: minute_totals, **PIPELINES}


class _Run:
    """A workload's run on one runner.

    Args:
        workload: Which.
        flags: Options that name the runner.
    """

    def __init__(self, workload: Workload, *flags: str) -> None:
        self._workload, self._flags = workload, flags

    def __call__(self, dataset: Dataset) -> Rows:
        with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
            with beam.Pipeline(options=PipelineOptions(self._flags)) as pipeline:
                rows = _BUILDS[self._workload](pipeline, dataset)
                _ = rows | "Collect" >> beam.ParDo(Collect(folder))
            return list(collected(folder))


class _RunOnSpark(_Run):
    """The same in the Spark session of the other systems."""

    def __call__(self, dataset: Dataset) -> Rows:
        start_session()
        return super().__call__(dataset)


BEAM = Peer(
    "Beam direct runner",
    {workload.name: _Run(workload, "--runner=FnApiRunner") for workload in _BUILDS},
    events=100_000,
    fewer={W5.name: 20_000, W8.name: 10_000, W9.name: 20_000},
    note="FnApiRunner, in memory",
)
LOCAL = Peer(
    "Beam program, Headrace in memory",
    {workload.name: _Run(workload, HEADRACE, "--headrace_runner=LocalRunner") for workload in _BUILDS},
    events=100_000,
    note="the same program, one process",
)
ON_SPARK = Peer(
    "Beam program, Headrace on Spark",
    {workload.name: _RunOnSpark(workload, HEADRACE, "--headrace_runner=SparkRunner") for workload in _BUILDS},
    events=1_000_000,
    note="the same program, local[2], the checkpoint goes with the run",
    processes=spark_processes,
)
