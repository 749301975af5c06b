"""Beam: W4 to W9, line for line what `headrace_pipelines.py` gives ours."""

# Beam's decorators and default arguments mean nothing to a type checker.
# mypy: ignore-errors

from __future__ import annotations

from collections.abc import Iterable, Iterator
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
from benchmarks.peers.beam_inputs import Row, events, run
from benchmarks.workload import LATENESS, PERIOD, W4, W5, W7, W8, W9, WINDOW

Advertisement = tuple[str, int]
Table = object


def _sum_row(summed: tuple[str, int], window: object = beam.DoFn.WindowParam) -> Row:
    return summed[0], window.start.micros, summed[1]


def _pane_row(
    summed: tuple[str, int], window: object = beam.DoFn.WindowParam, pane: object = beam.DoFn.PaneInfoParam
) -> Row:
    return summed[0], window.start.micros, int(pane.timing), pane.index, summed[1]


def panes(dataset: Dataset) -> Table:
    windows = beam.WindowInto(
        FixedWindows(WINDOW // SECOND),
        trigger=AfterWatermark(early=AfterCount(1), late=AfterCount(1)),
        accumulation_mode=AccumulationMode.ACCUMULATING,
        allowed_lateness=LATENESS // SECOND,
    )

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        return events(pipeline, dataset.one) | windows | beam.CombinePerKey(sum) | "Row" >> beam.Map(_pane_row)

    return run(W4, build)


def sliding_sums(dataset: Dataset) -> Table:
    windows = beam.WindowInto(SlidingWindows(WINDOW // SECOND, PERIOD // SECOND))

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        return events(pipeline, dataset.one) | windows | beam.CombinePerKey(sum) | "Row" >> beam.Map(_sum_row)

    return run(W5, build)


class Discounted(beam.DoFn):
    """W7: the tenth step."""

    def process(self, element: steps.Amount) -> Iterator[steps.Amount]:
        return steps.discounted(element)


def ten_steps(dataset: Dataset) -> Table:
    def build(pipeline: beam.Pipeline) -> beam.PCollection:
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

    return run(W7, build)


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


def summaries(dataset: Dataset) -> Table:
    windows = beam.WindowInto(FixedWindows(WINDOW // SECOND))
    return run(W8, lambda pipeline: events(pipeline, dataset.one) | windows | beam.ParDo(Summaries()))


def _instant(event: tuple[str, int], at: Timestamp = beam.DoFn.TimestampParam) -> tuple[Advertisement, int]:
    return event, at.micros


def _matches(
    joined: tuple[Advertisement, dict[str, Iterable[int]]], window: object = beam.DoFn.WindowParam
) -> Iterator[Row]:
    (key, value), groups = joined
    for shown, clicked in product(groups["shown"], groups["clicked"]):
        yield key, value, window.start.micros, shown, clicked


def clicked(dataset: Dataset) -> Table:
    windows = FixedWindows(WINDOW // SECOND)

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        sides = {
            name: events(pipeline, path, name)
            | f"Instant {name}" >> beam.Map(_instant)
            | f"Windows {name}" >> beam.WindowInto(windows)
            for name, path in (("shown", dataset.one), ("clicked", dataset.clicks.one))
        }
        return sides | beam.CoGroupByKey() | beam.FlatMap(_matches)

    return run(W9, build)


PIPELINES = {W4.name: panes, W5.name: sliding_sums, W7.name: ten_steps, W8.name: summaries, W9.name: clicked}
