"""Beam: W4 to W9, line for line what `headrace_pipelines.py` gives ours."""

# Beam's decorators and default arguments mean nothing to a type checker.
# mypy: ignore-errors

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import product

import apache_beam as beam
from apache_beam.coders import VarIntCoder
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.trigger import AccumulationMode, AfterCount, AfterWatermark
from apache_beam.transforms.userstate import BagStateSpec, TimerSpec, on_timer
from apache_beam.transforms.window import FixedWindows, SlidingWindows
from apache_beam.utils.timestamp import Timestamp

from benchmarks import steps
from benchmarks.dataset import Dataset
from benchmarks.generator import SECOND
from benchmarks.peers.beam_inputs import Row, events
from benchmarks.workload import LATENESS, PERIOD, W4, W5, W7, W8, W9, WINDOW, Workload

Advertisement = tuple[str, int]


def _sum_row(summed: tuple[str, int], window: object = beam.DoFn.WindowParam) -> Row:
    return summed[0], window.start.micros, summed[1]


def _pane_row(
    summed: tuple[str, int], window: object = beam.DoFn.WindowParam, pane: object = beam.DoFn.PaneInfoParam
) -> Row:
    return summed[0], window.start.micros, int(pane.timing), pane.index, summed[1]


def panes(pipeline: beam.Pipeline, dataset: Dataset) -> beam.PCollection:
    windows = beam.WindowInto(
        FixedWindows(WINDOW // SECOND),
        trigger=AfterWatermark(early=AfterCount(1), late=AfterCount(1)),
        accumulation_mode=AccumulationMode.ACCUMULATING,
        allowed_lateness=LATENESS // SECOND,
    )
    return events(pipeline, dataset.one) | windows | beam.CombinePerKey(sum) | "Row" >> beam.Map(_pane_row)


def sliding_sums(pipeline: beam.Pipeline, dataset: Dataset) -> beam.PCollection:
    windows = beam.WindowInto(SlidingWindows(WINDOW // SECOND, PERIOD // SECOND))
    return events(pipeline, dataset.one) | windows | beam.CombinePerKey(sum) | "Row" >> beam.Map(_sum_row)


class Discounted(beam.DoFn):
    """W7: the tenth step."""

    def process(self, element: steps.Amount) -> Iterator[steps.Amount]:
        return steps.discounted(element)


def ten_steps(pipeline: beam.Pipeline, dataset: Dataset) -> beam.PCollection:
    amounts = (
        pipeline
        | beam.io.ReadFromParquet(str(dataset.lines.one), columns=["line"])
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
        element: tuple[str, int],
        window: object = beam.DoFn.WindowParam,
        bag: object = beam.DoFn.StateParam(BAG),
        timer: object = beam.DoFn.TimerParam(TIMER),
    ) -> None:
        bag.add(element[1])
        timer.set(window.end)

    @on_timer(TIMER)
    def report(
        self,
        key: str = beam.DoFn.KeyParam,
        window: object = beam.DoFn.WindowParam,
        bag: object = beam.DoFn.StateParam(BAG),
    ) -> Iterator[Row]:
        values = list(bag.read())
        yield key, window.end.micros, len(values), sum(values), max(values)
        bag.clear()


def summaries(pipeline: beam.Pipeline, dataset: Dataset) -> beam.PCollection:
    windows = beam.WindowInto(FixedWindows(WINDOW // SECOND))
    return events(pipeline, dataset.one) | windows | beam.ParDo(Summaries())


def _instant(event: tuple[str, int], at: Timestamp = beam.DoFn.TimestampParam) -> tuple[Advertisement, int]:
    return event, at.micros


def _matches(
    joined: tuple[Advertisement, dict[str, Iterable[int]]], window: object = beam.DoFn.WindowParam
) -> Iterator[Row]:
    (key, value), groups = joined
    for shown, clicked in product(groups["shown"], groups["clicked"]):
        yield key, value, window.start.micros, shown, clicked


def clicked(pipeline: beam.Pipeline, dataset: Dataset) -> beam.PCollection:
    windows = FixedWindows(WINDOW // SECOND)
    sides = {
        name: events(pipeline, path, name)
        | f"Instant {name}" >> beam.Map(_instant)
        | f"Windows {name}" >> beam.WindowInto(windows)
        for name, path in (("shown", dataset.one), ("clicked", dataset.clicks.one))
    }
    return sides | beam.CoGroupByKey() | beam.FlatMap(_matches)


PIPELINES: dict[Workload, Callable[[beam.Pipeline, Dataset], beam.PCollection]] = {
    W4: panes,
    W5: sliding_sums,
    W7: ten_steps,
    W8: summaries,
    W9: clicked,
}
