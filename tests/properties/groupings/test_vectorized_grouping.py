"""Combining all keys at once is combining key by key: the same panes, counters and order, and nothing left behind."""

from __future__ import annotations

import random
from collections import namedtuple

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from headrace.lowlevel.intervals.interval_map import IntervalMap
from headrace.lowlevel.time import MAX_TIMESTAMP, MIN_TIMESTAMP, SECOND
from headrace.lowlevel.vectorized import segment_store
from headrace.sdk.combinefns.combine_fn import AnyCombineFn
from headrace.sdk.combinefns.composite import TupleCombineFn
from headrace.sdk.combinefns.numeric import CountCombineFn, MaxFn, MeanCombineFn, MinFn, SumFn
from headrace.sdk.windows import FixedWindows, GlobalWindows, SlidingWindows, WindowFn
from headrace.sdk.windows.windowing import ClosingBehavior, Windowing
from tests.properties.grouping_strategies import Combining, Step, Way, by_columns, by_key, of_each_key

Place = namedtuple("Place", ["town", "number"])
Element = tuple[object, object, int]

WINDOW_FNS: list[WindowFn] = [
    FixedWindows(10),
    FixedWindows(7, 3),
    SlidingWindows(10, 4),
    SlidingWindows(12, 4),
    GlobalWindows(),
]
COMBINERS: list[AnyCombineFn] = [SumFn(), CountCombineFn(), MeanCombineFn(), MaxFn(), MinFn()]
TUPLES = TupleCombineFn(SumFn(), CountCombineFn(), MeanCombineFn(), MaxFn(), MinFn())
KEYS = [
    st.sampled_from(["a", "b", "", "\N{SNOWMAN}\0"]),
    st.sampled_from([0, 1, -5, (1 << 63) - 1, -(1 << 63)]),
    st.sampled_from([("a", 1), ("a", 2), ("", -1)]),
    st.sampled_from([Place("a", 1), Place("b", 1)]),
    st.sampled_from(
        ["a", 1, True, 1.0, None, b"a", "\ud800", 1 << 70, (1, "x"), (True, "x"), ("\ud800",), (), Place("a", 1)]
    ),
]
WHOLE = st.integers(-9, 9)
VALUES = [
    WHOLE,
    WHOLE | st.sampled_from([(1 << 63) - 1, -(1 << 63), 1 << 61, -(1 << 62), 1 << 80, -(1 << 80)]),
    # Sums of these are exact in whatever order.
    st.integers(-9, 9).map(lambda number: number / 4),
    WHOLE.map(lambda number: 2 * number) | WHOLE.map(lambda number: number + 0.5),
]
EDGES = [MIN_TIMESTAMP, MIN_TIMESTAMP + 1, -(1 << 62), 1 - (1 << 62), (1 << 62) - 1, 1 << 62, MAX_TIMESTAMP - 1]


@st.composite
def scripts(draw: st.DrawFn, most: int = 6) -> list[Step]:
    keys, values = draw(st.sampled_from(KEYS)), draw(st.sampled_from(VALUES))
    far = draw(st.booleans())
    steps = []
    watermark = draw(st.sampled_from([0, MIN_TIMESTAMP]))
    wall_time = 0
    for _ in range(draw(st.integers(1, most))):
        around = max(watermark, 0)
        times = st.integers(around - 30 * SECOND, around + 25 * SECOND)
        if far:
            times |= st.sampled_from(EDGES)
        elements = draw(st.lists(st.tuples(keys, values, times), max_size=8))
        watermark = max(0, watermark) + draw(st.sampled_from([0, 0, 1, 3, 10, 40])) * SECOND
        wall_time += draw(st.sampled_from([0, 1, 2, 3, 30])) * SECOND
        steps.append(Step(elements, watermark, wall_time=wall_time))
    return steps


def agree(windowing: Windowing, combine: AnyCombineFn, steps: list[Step]) -> Combining:
    """Both ways come to the same; all is freed at the end."""
    expected = Combining(windowing, combine, by_key).run(steps)
    found = Combining(windowing, combine, by_columns).run(steps)
    assert of_each_key(found.panes) == of_each_key(expected.panes)
    assert found.counted() == expected.counted()
    assert not found.stored()
    return found


