"""No framework at all: one Python loop over the events with dictionaries, on one core. Also the expected results."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.dataset import Dataset
from benchmarks.peers.peer import Peer
from benchmarks.workload import GAP, W1, W2, W3, WINDOW, Workload


def _events(dataset: Dataset) -> Iterator[tuple[str, int, int]]:
    columns = pq.read_table(dataset.one).columns
    keys, values, timestamps = columns[0], columns[1], columns[2].cast(pa.int64())
    return zip(keys.to_pylist(), values.to_pylist(), timestamps.to_pylist(), strict=True)


def _table(workload: Workload, rows: Sequence[tuple[object, ...]]) -> pa.Table:
    return pa.table(list(zip(*rows, strict=True)), schema=workload.schema)


def fixed_sums(dataset: Dataset) -> pa.Table:
    sums: dict[tuple[str, int], int] = defaultdict(int)
    for key, value, timestamp in _events(dataset):
        sums[key, timestamp - timestamp % WINDOW] += value
    return _table(W1, [(key, start, total) for (key, start), total in sums.items()])


def session_counts(dataset: Dataset) -> pa.Table:
    timestamps_of: dict[str, list[int]] = defaultdict(list)
    for key, _, timestamp in _events(dataset):
        timestamps_of[key].append(timestamp)
    rows = []
    for key, timestamps in timestamps_of.items():
        timestamps.sort()
        start = last = timestamps[0]
        count = 0
        for timestamp in timestamps:
            if timestamp - last >= GAP:
                rows.append((key, start, last + GAP, count))
                start, count = timestamp, 0
            last = timestamp
            count += 1
        rows.append((key, start, last + GAP, count))
    return _table(W2, rows)


def minute_totals(dataset: Dataset) -> pa.Table:
    pending: dict[int, dict[str, int]] = {}
    totals: dict[str, int] = defaultdict(int)
    rows: list[tuple[str, int, int]] = []
    greatest = due = 0

    def fire(watermark: int) -> None:
        for minute in sorted(minute for minute in pending if minute <= watermark):
            for key, total in pending.pop(minute).items():
                totals[key] += total
                rows.append((key, minute, totals[key]))

    for key, value, timestamp in _events(dataset):
        minute = timestamp - timestamp % WINDOW + WINDOW
        sums = pending.setdefault(minute, {})
        sums[key] = sums.get(key, 0) + value
        if timestamp > greatest:
            greatest = timestamp
            if (watermark := greatest - dataset.plan.greatest_delay) >= due:
                fire(watermark)
                due = watermark - watermark % WINDOW + WINDOW
    fire(max(pending, default=0))
    return _table(W3, rows)


LOOP = Peer(
    "plain Python loop",
    {W1.name: fixed_sums, W2.name: session_counts, W3.name: minute_totals},
    events=1_000_000,
    note="one core, no state kept",
)
