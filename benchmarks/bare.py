"""What W3's own functions cost with no engine around them, beside the plain loop: `python -m benchmarks.bare`.

The functions of `benchmarks.peers.headrace.MinuteTotals` are called as the engine must call them, with a record and a
context, which does nothing but hold the state and note timers. Records are grouped by key beforehand and timers fire in
order afterwards; neither reading, grouping, encoding nor storing is in it. An engine that calls these functions can be
no quicker, on as many cores as there are. Processor time, so a busy machine does not matter much.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Annotated

import pyarrow as pa
import pyarrow.parquet as pq
import typer

from benchmarks.dataset import FILE_EVENTS, Dataset, datasets
from benchmarks.generator import Plan
from benchmarks.peers.headrace import MinuteTotals
from benchmarks.peers.loop import LOOP
from benchmarks.report import print_table, rounded, save
from benchmarks.result import canonical, difference
from benchmarks.workload import W3
from headrace.lowlevel import Record, TimeDomain, Timer

Groups = list[dict[str, list[Record]]]
"""Epoch -> key -> records."""


class Bare:
    """As little of a context as the functions need."""

    __slots__ = ("key", "rows", "state", "timers")

    def __init__(self) -> None:
        self.key = ""
        self.state: object = None
        self.timers: list[tuple[int, str, str]] = []
        self.rows: list[object] = []

    def set_timer(self, tag: str, timestamp: int) -> None:
        self.timers.append((timestamp, self.key, tag))

    def produce(self, stream: str, value: object) -> None:
        self.rows.append(value)


def grouped(dataset: Dataset, size: int) -> Groups:
    """The events as records, in epochs of so many."""
    columns = pq.read_table(dataset.one).columns
    keys, values, times = columns[0].to_pylist(), columns[1].to_pylist(), columns[2].cast(pa.int64()).to_pylist()
    groups: Groups = []
    for start in range(0, len(keys), size):
        by_key: dict[str, list[Record]] = {}
        for at in range(start, min(start + size, len(keys))):
            record = Record(keys[at], {"key": keys[at], "value": values[at]}, times[at], None)
            by_key.setdefault(keys[at], []).append(record)
        groups.append(by_key)
    return groups


def run(groups: Groups) -> Bare:
    """All records, then all timers."""
    computation, context, states = MinuteTotals(), Bare(), dict[str, object]()
    for key, records in _visits(groups):
        if key not in states:
            states[key] = computation.initial_state()
        context.key, context.state = key, states[key]
        for record in records:
            computation.process_record(record, context)
    for timestamp, key, tag in sorted(context.timers):
        context.key, context.state = key, states[key]
        computation.process_timer(Timer(tag, timestamp, TimeDomain.LOW_WATERMARK, None), context)
    return context


def _visits(groups: Groups) -> Iterator[tuple[str, list[Record]]]:
    for by_key in groups:
        yield from by_key.items()


def main(
    runs: Annotated[int, typer.Option(min=1, help="rounds; five for figures to quote")] = 5,
    events: Annotated[int, typer.Option(help="how many")] = 1_000_000,
    output: Annotated[Path, typer.Option(help="where the figures go")] = Path("out/benchmarks/bare.json"),
) -> None:
    """Measure in turns, and print."""
    seconds: dict[str, list[float]] = {}
    with datasets(Plan(events=events), [events]) as data:
        dataset = data[events]
        expected = canonical(W3, LOOP.runs[W3.name](dataset))
        cases: dict[str, Callable[[], object]] = {"plain loop": lambda: LOOP.runs[W3.name](dataset)}
        for name, size in (
            ("functions alone, one epoch", events),
            (f"functions alone, by {FILE_EVENTS:,}", FILE_EVENTS),
        ):
            groups = grouped(dataset, size)
            _check(expected, run(groups))
            cases[name] = lambda groups=groups: run(groups)
        for _ in range(runs):
            for name, case in cases.items():
                began = time.process_time()
                case()
                seconds.setdefault(name, []).append(time.process_time() - began)
    first = median(seconds["plain loop"])
    rows = [[name, rounded(median(its)), rounded(median(its) / first)] for name, its in seconds.items()]
    print_table(f"W3, {events:,} events", ["", "processor seconds", "× plain loop"], rows)
    save(output, {"benchmark": "bare", "events": events, "seconds": seconds})


def _check(expected: pa.Table, done: Bare) -> None:
    result = pa.table(list(zip(*done.rows, strict=True)), schema=W3.schema)
    if wrong := difference(W3, expected, canonical(W3, result)):
        raise RuntimeError(f"not what the plain loop gives\n{wrong}")


if __name__ == "__main__":
    typer.run(main)