@pytest.mark.parametrize("key", [("\ud800",), (1 << 70,), ("a", 1 << 70)])
def test_keys_that_columns_do_not_hold(key: object) -> None:
    """Their results may come as columns all the same: those of windows that are empty."""
    windowing = Windowing.of(FixedWindows(10), allowed_lateness=5, closing_behavior=ClosingBehavior.FIRE_ALWAYS)
    agree(windowing, SumFn(), [Step([(key, 1, 0)], 10 * SECOND)])


def test_sums_are_exact_beyond_64_bits() -> None:
    found = agree(Windowing.of(FixedWindows(10)), SumFn(), BEYOND)
    assert [pane.value for pane in found.panes] == [1 << 63]


HUGE = 1 << 80
SOONER = [Step([("a", 1, 15 * SECOND)], 0), Step([("a", HUGE, 5 * SECOND)], 0)]
"""The window that ends later has a result as columns, the other one has not."""
BEYOND = [Step([("a", 1, 0), ("a", (1 << 63) - 1, 0)], 0)]
"""Numbers of 64 bits whose sum is none."""
PARTLY_LATE = [Step([], 10 * SECOND), Step([("a", 1, 7 * SECOND), ("a", 1, -5 * SECOND)], 10 * SECOND)]
"""One is late for the earlier of its windows only, the other for all."""
LAST = [Step([("a", 0, MAX_TIMESTAMP - 1)], 0)]


@given(st.sampled_from(WINDOW_FNS), st.sampled_from(COMBINERS), scripts())
@example(FixedWindows(10), SumFn(), SOONER)
@example(SlidingWindows(10, 4), SumFn(), LAST)
@example(SlidingWindows(10, 4), SumFn(), PARTLY_LATE)
def test_both_ways_put_out_the_same(window_fn: WindowFn, combine: AnyCombineFn, steps: list[Step]) -> None:
    windowing = Windowing.of(window_fn)
    found = agree(windowing, combine, steps)
    for its in of_each_key(found.panes).values():
        ends = [told[4] for told in its]
        assert ends == sorted(ends)


@given(st.sampled_from(WINDOW_FNS), scripts())
def test_several_results_at_once(window_fn: WindowFn, steps: list[Step]) -> None:
    wide = [Step([(key, (value,) * 5, time) for key, value, time in step.elements], step.watermark) for step in steps]
    agree(Windowing.of(window_fn), TUPLES, wide)


def in_time(steps: list[Step]) -> list[Step]:
    """Without what is late, and nothing at the ends of time."""
    watermark, kept = MIN_TIMESTAMP, []
    for step in steps:
        its = [one for one in step.elements if max(watermark, -(1 << 61)) <= one[2] < 1 << 61]
        kept.append(Step(its, step.watermark))
        watermark = step.watermark
    return kept


@given(st.sampled_from(WINDOW_FNS), st.sampled_from(COMBINERS), scripts(), st.randoms(use_true_random=False))
def test_order_and_bundling_make_no_difference(
    window_fn: WindowFn, combine: AnyCombineFn, steps: list[Step], shuffle: random.Random
) -> None:
    steps = in_time(steps)
    windowing = Windowing.of(window_fn)
    expected = Combining(windowing, combine, by_key).run(steps)
    for change in (_reversed, _one_by_one, lambda steps: _shuffled(steps, shuffle)):
        found = Combining(windowing, combine).run(change(steps))
        assert of_each_key(found.panes) == of_each_key(expected.panes)
        assert found.counted() == expected.counted()
        assert not found.stored()


def _reversed(steps: list[Step]) -> list[Step]:
    return [Step(step.elements[::-1], step.watermark) for step in steps]


def _one_by_one(steps: list[Step]) -> list[Step]:
    made, watermark = [], MIN_TIMESTAMP
    for step in steps:
        made += [Step([element], watermark) for element in step.elements]
        made.append(Step([], watermark := step.watermark))
    return made


