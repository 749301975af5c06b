"""Ours: W4 to W9 as pipelines in Beam's names; line for line what `beam_pipelines.py` gives Beam itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import product
from typing import cast

import headrace as beam
from benchmarks import steps
from benchmarks.generator import SECOND
from benchmarks.peers.headrace_inputs import Elements, Event, Inputs
from benchmarks.workload import LATENESS, PERIOD, W4, W5, W7, W8, W9, WINDOW, Workload
from headrace.coders import VarIntCoder
from headrace.lowlevel.time import Timestamp
from headrace.transforms.timeutil import TimeDomain
from headrace.transforms.trigger import AccumulationMode, AfterCount, AfterWatermark
from headrace.transforms.userstate import BagState, BagStateSpec, TimerSpec, UserTimer, on_timer
from headrace.transforms.window import FixedWindows, IntervalWindow, SlidingWindows
from headrace.utils.windowed_value import PaneInfo

Row = tuple[object, ...]
Advertisement = tuple[str, int]
"""Who saw it, and which."""


def sum_row(summed: Event, window: IntervalWindow = beam.DoFn.WindowParam) -> Row:
    """Key, start of the window, sum."""
    return summed[0], window.start.micros, summed[1]


def _pane_row(
    summed: Event,
    window: IntervalWindow = beam.DoFn.WindowParam,
    pane: PaneInfo = beam.DoFn.PaneInfoParam,
) -> Row:
    return summed[0], window.start.micros, int(pane.timing), pane.index, summed[1]


def windows_with_panes() -> beam.WindowInto:
    """W4's."""
    return beam.WindowInto(
        FixedWindows(WINDOW // SECOND),
        trigger=AfterWatermark(early=AfterCount(1), late=AfterCount(1)),
        accumulation_mode=AccumulationMode.ACCUMULATING,
        allowed_lateness=LATENESS // SECOND,
    )


def panes(inputs: Inputs) -> Elements:
    windowed = inputs.events(behind=inputs.late()) | windows_with_panes()
    return windowed | beam.CombinePerKey(sum) | "Row" >> beam.Map(_pane_row)


def sliding_sums(inputs: Inputs) -> Elements:
    windowed = inputs.events() | beam.WindowInto(SlidingWindows(WINDOW // SECOND, PERIOD // SECOND))
    return windowed | beam.CombinePerKey(sum) | "Row" >> beam.Map(sum_row)


class Discounted(beam.DoFn):
    """W7: the tenth step."""

    def process(self, element: steps.Amount) -> Iterator[steps.Amount]:
        return steps.discounted(element)


def ten_steps(inputs: Inputs) -> Elements:
    amounts = (
        inputs.lines()
        | "Text" >> beam.Map(steps.text_of)
        | "Fields" >> beam.Map(steps.fields_of)
        | "Typed" >> beam.MapTuple(steps.typed)
        | "Worthwhile" >> beam.Filter(steps.is_worthwhile)
        | "Projected" >> beam.MapTuple(steps.projected)
        | "Halves" >> beam.FlatMap(steps.halves)
        | "Priced" >> beam.MapTuple(steps.priced)
        | "Enriched" >> beam.Map(steps.enriched)
        | "Odd lots" >> beam.Filter(steps.is_odd_lot)
        | "Discounted" >> beam.ParDo(Discounted())
    )
    return amounts | beam.CombinePerKey(sum)


class Summaries(beam.DoFn):
    """W8: the values of a key and minute in a bag, and a timer for the minute's end."""

    BAG = BagStateSpec("values", VarIntCoder())
    TIMER = TimerSpec("end", TimeDomain.WATERMARK)

    def process(
        self,
        element: Event,
        window: IntervalWindow = beam.DoFn.WindowParam,
        bag: BagState = beam.DoFn.StateParam(BAG),
        timer: UserTimer = beam.DoFn.TimerParam(TIMER),
    ) -> None:
        bag.add(element[1])
        timer.set(window.end)

    @on_timer(TIMER)
    def report(
        self,
        key: object = beam.DoFn.KeyParam,
        window: IntervalWindow = beam.DoFn.WindowParam,
        bag: BagState = beam.DoFn.StateParam(BAG),
    ) -> Iterator[Row]:
        values = cast("list[int]", list(bag.read()))
        yield key, window.end.micros, len(values), sum(values), max(values)
        bag.clear()


def summaries(inputs: Inputs) -> Elements:
    windowed = inputs.events() | beam.WindowInto(FixedWindows(WINDOW // SECOND))
    return windowed | beam.ParDo(Summaries())


def _instant(event: Event, at: Timestamp = beam.DoFn.TimestampParam) -> tuple[Advertisement, int]:
    return event, at.micros


def _matches(
    joined: tuple[Advertisement, dict[str, Iterable[int]]], window: IntervalWindow = beam.DoFn.WindowParam
) -> Iterator[Row]:
    (key, value), groups = joined
    for shown, clicked in product(groups["shown"], groups["clicked"]):
        yield key, value, window.start.micros, shown, clicked


def clicked(inputs: Inputs) -> Elements:
    windows = FixedWindows(WINDOW // SECOND)
    sides = {
        name: events | f"Instant {name}" >> beam.Map(_instant) | f"Windows {name}" >> beam.WindowInto(windows)
        for name, events in (("shown", inputs.events()), ("clicked", inputs.clicks()))
    }
    return sides | beam.CoGroupByKey() | beam.FlatMap(_matches)


PIPELINES: dict[Workload, Callable[[Inputs], Elements]] = {
    W4: panes,
    W5: sliding_sums,
    W7: ten_steps,
    W8: summaries,
    W9: clicked,
}
