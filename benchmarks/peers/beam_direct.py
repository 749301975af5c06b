"""Apache Beam's own Python runner for bounded input, in this process and without a network."""

# Beam's decorators and default arguments mean nothing to a type checker.
# mypy: ignore-errors

from __future__ import annotations

from collections.abc import Iterable

import apache_beam as beam
import pyarrow as pa
from apache_beam.coders import PickleCoder
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec, TimerSpec, on_timer
from apache_beam.transforms.window import FixedWindows, Sessions
from apache_beam.utils.timestamp import Timestamp

from benchmarks.dataset import Dataset
from benchmarks.generator import SECOND
from benchmarks.peers.beam_inputs import Row, events, run
from benchmarks.peers.beam_pipelines import PIPELINES
from benchmarks.peers.peer import Peer
from benchmarks.workload import GAP, W1, W2, W3, W5, W8, W9, WINDOW, Workload


def _with_window(counted: tuple[str, int], window: object = beam.DoFn.WindowParam) -> Row:
    key, result = counted
    return key, window.start.micros, window.end.micros, result


def _run(workload: Workload, dataset: Dataset, compute: beam.PTransform) -> pa.Table:
    return run(workload, lambda pipeline: events(pipeline, dataset.one) | compute)


def fixed_sums(dataset: Dataset) -> pa.Table:
    windows = "windows" >> beam.WindowInto(FixedWindows(WINDOW // SECOND))
    sums = "sums" >> beam.CombinePerKey(sum)
    without_end = "rows" >> beam.Map(lambda row: (row[0], row[1], row[3]))
    return _run(W1, dataset, _Chain(windows, sums, "window" >> beam.Map(_with_window), without_end))


def session_counts(dataset: Dataset) -> pa.Table:
    windows = "windows" >> beam.WindowInto(Sessions(GAP // SECOND))
    counts = "counts" >> beam.combiners.Count.PerKey()
    return _run(W2, dataset, _Chain(windows, counts, "window" >> beam.Map(_with_window)))


class _Chain(beam.PTransform):
    """Transforms in a row."""

    def __init__(self, *transforms: beam.PTransform) -> None:
        super().__init__()
        self._transforms = transforms

    def expand(self, collection: beam.PCollection) -> beam.PCollection:
        for transform in self._transforms:
            collection = collection | transform
        return collection


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


def minute_totals(dataset: Dataset) -> pa.Table:
    return _run(W3, dataset, "totals" >> beam.ParDo(MinuteTotals()))


BEAM = Peer(
    "Beam direct runner",
    {W1.name: fixed_sums, W2.name: session_counts, W3.name: minute_totals, **PIPELINES},
    events=100_000,
    fewer={W5.name: 20_000, W8.name: 10_000, W9.name: 20_000},
    note="FnApiRunner, in memory",
)