def _shuffled(steps: list[Step], shuffle: random.Random) -> list[Step]:
    """In any order, and later, so far as the watermark allows."""
    made: list[Step] = []
    waiting: list[Element] = []
    for step in steps:
        waiting += step.elements
        shuffle.shuffle(waiting)
        # Equal elements are still several: each goes or stays for itself.
        stays, goes = [], []
        for one in waiting:
            (stays if one[2] >= step.watermark and shuffle.random() < 0.5 else goes).append(one)
        made.append(Step(goes, step.watermark))
        waiting = stays
    return [*made, Step(waiting, made[-1].watermark)]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments that come together soon."""
    monkeypatch.setattr(segment_store, "SMALL", 2)
    monkeypatch.setattr(segment_store, "MANY", 3)
    monkeypatch.setattr(segment_store, "GROWTH", 2)


@pytest.mark.usefixtures("small")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(WINDOW_FNS), st.sampled_from(COMBINERS), scripts(most=14))
def test_segments_that_have_come_together_say_the_same(
    window_fn: WindowFn, combine: AnyCombineFn, steps: list[Step]
) -> None:
    agree(Windowing.of(window_fn), combine, steps)


@pytest.mark.parametrize("value", [1, HUGE])
def test_there_are_few_segments_and_lines_are_written_a_few_times(value: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_store, "SMALL", 8)
    monkeypatch.setattr(segment_store, "MANY", 4)
    monkeypatch.setattr(segment_store, "GROWTH", 2)
    combining = Combining(Windowing.of(FixedWindows(10)), SumFn(), intervals=IntervalMap.evenly(1))
    most, rows = 0, 8 * 256
    for epoch in range(256):
        combining.step(Step([(8 * epoch + n, value, n * 10 * SECOND) for n in range(8)], 0))
        most = max(most, combining.stored()["segments"])
    doublings = 8
    assert most <= 3 * doublings
    assert combining.written <= doublings * rows


@given(st.sampled_from(WINDOW_FNS), st.sampled_from(COMBINERS), scripts(), st.integers(0, 6), st.integers(1, 4))
def test_state_of_the_general_way_goes_on(
    window_fn: WindowFn, combine: AnyCombineFn, steps: list[Step], turn: int, intervals: int
) -> None:
    """Also where the key space has been cut anew meanwhile."""
    windowing = Windowing.of(window_fn)
    expected = Combining(windowing, combine, by_key).run(steps)
    found = Combining(windowing, combine, by_key)
    for number, step in enumerate(steps):
        if number == turn:
            found.go_on(by_columns)
            found.cut(IntervalMap.evenly(intervals))
        found.step(step)
    found.go_on(by_columns)
    found.run([])
    assert of_each_key(found.panes) == of_each_key(expected.panes)
    assert found.counted() == expected.counted()
    assert not found.stored()


@pytest.mark.usefixtures("small")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(WINDOW_FNS), st.sampled_from(COMBINERS), scripts(most=10), st.lists(st.integers(1, 4), min_size=10)
)
def test_intervals_are_cut_while_windows_are_open(
    window_fn: WindowFn, combine: AnyCombineFn, steps: list[Step], counts: list[int]
) -> None:
    windowing = Windowing.of(window_fn)
    expected = Combining(windowing, combine, by_key).run(steps)
    found = Combining(windowing, combine)
    for step, count in zip(steps, counts, strict=False):
        found.step(step)
        found.cut(IntervalMap.evenly(count))
    found.run([])
    assert of_each_key(found.panes) == of_each_key(expected.panes)
    assert found.counted() == expected.counted()
    assert not found.stored()


@given(
    st.sampled_from([SlidingWindows(10, 4), SlidingWindows(8, 4), SlidingWindows(20, 4)]),
    st.sampled_from(COMBINERS),
    scripts(),
    st.integers(0, 6),
)
def test_windows_get_another_length_while_some_are_open(
    window_fn: WindowFn, combine: AnyCombineFn, steps: list[Step], turn: int
) -> None:
    """Those that are open stay as long as they were."""

    def run(way: Way) -> Combining:
        combining = Combining(Windowing.of(SlidingWindows(10, 4)), combine, way)
        for number, step in enumerate(steps):
            if number == turn:
                combining.rewindow(Windowing.of(window_fn))
            combining.step(step)
        return combining.run([])

    expected, found = run(by_key), run(by_columns)
    assert of_each_key(found.panes) == of_each_key(expected.panes)
    assert not found.stored()
