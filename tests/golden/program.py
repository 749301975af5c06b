"""A program that has something of everything in its checkpoint: what golden checkpoints are of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import cast

import headrace as beam
from headrace.lowlevel import (
    BaseInjector,
    Batch,
    BoundedInjector,
    CallSink,
    Computation,
    Context,
    Delivery,
    MemorySplit,
    Record,
    TimeDomain,
    Timer,
    Topology,
)
from headrace.lowlevel.time import SECOND
from headrace.transforms import timeutil, trigger, userstate, window

LIMIT = 8
"""Records in an epoch."""
RECORDS = 400
CLOCK = 1_700_000_000 * SECOND
"""What the wall clock says, microseconds UTC."""
Out = dict[str, dict[int, list[str]]]
"""Sink -> epoch -> its rows as text, sorted."""


@dataclass(frozen=True)
class Visits(BaseInjector):
    """Pairs of a page and a number, each with an id; the last two of a delivery come again with the next."""

    max_delay: int | None = 20 * SECOND
    record_ids: bool = True
    id_slack: int = 30 * SECOND

    def plan(self, position: object, limit: int, splits: int) -> Delivery:
        """The next visits."""
        begin = cast(int, position)
        end = min(begin + limit, RECORDS)
        numbers = range(max(begin - 2, 0), end)
        times = [(3 * number + 37 * number % 25) * SECOND for number in numbers]
        batch = Batch([("abcde"[n * n % 5], n) for n in numbers], times, [b"visit %d" % n for n in numbers])
        return Delivery([MemorySplit(batch)], end, done=end == RECORDS)


class Ledger(beam.DoFn):
    """Keeps state of every kind until its window ends."""

    LAST = userstate.ReadModifyWriteStateSpec("last")
    BAG = userstate.BagStateSpec("bag")
    SET = userstate.SetStateSpec("set")
    SUM = userstate.CombiningValueStateSpec("sum", sum)
    LIST = userstate.OrderedListStateSpec("list")
    END = userstate.TimerSpec("end", timeutil.TimeDomain.WATERMARK)

    def process(
        self,
        pair,
        time=beam.DoFn.TimestampParam,
        where=beam.DoFn.WindowParam,
        last=beam.DoFn.StateParam(LAST),
        bag=beam.DoFn.StateParam(BAG),
        its=beam.DoFn.StateParam(SET),
        total=beam.DoFn.StateParam(SUM),
        ordered=beam.DoFn.StateParam(LIST),
        end=beam.DoFn.TimerParam(END),
    ):
        _, value = pair
        last.write(value), bag.add(value), its.add(value % 3), total.add(value), ordered.add((time, value))
        end.set(where.end)

    @userstate.on_timer(END)
    def on_end(
        self,
        key=beam.DoFn.KeyParam,
        last=beam.DoFn.StateParam(LAST),
        bag=beam.DoFn.StateParam(BAG),
        its=beam.DoFn.StateParam(SET),
        total=beam.DoFn.StateParam(SUM),
        ordered=beam.DoFn.StateParam(LIST),
    ) -> Iterator[object]:
        by_time = [value for _, value in ordered.read()]
        yield key, last.read(), sorted(bag.read()), sorted(its.read()), total.read(), by_time


class Watch(Computation):
    """A raw computation: state in cells, timers on both clocks, holds."""

    def process_record(self, record: Record, context: Context) -> None:
        if context.state is None:
            context.set_timer("wake", CLOCK + 60 * SECOND, TimeDomain.WALL_TIME, hold=record.timestamp)
        context.state = cast("dict[str, int]", context.state or {"count": 0})
        context.state["count"] += 1
        context.write(b"last", b"%d" % record.timestamp)
        context.hold(record.timestamp, "newest")
        context.set_timer("quiet", record.timestamp + 40 * SECOND)

    def process_timer(self, timer: Timer, context: Context) -> None:
        if timer.tag == "wake":
            context.produce("watched", ("woke", context.key), 0)
            return
        count, last = cast("dict[str, int]", context.state)["count"], context.read(b"last")
        context.produce("watched", ("quiet", (context.key, count, last)))
        context.write(b"last", None)
        context.release("newest")


class Rounds(Computation):
    """Sends a number round a circle until it is used up: what is on its way is part of every commit."""

    def process_record(self, record: Record, context: Context) -> None:
        name, left = cast("tuple[str, int]", record.value)
        context.state = cast(int, context.state or 0) + left
        if left:
            context.produce("again", (name, left - 1))
        else:
            context.produce("told", (name, context.state))


def name_of(value: object) -> object:
    return cast("tuple[object, int]", value)[0]


def seen(row, where=beam.DoFn.WindowParam, pane=beam.DoFn.PaneInfoParam):
    return row, int(where.start), int(where.end), pane.timing, pane.index, pane.is_retraction


def ordered(row: tuple[str, Iterable[object]]) -> tuple[str, list[object]]:
    return row[0], sorted(row[1], key=repr)


def topology(out: Out) -> Topology:
    """The whole program; what its sinks get goes into `out`."""
    pipeline = beam.Pipeline()
    pairs = pipeline | "visits" >> beam.io.Read(Visits())
    early = trigger.AfterWatermark(early=trigger.AfterCount(3), late=trigger.AfterCount(1))
    mode = trigger.AccumulationMode
    windowed = {
        "sessions": beam.WindowInto(window.Sessions(20), early, mode.ACCUMULATING, allowed_lateness=30),
        "taken back": beam.WindowInto(window.FixedWindows(60), early, mode.ACCUMULATING_AND_RETRACTING),
        "sliding": beam.WindowInto(window.SlidingWindows(60, 20)),
    }
    ends = {
        name: pairs
        | f"window {name}" >> into
        | f"group {name}" >> beam.GroupByKey()
        | f"sort {name}" >> beam.Map(ordered)
        for name, into in windowed.items()
    }
    minutes = pairs | "minutes" >> beam.WindowInto(window.FixedWindows(60))
    ends["ledger"] = minutes | "ledger" >> beam.ParDo(Ledger())
    names = minutes | "name" >> beam.Keys()
    often = beam.pvalue.AsDict(names | "often" >> beam.combiners.Count.PerElement())
    ends["looked up"] = minutes | "look up" >> beam.Map(lambda pair, counts: (pair, counts[pair[0]]), often)
    watched = pairs | "watch" >> beam.RunComputation(Watch(), key=name_of, outputs="watched")
    # What a timer on wall time holds back, somebody has to wait for.
    ends["watched"] = watched | "group watched" >> beam.GroupByKey() | "sort watched" >> beam.Map(ordered)
    for name, its in ends.items():
        its | f"see {name}" >> beam.Map(seen) | f"out {name}" >> beam.io.Write(CallSink(keeper(out, name)))
    made = pipeline.topology()
    made.injector("tokens", BoundedInjector([(("short", 3), 1), (("long", 60), 2)]))
    made.computation("rounds", Rounds(), {"tokens": name_of, "again": name_of}, ["again", "told"])
    made.sink("told", "told", CallSink(keeper(out, "told")))
    return made


def keeper(out: Out, sink: str):
    """Keeps what a sink gets by epoch."""

    def keep(epoch: int, rows: list[tuple[object, int]]) -> None:
        out.setdefault(sink, {})[epoch] = sorted(map(repr, rows))

    return keep


def rows_of(out: Out) -> dict[str, list[str]]:
    """Sink -> all its rows, whatever their epochs."""
    return {sink: sorted(row for rows in epochs.values() for row in rows) for sink, epochs in sorted(out.items())}
