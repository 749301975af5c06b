"""No framework at all: one Python loop over the events with dictionaries, on one core. Also the expected results."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import islice, product
from math import inf
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.dataset import FILE_EVENTS, Dataset
from benchmarks.generator import MINUTE
from benchmarks.panes import EARLY, LATE, ON_TIME
from benchmarks.peers.peer import Peer
from benchmarks.result import Rows
from benchmarks.steps import DISCOUNT, DISCOUNT_FROM, LEAST, REGIONS
from benchmarks.workload import GAP, PERIOD, W1, W2, W3, W4, W5, W7, W8, W9, WINDOW


def _events(dataset: Dataset) -> Iterator[tuple[str, int, int]]:
    return _read(dataset.one)


def _read(path: Path) -> Iterator[tuple[str, int, int]]:
    columns = pq.read_table(path).columns
    keys, values, timestamps = columns[0], columns[1], columns[2].cast(pa.int64())
    return zip(keys.to_pylist(), values.to_pylist(), timestamps.to_pylist(), strict=True)


def fixed_sums(dataset: Dataset) -> Rows:
    sums: dict[tuple[str, int], int] = defaultdict(int)
    for key, value, timestamp in _events(dataset):
        sums[key, timestamp - timestamp % WINDOW] += value
    return [(key, start, total) for (key, start), total in sums.items()]


def session_counts(dataset: Dataset) -> Rows:
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
    return rows


def minute_totals(dataset: Dataset) -> Rows:
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
    return rows


class _Panes:
    """W4: sums by window, and the panes that they have put out."""

    def __init__(self) -> None:
        self._sums: dict[int, dict[str, list[int]]] = {}
        """Start -> key -> sum and number of panes."""
        self._open: set[int] = set()
        """Starts of windows whose end the watermark has not reached."""
        self.watermark = -inf
        self.rows: list[tuple[object, ...]] = []

    def add(self, events: Iterable[tuple[str, int, int]]) -> int:
        """Take a bundle in, and fire once for each window that got something; the greatest timestamp."""
        touched: dict[int, dict[str, list[int]]] = {}
        greatest = 0
        for key, value, timestamp in events:
            start = timestamp - timestamp % WINDOW
            sums = self._sums.setdefault(start, {})
            state = sums.get(key)
            if state is None:
                state = sums[key] = [0, 0]
            state[0] += value
            touched.setdefault(start, {})[key] = state
            if timestamp > greatest:
                greatest = timestamp
        for start, states in touched.items():
            self._fire(start, states, LATE if start + WINDOW <= self.watermark else EARLY)
            if start + WINDOW > self.watermark:
                self._open.add(start)
        return greatest

    def reach(self, watermark: float) -> None:
        """The watermark moves on: windows that end fire again."""
        for start in sorted(start for start in self._open if start + WINDOW <= watermark):
            self._open.remove(start)
            self._fire(start, self._sums[start], ON_TIME)
        self.watermark = watermark

    def _fire(self, start: int, states: dict[str, list[int]], timing: int) -> None:
        for key, state in states.items():
            self.rows.append((key, start, timing, state[1], state[0]))
            state[1] += 1


def panes(dataset: Dataset) -> Rows:
    """In bundles of a file's size, with a watermark that late events are behind."""
    events, windows, greatest = _events(dataset), _Panes(), 0
    while bundle := list(islice(events, FILE_EVENTS)):
        greatest = max(greatest, windows.add(bundle))
        windows.reach(greatest - dataset.plan.disorder)
    windows.reach(inf)
    return windows.rows


def sliding_sums(dataset: Dataset) -> Rows:
    sums: dict[tuple[str, int], int] = defaultdict(int)
    for key, value, timestamp in _events(dataset):
        last = timestamp - timestamp % PERIOD
        for start in range(last, last - WINDOW, -PERIOD):
            sums[key, start] += value
    return [(key, start, total) for (key, start), total in sums.items()]


def ten_steps(dataset: Dataset) -> Rows:
    totals: dict[str, int] = defaultdict(int)
    for line in pq.read_table(dataset.lines.one)["line"].to_pylist():
        key, text, micros = line.split(",")
        value, at = int(text), int(micros)
        if value <= LEAST:
            continue
        number, minute = int(key[4:]), at // MINUTE % 60
        for part in (value,) if value % 2 else (value, 101 - value):
            amount = part * 3 + minute
            region = REGIONS[number % 12]
            if amount % 7 != 0:
                totals[region] += amount - DISCOUNT if amount >= DISCOUNT_FROM else amount
    return list(totals.items())


def summaries(dataset: Dataset) -> Rows:
    pending: dict[int, dict[str, list[int]]] = {}
    rows: list[tuple[object, ...]] = []
    greatest = due = 0

    def fire(watermark: int) -> None:
        for end in sorted(end for end in pending if end <= watermark):
            rows.extend((key, end, len(bag), sum(bag), max(bag)) for key, bag in pending.pop(end).items())

    for key, value, timestamp in _events(dataset):
        end = timestamp - timestamp % WINDOW + WINDOW
        pending.setdefault(end, {}).setdefault(key, []).append(value)
        if timestamp > greatest:
            greatest = timestamp
            if (watermark := greatest - dataset.plan.greatest_delay) >= due:
                fire(watermark)
                due = watermark - watermark % WINDOW + WINDOW
    fire(max(pending, default=0))
    return rows


def clicked(dataset: Dataset) -> Rows:
    groups: dict[tuple[str, int, int], tuple[list[int], list[int]]] = {}
    for side, path in enumerate((dataset.one, dataset.clicks.one)):
        for key, value, timestamp in _read(path):
            group = key, value, timestamp - timestamp % WINDOW
            if group not in groups:
                groups[group] = [], []
            groups[group][side].append(timestamp)
    return [(*group, *pair) for group, sides in groups.items() for pair in product(*sides)]


LOOP = Peer(
    "plain Python loop",
    {
        W1.name: fixed_sums,
        W2.name: session_counts,
        W3.name: minute_totals,
        W4.name: panes,
        W5.name: sliding_sums,
        W7.name: ten_steps,
        W8.name: summaries,
        W9.name: clicked,
    },
    events=1_000_000,
    note="one core, no state kept",
)
