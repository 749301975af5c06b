"""Pathway: whole tables at once ("static"), or a connector that reads file by file ("streaming").

W3 is a running total over the sums of minutes. In a stream a window gives its sum once, when event time has passed its
end by the greatest delay, and a stateful reducer carries each key's total from then to then. Pathway's session windows
know no such end, so W2 is there for whole tables only.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import accumulate
from typing import Any

import pandas as pd
import pathway as pw
import pyarrow as pa
import pyarrow.parquet as pq
from pathway.internals.parse_graph import G

from benchmarks.peers.foreign.arrivals import COLUMNS, Rows, events
from benchmarks.peers.foreign.protocol import Job
from benchmarks.peers.foreign.serving import serve


class Event(pw.Schema):
    key: str
    value: int
    time: int


def _whole(job: Job) -> pw.Table:
    read = pq.read_table(job.one)
    times = read.column("timestamp").cast(pa.int64())
    frame = read.set_column(read.schema.get_field_index("timestamp"), "time", times).to_pandas()
    return pw.debug.table_from_pandas(frame[["key", "value", "time"]], unsafe_trusted_ids=True)


class _Files(pw.io.python.ConnectorSubject):
    def __init__(self, files: list[str]) -> None:
        super().__init__()
        self._files = files

    def run(self) -> None:
        for path in self._files:
            for key, value, timestamp in events(path):
                self.next(key=key, value=value, time=timestamp)
            self.commit()


def _stream(job: Job) -> pw.Table:
    return pw.io.python.read(_Files(job.many), schema=Event, autocommit_duration_ms=None)


def _sums(job: Job) -> pw.Table:
    """Static: sum by key and minute. Grouping by a computed column is a little quicker here than `windowby`."""
    minutes = _whole(job).select(pw.this.key, pw.this.value, start=pw.this.time - pw.this.time % job.window)
    return minutes.groupby(pw.this.key, pw.this.start).reduce(
        pw.this.key, pw.this.start, sum=pw.reducers.sum(pw.this.value)
    )


def _sums_once(job: Job) -> pw.Table:
    """Streaming: each window's sum, once."""
    windows = _stream(job).windowby(
        pw.this.time,
        window=pw.temporal.tumbling(duration=job.window),
        instance=pw.this.key,
        behavior=pw.temporal.exactly_once_behavior(job.delay),
    )
    return windows.reduce(key=pw.this._pw_instance, start=pw.this._pw_window_start, sum=pw.reducers.sum(pw.this.value))


def _counts(job: Job) -> pw.Table:
    windows = _whole(job).windowby(pw.this.time, window=pw.temporal.session(max_gap=job.gap), instance=pw.this.key)
    return windows.reduce(
        key=pw.this._pw_instance,
        start=pw.this._pw_window_start,
        end=pw.this._pw_window_end + job.gap,
        count=pw.reducers.count(),
    )


Totals = tuple[tuple[int, int], ...]
"""Minute and total, in order of the minutes."""


@pw.udf
def _running(sums: tuple[tuple[int, int], ...]) -> Totals:
    return tuple(accumulate(sums, lambda total, pair: (pair[0], total[1] + pair[1])))


@pw.reducers.stateful_many
def _carried(reported: Totals | None, rows: list[tuple[list[int], int]]) -> Totals:
    """What one step of the stream adds; the last of it is all that the next step needs."""
    total = reported[-1][1] if reported else 0
    sums = sorted((start, summed) for (start, summed), _ in rows)
    return tuple((start, total := total + summed) for start, summed in sums)


def _totals(job: Job) -> pw.Table:
    sums = _sums(job)
    pairs = sums.groupby(pw.this.key).reduce(
        pw.this.key, pairs=pw.reducers.sorted_tuple(pw.make_tuple(pw.this.start, pw.this.sum))
    )
    return _rows(job, pairs.select(pw.this.key, totals=_running(pw.this.pairs)))


def _totals_carried(job: Job) -> pw.Table:
    sums = _sums_once(job)
    carried = sums.groupby(pw.this.key).reduce(pw.this.key, totals=_carried(pw.this.start, pw.this.sum))
    return _rows(job, carried)


def _rows(job: Job, totals: pw.Table) -> pw.Table:
    each = totals.select(pw.this.key, pair=pw.declare_type(list[tuple[int, int]], pw.this.totals)).flatten(pw.this.pair)
    return each.select(pw.this.key, minute=pw.this.pair.get(0) + job.window, total=pw.this.pair.get(1))


def _computed(job: Job, result: pw.Table) -> pa.Table:
    frame: pd.DataFrame = pw.debug.table_to_pandas(result, include_id=False)
    return pa.Table.from_pandas(frame, preserve_index=False).select(COLUMNS[job.workload])


def _streamed(job: Job, result: pw.Table) -> Rows:
    """Every row that was put out, whether or not a later step took it back."""
    names = COLUMNS[job.workload]
    rows: list[tuple[Any, ...]] = []

    def take(key: pw.Pointer, row: dict[str, Any], time: int, is_addition: bool) -> None:
        if is_addition:
            rows.append(tuple(row[name] for name in names))

    pw.io.subscribe(result, on_change=take)
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)
    return rows


def _run(build: Callable[[Job], pw.Table], collect: Callable[[Job, pw.Table], pa.Table]) -> Callable[[Job], pa.Table]:
    def run(job: Job) -> pa.Table:
        G.clear()
        return collect(job, build(job))

    return run


RUNS = {
    "static": {"W1": _run(_sums, _computed), "W2": _run(_counts, _computed), "W3": _run(_totals, _computed)},
    "streaming": {"W1": _run(_sums_once, _streamed), "W3": _run(_totals_carried, _streamed)},
}

if __name__ == "__main__":
    serve(lambda: RUNS[sys.argv[1]])
