"""A program whose groupings take other ways after small edits: to be stopped, edited and run on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast
from unittest import mock

import headrace as beam
from headrace.lowlevel import BaseInjector, Batch, CallSink, Delivery, MemorySplit, Topology
from headrace.lowlevel.time import SECOND
from headrace.runners.local import Crash, Scheduler
from headrace.transforms import window
from headrace.transforms.trigger import AccumulationMode, AfterCount, Repeatedly

RECORDS, LIMIT = 160, 20


@dataclass(frozen=True)
class Sales(BaseInjector):
    """Pairs of a shop and an amount, out of order, some of them late."""

    max_delay: int | None = 12 * SECOND

    def plan(self, position: object, limit: int, splits: int) -> Delivery:
        """The next sales."""
        begin = cast(int, position)
        end = min(begin + limit, RECORDS)
        numbers = range(begin, end)
        times = [(2 * number + 37 * number % 23) * SECOND for number in numbers]
        pairs = [(f"shop {number * number % 7}", number) for number in numbers]
        return Delivery([MemorySplit(Batch(pairs, times))], end, done=end == RECORDS)


@dataclass(frozen=True)
class Edit:
    """What is different from edition to edition."""

    fanout: int | None = None
    period: int = 5
    count: int = 1


Rows = dict[str, dict[int, list[object]]]
"""Sink -> epoch -> what it was given then; a delivery that is repeated replaces the one before."""


def topology(edit: Edit, rows: Rows, by_columns: bool = True) -> Topology:
    """The program; with `by_columns` as it is compiled, else key by key."""
    pipeline = beam.Pipeline("LocalRunner")
    sales = pipeline | "sales" >> beam.io.Read(Sales())
    sums = sales | "sessions" >> beam.WindowInto(window.Sessions(6)) | "sum" >> _spread(sum, edit.fanout)
    means = sales | "gaps" >> beam.WindowInto(window.Sessions(4)) | "mean" >> _spread(MEAN, edit.fanout)
    slides = sales | "slide" >> beam.WindowInto(window.SlidingWindows(10, edit.period)) | "most" >> _spread(max, None)
    trigger = Repeatedly(AfterCount(edit.count))
    counted: Any = beam.WindowInto(window.FixedWindows(30), trigger, DISCARDING, allowed_lateness=20)
    counts = sales | "minutes" >> counted | "count" >> beam.combiners.Count.PerKey()
    for name, its in (("sums", sums), ("means", means), ("slides", slides), ("counts", counts)):
        keep = rows.setdefault(name, {})
        sink = CallSink(lambda epoch, came, keep=keep: keep.update({epoch: [row for row, _ in came]}))
        its | f"show {name}" >> beam.Map(shown) | f"out {name}" >> beam.io.Write(sink)
    if by_columns:
        return pipeline.topology()
    with mock.patch("headrace.sdk.compiler.execution_strategy.obstacle", lambda *_, **__: "the test says so"):
        return pipeline.topology()


MEAN = beam.combiners.MeanCombineFn()
DISCARDING = AccumulationMode.DISCARDING


def _spread(combine: Any, fanout: int | None) -> Any:
    return beam.CombinePerKey(combine).with_hot_key_fanout(fanout)


def shown(
    pair: tuple[str, object], window: Any = beam.DoFn.WindowParam, pane: Any = beam.DoFn.PaneInfoParam
) -> tuple[object, ...]:
    """Key, value, and all else that there is to know of a result."""
    return *pair, str(window), str(pane)


def outcome(rows: Rows) -> dict[str, Counter[object]]:
    """Sink -> what it was given."""
    return {sink: Counter(row for its in of.values() for row in its) for sink, of in rows.items()}


class Dies(Scheduler):
    """Stops the driver when an epoch is committed and delivered."""

    def __init__(self, epoch: int | None) -> None:
        self._epoch = epoch

    def step(self, name: str, epoch: int) -> None:
        if (name, epoch) == ("delivered", self._epoch):
            raise Crash("as planned")


def lives(edits: Sequence[Edit], stops: Sequence[int]) -> list[tuple[Edit, Dies]]:
    """The editions, each of which lives to the next of these epochs, the last one to the end."""
    return list(zip(edits, map(Dies, [*stops, None]), strict=True))
