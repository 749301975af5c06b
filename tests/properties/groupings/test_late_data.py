"""What a step drops as late, whichever way it groups, compared with a model of the rule alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as beam
from headrace.lowlevel.time import MIN_TIMESTAMP, SECOND, Timestamp
from headrace.runners.local import LocalRunner
from headrace.sdk.compiler.compiler import execution_strategies
from headrace.testing.test_stream import TestStream
from headrace.transforms.trigger import AccumulationMode, AfterCount, AfterWatermark
from headrace.transforms.userstate import CombiningValueStateSpec
from headrace.transforms.window import (
    FixedWindows,
    IntervalWindow,
    NonMergingWindowFn,
    Sessions,
    SlidingWindows,
    TimestampedValue,
)
from tests.collecting import collected
from tests.depth import examples


class Arrivals(NamedTuple):
    """Elements that arrive at one watermark."""

    elements: list[tuple[str, int]]
    """Key and second of each."""
    advance: int
    """How far the watermark moves afterwards, in seconds."""


SCRIPTS = st.lists(
    st.builds(Arrivals, st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 40)), max_size=6), st.integers(1, 15)),
    min_size=1,
    max_size=6,
)


class Halves(NonMergingWindowFn):
    """The ten seconds of an element, and from their middle on the second half of them; not known to the engine."""

    def assign(self, assign_context: object) -> list[IntervalWindow]:
        start = assign_context.timestamp.micros // (10 * SECOND) * 10
        whole, half = IntervalWindow(start, start + 10), IntervalWindow(start + 5, start + 10)
        return [whole, half] if assign_context.timestamp >= start + 5 else [whole]

    def get_window_coder(self) -> object:
        return FixedWindows(1).get_window_coder()


WINDOWS = [FixedWindows(10), SlidingWindows(10, 5), Sessions(5), Halves()]


class Total(beam.DoFn):
    """A sum in state."""

    SUM = CombiningValueStateSpec("sum", sum)

    def process(self, pair: tuple[str, int], total=beam.DoFn.StateParam(SUM)) -> Iterator[int]:
        total.add(pair[1])
        yield total.read()


class Listed(beam.PTransform):
    """A composite with a grouping inside."""

    def expand(self, pairs: beam.PCollection) -> beam.PCollection:
        return pairs | "Group" >> beam.GroupByKey() | "Count" >> beam.MapTuple(lambda key, values: len(list(values)))


GROUPINGS = {
    "Sums": lambda: beam.CombinePerKey(sum),
    "Function": lambda: beam.CombinePerKey(lambda values: max(values)),
    "Fan-out": lambda: beam.CombinePerKey(sum).with_hot_key_fanout(3),
    "Lists": lambda: beam.GroupByKey(),
    "Composite": lambda: Listed(),
    "State": lambda: beam.ParDo(Total()),
}


def numbered(script: Iterable[Arrivals]) -> Iterator[tuple[Timestamp, list[tuple[str, int, int]], int]]:
    """Watermark, elements with numbers as values, and where the watermark goes; seconds."""
    number = 0
    moves = list(accumulate(arrivals.advance for arrivals in script))
    before = [Timestamp(micros=MIN_TIMESTAMP), *map(Timestamp.of, moves)]
    for watermark, arrivals, after in zip(before, script, moves, strict=False):
        elements = [(key, number + at, second) for at, (key, second) in enumerate(arrivals.elements)]
        number += len(elements)
        yield watermark, elements, after


def stream_of(script: Iterable[Arrivals], one_by_one: bool) -> TestStream:
    stream = TestStream()
    for _, elements, after in numbered(script):
        values = [TimestampedValue((key, number), second) for key, number, second in elements]
        for part in [[value] for value in reversed(values)] if one_by_one else [values]:
            stream = stream.add_elements(part) if part else stream
        stream = stream.advance_watermark_to(after)
    return stream.advance_watermark_to_infinity()


def expected(script: Iterable[Arrivals], window_fn, lateness: int) -> tuple[Counter[object], int]:
    """Late rows, and the number of elements all of whose windows are closed."""
    rows, dropped = Counter[object](), 0
    for watermark, elements, _ in numbered(script):
        for key, number, second in elements:
            windows = window_fn.assign(window_fn.AssignContext(second, number, None))
            closed = [window for window in windows if window.end + lateness <= watermark]
            rows.update((key, number, str(window), Timestamp.of(second), watermark) for window in closed)
            dropped += len(closed) == len(windows)
    return rows, dropped


def windowed(window_fn, lateness: int, late_panes: bool) -> beam.WindowInto:
    if not late_panes:
        return beam.WindowInto(window_fn, allowed_lateness=lateness)
    trigger, mode = AfterWatermark(late=AfterCount(1)), AccumulationMode.ACCUMULATING_AND_RETRACTING
    return beam.WindowInto(window_fn, trigger=trigger, accumulation_mode=mode, allowed_lateness=lateness)


@pytest.mark.parametrize("window_fn", WINDOWS, ids=lambda window_fn: type(window_fn).__name__)
@settings(max_examples=examples(10, 1_000))
@given(SCRIPTS, st.sampled_from([0, 7]), st.booleans(), st.booleans())
def test_late_data_are_what_the_rule_says_however_the_step_groups(window_fn, script, lateness, late_panes, one_by_one):
    wanted, dropped = expected(script, window_fn, lateness)
    pipeline = beam.Pipeline(LocalRunner(intervals=2))
    windows = pipeline | stream_of(script, one_by_one) | windowed(window_fn, lateness, late_panes)
    late = {}
    for label, grouping in GROUPINGS.items():
        if label != "State" or not window_fn.is_merging():
            _, dropped_data = windows | label >> grouping().with_late_data()
            late[label] = collected(dropped_data)
    result = pipeline.run()
    for label, rows in late.items():
        told = Counter((*late[:2], str(late.window), late.timestamp, late.watermark) for late in rows())
        assert told == wanted, label
        step = label if label != "Composite" else "Composite/Group"
        assert result.counters.get(step, {}).get("dropped_late", 0) == dropped, label


def test_the_property_covers_both_ways_of_grouping():
    pipeline = beam.Pipeline(LocalRunner())
    windows = pipeline | stream_of([Arrivals([("a", 1)], 5)], False) | beam.WindowInto(FixedWindows(10))
    for label, grouping in GROUPINGS.items():
        _, late = windows | label >> grouping().with_late_data()
        collected(late)
    told = {told.step: told.obstacle for told in execution_strategies(pipeline)}
    assert told["Sums"] is told["Lists"] is told["Composite/Group"] is None
    assert told["Function"] is not None
