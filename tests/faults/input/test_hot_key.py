"""One key has nine records of ten: results are exact, and no other key is kept waiting, by the count of epochs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import cast

import pytest

import headrace as beam
from headrace.lowlevel import BoundedInjector, CallSink, Computation, Context, Record, Topology
from headrace.lowlevel.time import SECOND
from headrace.runners.engine.options import EpochProgress, RunOptions, RunResult
from headrace.transforms.timeutil import TimeDomain
from headrace.transforms.userstate import BagStateSpec, TimerSpec, on_timer
from headrace.transforms.window import FixedWindows
from tests.depth import faults
from tests.faults.tally import Tally

pytestmark = pytest.mark.faults

NUMBERS = faults(quick=5_000, full=500_000)
EPOCHS, SIZE = 10, 10
EPOCH = NUMBERS // EPOCHS
DELAY = 3 * SECOND
LAG = 2
"""Epochs that a result may come later than it could."""
HOT = 0
Result = tuple[str, int, int, int]
"""Branch, key, end of the window in microseconds (of the raw computation: the record's number), result."""


def key_of(number: int) -> int:
    """Every tenth record is one of 97 cold keys'."""
    return HOT if number % 10 else 1 + number // 10 % 97


def time_of(number: int) -> int:
    """Each epoch brings ten seconds."""
    return number * SIZE * SECOND // EPOCH


class Late(beam.DoFn):
    """Keeps what comes until its window ends."""

    BAG, END = BagStateSpec("bag"), TimerSpec("end", TimeDomain.WATERMARK)

    def process(
        self,
        pair: tuple[int, int],
        window: object = beam.DoFn.WindowParam,
        bag: object = beam.DoFn.StateParam(BAG),
        end: object = beam.DoFn.TimerParam(END),
    ) -> None:
        bag.add(pair[1])
        end.set(window.end)

    @on_timer(END)
    def on_end(
        self, key: int = beam.DoFn.KeyParam, bag: object = beam.DoFn.StateParam(BAG)
    ) -> Iterator[tuple[int, int]]:
        yield key, sum(bag.read())


class Told(Computation):
    """Tells of every record at once, with how many of its key there have been."""

    def process_record(self, record: Record, context: Context) -> None:
        context.state = int(context.state or 0) + 1
        _, number = cast("tuple[int, int]", record.value)
        context.produce("told", (record.key, number, context.state))


def ended(row: tuple[int, int], window: object = beam.DoFn.WindowParam) -> tuple[int, int, int]:
    return row[0], window.end.micros, row[1]


def summed(row: tuple[int, Iterable[int]]) -> tuple[int, int]:
    return row[0], sum(row[1])


def pipeline(came: dict[Result, list[int]]) -> beam.Pipeline:
    """Four ways to do something for each key; every result with the epochs in which it came."""
    made = beam.Pipeline()
    rows = [((key_of(number), number), time_of(number)) for number in range(NUMBERS)]
    pairs = made | beam.io.Read(BoundedInjector(rows, max_delay=DELAY))
    windowed = pairs | beam.WindowInto(FixedWindows(SIZE))
    results = {
        "combined": windowed | "combined" >> beam.CombinePerKey(sum),
        "fanned out": windowed | "fanned out" >> beam.CombinePerKey(sum).with_hot_key_fanout(4),
        "grouped": windowed | "group" >> beam.GroupByKey() | "grouped" >> beam.Map(summed),
        "stateful": windowed | "stateful" >> beam.ParDo(Late()),
    }
    for name, its in results.items():
        its | f"end {name}" >> beam.Map(ended) | f"out {name}" >> beam.io.Write(CallSink(_keeper(name, came)))
    told = pairs | "told" >> beam.RunComputation(Told(), key=lambda pair: pair[0], outputs="told")
    told | "out told" >> beam.io.Write(CallSink(_keeper("told", came)))
    return made


def _keeper(branch: str, came: dict[Result, list[int]]) -> Callable[[int, list[tuple[object, int]]], None]:
    def deliver(epoch: int, rows: list[tuple[object, int]]) -> None:
        for row, _ in rows:
            came[branch, *cast("tuple[int, int, int]", row)].append(epoch)

    return deliver


def expected() -> list[Result]:
    """All results, by brute force."""
    sums: Counter[tuple[int, int]] = Counter()
    seen: Counter[int] = Counter()
    results: list[Result] = []
    for number in range(NUMBERS):
        key, end = key_of(number), (time_of(number) // (SIZE * SECOND) + 1) * SIZE * SECOND
        sums[key, end] += number
        seen[key] += 1
        results.append(("told", key, number, seen[key]))
    branches = ("combined", "fanned out", "grouped", "stateful")
    return results + [(branch, key, end, total) for (key, end), total in sums.items() for branch in branches]


def test_no_other_key_waits(run: Callable[..., RunResult], tally: Callable[[int], Tally]) -> None:
    counts = tally(14)
    counts.plan()
    came: dict[Result, list[int]] = defaultdict(list)
    progress: list[EpochProgress] = []
    topology: Topology = pipeline(came).topology()
    run(topology, RunOptions(max_records_per_epoch=EPOCH, progress=progress.append))
    hot = sum(row[:2] == ("told", HOT) for row in came)
    counts.fire(hot * 10 == NUMBERS * 9)
    counts.compare(expected(), [row for row, epochs in came.items() for _ in epochs])
    lags = Counter(epochs[0] - _could(row, progress) for row, epochs in came.items() if row[1] != HOT)
    counts.note("epochs that a result of another key was late", max(lags))
    assert set(lags) <= set(range(LAG + 1)), lags
    # The end of the input is not what brought them.
    assert len({epoch for epochs in came.values() for epoch in epochs}) >= EPOCHS


def _could(row: Result, progress: list[EpochProgress]) -> int:
    """The epoch in which a result could come at the earliest."""
    branch, _, at, _ = row
    if branch == "told":
        return at // EPOCH + 1
    return next(each.epoch for each in progress if each.watermark >= at)
