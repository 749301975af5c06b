"""What the other two programs leave out: raw computations by columns, panes by columns, triggers by the clock.

When the wall clock is looked at differs from run to run, so nothing that is told here depends on it.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import itemgetter
from typing import ClassVar, cast

import numpy as np

import headrace as beam
from headrace.lowlevel import CallSink, ColumnComputation, ColumnContext, Field, RecordColumns, TimerColumns, Topology
from headrace.lowlevel.time import SECOND
from headrace.sdk.model.panes import PaneInfoTiming
from headrace.transforms import timeutil, trigger, userstate, window
from tests.golden.columns import Sales
from tests.golden.program import Out, keeper

__all__ = ["topology"]

MINUTE = 60 * SECOND


class Totals(ColumnComputation):
    """State of two types, timers that become one and hold the watermark."""

    state_fields: ClassVar = {"total": int, "least": Field(float, 1e9)}
    timer_fields: ClassVar = {"sum": int}
    combine_timers: ClassVar = {"sum": "sum"}

    def process_columns(self, batch: RecordColumns, context: ColumnContext) -> None:
        context.state["least"] = np.minimum(context.state["least"], batch.min(batch[1].astype(np.float64)))
        ends = batch.timestamps - batch.timestamps % MINUTE + MINUTE
        context.set_timers(ends, hold=batch.timestamps, sum=batch[1])

    def process_timers(self, due: TimerColumns, context: ColumnContext) -> None:
        totals = due.running_sum(cast("np.ndarray[tuple[int], np.dtype[np.int64]]", due["sum"]), context.state["total"])
        context.state["total"] = totals[due.last]
        context.produce_columns("totals", (due.key_values(), totals, context.state["least"][due.keys]))


class Held(beam.DoFn):
    """Keeps amounts until their minute is over."""

    BAG = userstate.BagStateSpec("bag")
    OUT = userstate.TimerSpec("out", timeutil.TimeDomain.WATERMARK)

    def process(self, pair, where=beam.DoFn.WindowParam, bag=beam.DoFn.StateParam(BAG), out=beam.DoFn.TimerParam(OUT)):
        bag.add(pair[1])
        out.set(where.end)

    @userstate.on_timer(OUT)
    def on_out(self, key=beam.DoFn.KeyParam, bag=beam.DoFn.StateParam(BAG)) -> Iterator[object]:
        for amount in sorted(cast("list[int]", list(bag.read()))):
            yield key, amount
        bag.clear()


def on_time(row, where=beam.DoFn.WindowParam, pane=beam.DoFn.PaneInfoParam):
    """What the pane that is on time says, which early ones do not change."""
    if pane.timing == PaneInfoTiming.ON_TIME:
        yield row, int(where.start), int(where.end)


def topology(out: Out) -> Topology:
    """The whole program; what its sinks get goes into `out`."""
    pipeline = beam.Pipeline()
    sales = pipeline | "sales" >> beam.io.Read(Sales())
    whole = sales | "whole" >> beam.MapTuple(lambda shop, amount: (shop, int(amount) % 1000))
    mode, clock = trigger.AccumulationMode, trigger.AfterProcessingTime
    minutes, sessions = window.FixedWindows(60), window.Sessions(20)
    late = trigger.AfterWatermark(early=trigger.AfterCount(3), late=trigger.AfterCount(1))
    soon = trigger.AfterWatermark(early=clock(5))
    often = trigger.Repeatedly(trigger.AfterAny(trigger.AfterCount(3), clock(30)))
    on_time_of = {
        "panes": beam.WindowInto(minutes, late, mode.ACCUMULATING, allowed_lateness=30),
        "sessions": beam.WindowInto(sessions),
        "soon": beam.WindowInto(minutes, soon, mode.ACCUMULATING),
    }
    parts_of = {
        "clocked": beam.WindowInto(minutes, trigger.Repeatedly(clock(10)), mode.DISCARDING),
        "often": beam.WindowInto(window.GlobalWindows(), often, mode.DISCARDING),
    }
    ends = {
        name: whole
        | f"window {name}" >> into
        | f"sum {name}" >> beam.CombinePerKey(sum)
        | f"on time {name}" >> beam.FlatMap(on_time)
        for name, into in on_time_of.items()
    }
    for name, into in parts_of.items():
        parts = whole | f"window {name}" >> into | f"sum {name}" >> beam.CombinePerKey(sum)
        again = beam.WindowInto(window.GlobalWindows(), trigger.DefaultTrigger(), mode.DISCARDING)
        ends[name] = parts | f"again {name}" >> again | f"sum again {name}" >> beam.CombinePerKey(sum)
    ends["held"] = whole | "minutes held" >> beam.WindowInto(minutes) | "hold" >> beam.ParDo(Held())
    ends["totals"] = whole | "totals" >> beam.RunComputation(Totals(), key=itemgetter(0), outputs="totals")
    for name, its in ends.items():
        its | f"out {name}" >> beam.io.Write(CallSink(keeper(out, name)))
    return pipeline.topology()
