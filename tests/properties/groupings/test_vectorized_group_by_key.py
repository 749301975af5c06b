"""Grouping the values of all keys at once is grouping them key by key: the same lists, counters and order."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from headrace.lowlevel.intervals.interval_map import IntervalMap
from headrace.lowlevel.records.column_batch import ColumnBatch, Single, Tuple, pair
from headrace.lowlevel.records.record import Batch
from headrace.lowlevel.time import MAX_TIMESTAMP, MIN_TIMESTAMP, SECOND
from headrace.lowlevel.topology.computation import Computation
from headrace.lowlevel.vectorized import segment_store
from headrace.sdk.combinefns.combine_fn import AnyCombineFn
from headrace.sdk.combinefns.numeric import SumFn
from headrace.sdk.model.element_form import GroupingInputForm
from headrace.sdk.operators.grouping.grouping import Grouping
from headrace.sdk.operators.vectorized import column_group_by_key
from headrace.sdk.operators.vectorized.column_group_by_key import ColumnGroupByKey
from headrace.sdk.operators.vectorized.eligibility import obstacle
from headrace.sdk.operators.vectorized.state_migration import records_of_segments
from headrace.sdk.windows import CalendarWindows, FixedWindows, GlobalWindow, GlobalWindows, IntervalWindow, WindowFn
from headrace.sdk.windows.windowing import Windowing
from tests.depth import examples
from tests.harness import Element
from tests.properties.grouping_strategies import Combining, Step, Unlifted, of_each_key
from tests.properties.groupings.test_vectorized_grouping import scripts

WINDOW_FNS: list[WindowFn] = [FixedWindows(10), FixedWindows(7, 3), GlobalWindows(), CalendarWindows.days(1)]
VALUES = st.integers(-9, 9) | st.sampled_from(["a", None, 1.5, 1 << 80, (1, "x"), [1], float("nan")])


def by_key(windowing: Windowing, form: GroupingInputForm) -> Computation:
    """The general way."""
    return Grouping(windowing, None, {"in": form}, "out", migration=records_of_segments)


def at_once(windowing: Windowing, form: GroupingInputForm) -> Computation:
    """The quick way, which must be chosen for these."""
    assert obstacle(windowing, None, takes_back=False, spread=False) is None
    return ColumnGroupByKey(windowing, {"in": form}, "out")


@dataclass
class Gathering(Combining):
    """One pipeline of a `GroupByKey`; each epoch takes a way of its own, in intervals of its own."""

    combine: AnyCombineFn = field(default_factory=SumFn)
    form: GroupingInputForm = GroupingInputForm.PLAIN
    ways: list[Any] = field(default_factory=lambda: [by_key])
    counts: list[int] = field(default_factory=lambda: [2])
    stream: str = "in"

    def rewindow(self, windowing: Windowing) -> None:
        self.windowing, self.lift = windowing, Unlifted("in")
        self.go_on(self.way)

    def go_on(self, way: Any) -> None:
        chosen = self.ways[self.epoch % len(self.ways)]
        super().go_on(lambda windowing, _: chosen(windowing, self.form))

    def step(self, step: Step, parts: int = 1) -> None:
        self.cut(IntervalMap.evenly(self.counts[self.epoch % len(self.counts)]))
        self.go_on(None)
        super().step(step, parts)


def gathered(windowing: Windowing, steps: list[Step], ways: list[Any], parts: int = 1, **options: Any) -> object:
    """Panes of each key in order, and counters; all is freed at the end."""
    gathering = Gathering(windowing, ways=ways, **options)
    for step in [*steps, Step([], MAX_TIMESTAMP)]:
        gathering.step(step, parts)
    assert not gathering.stored()
    return of_each_key(gathering.panes), gathering.counted()


@st.composite
def gathering_scripts(draw: st.DrawFn, most: int = 6) -> list[Step]:
    """Scripts of values of any type; several values may have one key and window."""
    found = []
    for step in draw(scripts(most=most)):
        elements = [(key, draw(VALUES), time) for key, _, time in step.elements]
        found.append(step._replace(elements=[each for each in elements for _ in range(draw(st.integers(1, 2)))]))
    return found


def windowed(steps: list[Step], window_fn: WindowFn, draw: Any) -> list[Step]:
    """The same with windows that travel with the elements: none, one or two."""

    def windows(time: int) -> tuple[object, ...]:
        if isinstance(window_fn, GlobalWindows):
            return (GlobalWindow(),) * draw(st.integers(0, 1))
        starts = draw(st.lists(st.sampled_from([0, 10, 20]), max_size=2, unique=True))
        return tuple(IntervalWindow.of_micros(start * SECOND, (start + 10) * SECOND) for start in starts)

    return [
        step._replace(elements=[(key, (value, windows(time), None), time) for key, value, time in step.elements])
        for step in steps
    ]


def in_columns(elements: list[Element]) -> Batch:
    """Elements as columns: text keys, values of text and numbers; the columns differ from batch to batch."""
    keys = pa.array([key for key, *_ in elements])
    numbers = pa.array([hash(repr(value)) % 100 for _, value, _ in elements], pa.int64())
    text = pa.array([ascii(value) for _, value, _ in elements])
    times = np.array([time for *_, time in elements], np.int64)
    if len(elements) % 3 == 2:
        return ColumnBatch(pa.record_batch([text, keys], ["a", "b"]), times, pair(Single(1), Single(0)))
    shape = pair(Single(0), Tuple((Single(1), Single(2)) if len(elements) % 3 else (Single(2), Single(0))))
    return ColumnBatch(pa.record_batch([keys, numbers, text], ["a", "b", "c"]), times, shape)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments that come together soon and have few values, and panes that go out in several parts and batches."""
    for name, number in (("SMALL", 2), ("MANY", 3), ("GROWTH", 2)):
        monkeypatch.setattr(segment_store, name, number)
    for name, number in (("_PORTION", 3), ("_LARGEST", 20), ("_DUE_AT_ONCE", 3_000)):
        monkeypatch.setattr(column_group_by_key, name, number)


pytestmark = pytest.mark.usefixtures("small")
quickly = settings(max_examples=examples(50, 2_000), suppress_health_check=[HealthCheck.function_scoped_fixture])
OUT_OF_STEP = [
    Step([("a", 1, 5 * SECOND)], 0),
    *[Step([(f"k{number}", number, 5 * SECOND) for number in range(9)] + [("a", 2, 5 * SECOND)], 0)] * 3,
    *[Step([("a", 3 + number, 5 * SECOND)], 0) for number in range(5)],
]
"""Values of one window in segments of two sizes, so that compaction takes them out of the order of their epochs."""


@quickly
@given(st.sampled_from(WINDOW_FNS), gathering_scripts(most=10), st.integers(1, 3))
@example(FixedWindows(10), OUT_OF_STEP, 1)
def test_both_ways_put_out_the_same(window_fn: WindowFn, steps: list[Step], parts: int) -> None:
    windowing = Windowing.of(window_fn)
    assert gathered(windowing, steps, [at_once], parts) == gathered(windowing, steps, [by_key], parts)


@quickly
@given(st.sampled_from(WINDOW_FNS), gathering_scripts(), st.data())
def test_windows_that_travel_with_elements(window_fn: WindowFn, steps: list[Step], data: st.DataObject) -> None:
    windowing, steps = Windowing.of(window_fn), windowed(steps, window_fn, data.draw)
    form = GroupingInputForm.WINDOWED
    assert gathered(windowing, steps, [at_once], form=form) == gathered(windowing, steps, [by_key], form=form)


@quickly
@given(st.sampled_from(WINDOW_FNS), gathering_scripts(most=10), st.integers(1, 3), st.lists(st.booleans(), min_size=1))
def test_values_in_columns(window_fn: WindowFn, steps: list[Step], parts: int, in_batches: list[bool]) -> None:
    """Some batches are columns, of several shapes, and some are not."""
    windowing = Windowing.of(window_fn)
    mixed = [
        step._replace(
            elements=[(f"k{key!a}", repr(value), time) for key, value, time in step.elements],
            batch=in_columns if in_batches[number % len(in_batches)] else None,
        )
        for number, step in enumerate(steps)
    ]
    assert gathered(windowing, mixed, [at_once], parts) == gathered(windowing, mixed, [by_key], parts)


@quickly
@given(
    st.sampled_from(WINDOW_FNS),
    gathering_scripts(most=8),
    st.lists(st.sampled_from([by_key, at_once]), min_size=1, max_size=8),
    st.lists(st.integers(1, 4), min_size=1, max_size=5),
)
def test_ways_and_intervals_that_change_between_epochs(
    window_fn: WindowFn, steps: list[Step], ways: list[Any], counts: list[int]
) -> None:
    windowing = Windowing.of(window_fn)
    assert gathered(windowing, steps, ways, counts=counts) == gathered(windowing, steps, [by_key])


def test_keys_that_columns_do_not_hold() -> None:
    for key in (("\ud800",), 1 << 70, None, 1.5, (True, "x")):
        steps = [Step([(key, 1, 0), (key, 2, MIN_TIMESTAMP + 1)], MIN_TIMESTAMP)]
        windowing = Windowing.of(FixedWindows(10))
        assert gathered(windowing, steps, [at_once]) == gathered(windowing, steps, [by_key])
