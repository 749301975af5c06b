"""What a grouping stores, holds and puts out, beyond what transcripts can say."""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from typing import cast

import pytest

from headrace.lowlevel.coders.coder import encode_key, key_hash_of
from headrace.lowlevel.errors import CheckpointError, TopologyError
from headrace.lowlevel.state.state_store import Delta
from headrace.lowlevel.time import MAX_TIMESTAMP, MIN_TIMESTAMP, SECOND, Timestamp
from headrace.lowlevel.topology.timer import HOLD, TimeDomain
from headrace.sdk.combinefns.collecting import ToListCombineFn
from headrace.sdk.combinefns.combine_fn import AnyCombineFn, CombineFn
from headrace.sdk.combinefns.numeric import MeanCombineFn, SumFn
from headrace.sdk.model.element_form import GroupingInputForm
from headrace.sdk.model.panes import PANE_INFO_UNKNOWN, PaneInfo, PaneInfoTiming, pane_info
from headrace.sdk.operators.grouping.grouping import Grouping
from headrace.sdk.triggers import (
    AccumulationMode,
    AfterCount,
    AfterProcessingTime,
    AfterWatermark,
    Moment,
    Progress,
    Repeatedly,
    Trigger,
)
from headrace.sdk.windows import (
    AssignContext,
    BoundedWindow,
    FixedWindows,
    GlobalWindows,
    IntervalWindow,
    MergeContext,
    NonMergingWindowFn,
    Sessions,
    SlidingWindows,
    TimestampCombiner,
    WindowFn,
)
from headrace.sdk.windows.window_fn import OUTSIDE_WINDOWS
from headrace.sdk.windows.windowing import Windowing
from tests.harness import Element, Harness

SUM = cast(AnyCombineFn, SumFn())
ACCUMULATING = AccumulationMode.ACCUMULATING


def at(*seconds: float, key: object = "k") -> list[Element]:
    """Elements whose value is their time."""
    return [(key, time, round(time * SECOND)) for time in seconds]


def stored(harness: Harness) -> tuple[int, int]:
    """Number of cells and marks."""
    counts = harness.stored()
    return counts["cells"], counts["marks"]


# What is stored


def test_a_window_has_one_cell_and_one_timer() -> None:
    harness = Harness(Grouping(Windowing.of(FixedWindows(10), allowed_lateness=50), SUM))
    harness.feed(at(1, 2, 11))
    assert stored(harness) == (2, 2)
    harness.feed(at(3, 12))
    assert stored(harness) == (2, 2)
    harness.advance(10 * SECOND)
    assert stored(harness) == (2, 2), "the timer moved on to the closing"
    harness.advance(60 * SECOND)
    assert stored(harness) == (1, 1)
    harness.advance(70 * SECOND)
    assert harness.stored() == {"keys": 0, "cells": 0, "marks": 0, "ids": 0, "segments": 0}


def test_a_window_within_one_bundle_is_never_stored() -> None:
    harness = Harness(Grouping(Windowing.of(FixedWindows(10)), SUM))
    panes = harness.feed_and_advance(at(1, 2, 11), 100 * SECOND)
    assert [pane.value for pane in panes] == [3, 11]
    assert stored(harness) == (0, 0)
    assert "timers" not in harness.counters


def test_grouped_values_are_appended_not_rewritten() -> None:
    harness = Harness(Grouping(Windowing.of(FixedWindows(10))))
    sizes = []
    for number in range(5):
        before = {cell: data for _, cell, data in cells(harness)}
        harness.feed([("k", b"x" * 1000, number * SECOND)])
        after = {cell: data for _, cell, data in cells(harness)}
        sizes.append(sum(len(data) for cell, data in after.items() if before.get(cell) != data))
    assert max(sizes) < 1300 and stored(harness) == (6, 1)
    (pane,) = harness.advance(10 * SECOND)
    assert pane.value == [b"x" * 1000] * 5 and stored(harness) == (0, 0)


def cells(harness: Harness) -> list[tuple[bytes, bytes, bytes]]:
    return [
        (row, cell, data)
        for delta in harness.store.dump()
        for (row, cell), data in delta.cells.items()
        if data is not None
    ]


def test_discarding_frees_the_values() -> None:
    harness = Harness(Grouping(Windowing.of(GlobalWindows(), Repeatedly(AfterCount(3)), AccumulationMode.DISCARDING)))
    harness.feed(at(1))
    harness.feed(at(2))
    assert stored(harness) == (3, 1)
    (pane,) = harness.feed(at(3))
    assert pane.value == [1, 2, 3] and stored(harness) == (1, 1)
    harness.feed(at(4))
    (pane,) = harness.advance(MAX_TIMESTAMP)
    assert pane.value == [4] and stored(harness) == (0, 0)


def test_sessions_that_merge_leave_one_record_one_timer_and_their_values() -> None:
    trigger = AfterWatermark(early=AfterProcessingTime(60))
    windowing = Windowing.of(Sessions(10), trigger, ACCUMULATING, TimestampCombiner.OUTPUT_AT_EARLIEST)
    harness = Harness(Grouping(windowing))
    for time in (0, 16, 32, 8, 24):
        harness.feed(at(time))
    marks = [mark for delta in harness.store.dump() for mark in delta.marks]
    assert [domain for _, domain, _ in sorted(marks, key=lambda mark: mark[1])] == [0, 1, HOLD]
    assert stored(harness) == (6, 3)
    (pane,) = harness.clock(60 * SECOND)
    assert sorted(cast("list[int]", pane.value)) == [0, 8, 16, 24, 32]
    harness.advance(42 * SECOND)
    assert stored(harness) == (0, 0)


def test_a_finished_window_keeps_only_that_it_has_finished() -> None:
    harness = Harness(Grouping(Windowing.of(FixedWindows(10), AfterCount(2), ACCUMULATING, allowed_lateness=5)))
    harness.feed([("k", "x" * 500, 0)])
    harness.feed([("k", "x" * 500, 1)])
    assert [(len(data), cell[:1]) for _, cell, data in cells(harness)] == [(8, b"w")]
    harness.feed(at(3))
    assert harness.dropped == 1
    harness.advance(14_999_999)
    assert stored(harness) == (1, 1)
    harness.advance(15 * SECOND)
    assert stored(harness) == (0, 0)


def test_a_record_of_another_format_is_refused() -> None:
    harness = Harness(Grouping(Windowing.of(FixedWindows(10)), SUM))
    harness.feed(at(1))
    ((row, cell, _),) = cells(harness)
    harness.store.apply(Delta(cells={(row, cell): pickle.dumps((99, "whatever"))}))
    with pytest.raises(Exception, match=r"record of window \[0.0, 10.0\) has format 99") as caught:
        harness.feed(at(2))
    assert isinstance(caught.value.__cause__, CheckpointError)


def test_a_grouping_can_be_shipped() -> None:
    for form in GroupingInputForm:
        grouping = Grouping(Windowing.of(FixedWindows(10)), SUM, form)
        harness = Harness(pickle.loads(pickle.dumps(grouping)))
        harness.feed([])
    harness = Harness(pickle.loads(pickle.dumps(Grouping(Windowing.of(Sessions(10)), SUM))))
    harness.feed(at(1))
    harness = Harness(Grouping(Windowing.of(Sessions(10)), SUM))


def test_a_bundle_after_a_failed_one_begins_from_what_was_committed() -> None:
    class Fails(SumFn):
        def add_inputs(self, accumulator: int, elements: Iterable[int]) -> int:
            values = list(elements)
            if 13 in values:
                raise ValueError("thirteen")
            return sum(values, accumulator)

    harness = Harness(Grouping(Windowing.of(FixedWindows(10)), cast(AnyCombineFn, Fails())))
    harness.feed(at(1, 2))
    with pytest.raises(Exception, match="thirteen"):
        harness.feed([("k", 5, 0), ("k", 6, 1), ("k", 13, 11 * SECOND), ("k", 1, 11 * SECOND)])
    harness.feed(at(3, 4))
    assert [pane.value for pane in harness.advance(10 * SECOND)] == [10]


# Panes


def test_panes_are_put_out_in_the_order_of_the_times_that_fire_them() -> None:
    harness = Harness(Grouping(Windowing.of(FixedWindows(10)), SUM))
    harness.feed(at(25, 5))
    panes = harness.feed_and_advance(at(35, 15), MAX_TIMESTAMP)
    assert [pane.value for pane in panes] == [5, 15, 25, 35]


def test_a_bundle_in_pieces_is_one_occasion_for_a_trigger() -> None:
    trigger = AfterWatermark(early=AfterCount(2))
    harness = Harness(Grouping(Windowing.of(FixedWindows(10), trigger, ACCUMULATING), SUM))
    panes = harness.feed(at(1, 2, 3, 4, 5, 6), parts=6)
    assert [(pane.value, pane.info.index) for pane in panes] == [(21, 0)]


def test_late_and_early_keys_apart() -> None:
    harness = Harness(Grouping(Windowing.of(FixedWindows(10)), SUM))
    harness.advance(10 * SECOND)
    harness.feed([*at(1, 2, key=1), *at(1, 11, key=True), *at(12, key=1.0), *at(13, key=("a", None))])
    assert harness.dropped == 3
    panes = harness.advance(MAX_TIMESTAMP)
    assert {(repr(pane.key), pane.value) for pane in panes} == {("True", 11), ("1.0", 12), ("('a', None)", 13)}


def test_lateness_is_exact_to_the_microsecond() -> None:
    for window_fn, end in ((FixedWindows(10), 10), (SlidingWindows(10, 10), 10), (Sessions(10), 10)):
        harness = Harness(Grouping(Windowing.of(window_fn, allowed_lateness=2.5), SUM))
        harness.advance(round((end + 2.5) * SECOND) - 1)
        assert [pane.info.timing for pane in harness.feed(at(0))] == [PaneInfoTiming.LATE]
        harness.advance(round((end + 2.5) * SECOND))
        harness.feed([*at(0), ("k", 1, 1)] if isinstance(window_fn, Sessions) else at(0))
        assert harness.dropped == 1, window_fn


def test_everything_comes_out_at_the_end_of_time() -> None:
    lateness = MAX_TIMESTAMP / SECOND
    for window_fn in (GlobalWindows(), FixedWindows(10), SlidingWindows(10, 5), Sessions(10)):
        harness = Harness(Grouping(Windowing.of(window_fn, Repeatedly(AfterCount(9)), ACCUMULATING, None, lateness)))
        harness.feed([("k", "first", MIN_TIMESTAMP), ("k", "now", 0), ("k", "last", MAX_TIMESTAMP - 1)])
        panes = harness.advance(MAX_TIMESTAMP)
        assert {value for pane in panes for value in cast("list[str]", pane.value)} == {"first", "now", "last"}
        assert stored(harness) == (0, 0)


def test_a_mutable_accumulator_is_not_shared_with_a_pane() -> None:
    trigger = AfterWatermark(early=AfterCount(1), late=AfterCount(1))
    windowing = Windowing.of(FixedWindows(10), trigger, ACCUMULATING, allowed_lateness=90)
    harness = Harness(Grouping(windowing, cast(AnyCombineFn, ToListCombineFn())))
    (early,) = harness.feed(at(1, 2))
    (on_time,) = harness.advance(10 * SECOND)
    harness.feed(at(3))
    assert early.value == on_time.value == [1, 2]


def test_compacting_does_not_change_a_pane() -> None:
    class Shrinking(ToListCombineFn[int]):
        def compact(self, accumulator: list[int]) -> list[int]:
            accumulator[:] = [sum(accumulator)]
            return accumulator

    trigger = AfterWatermark(early=AfterCount(1))
    harness = Harness(Grouping(Windowing.of(FixedWindows(10), trigger, ACCUMULATING), cast(AnyCombineFn, Shrinking())))
    assert [pane.value for pane in harness.feed(at(1, 2))] == [[1, 2]]
    assert [pane.value for pane in harness.feed(at(4))] == [[3, 4]]


def test_a_lifted_accumulator_is_not_shared_between_windows() -> None:
    class InPlace(ToListCombineFn[int]):
        def merge_accumulators(self, accumulators: Iterable[list[int]]) -> list[int]:
            first, *others = accumulators
            for other in others:
                first += other
            return first

    windowing = Windowing.of(SlidingWindows(10, 5))
    harness = Harness(Grouping(windowing, cast(AnyCombineFn, InPlace()), GroupingInputForm.LIFTED))
    code = windowing.window_fn.get_window_coder().encode(IntervalWindow(5, 10))
    harness.feed([("k", (code, [number], 1, 1), number * SECOND) for number in (1, 2)], parts=2)
    harness.feed([("k", (code, [3], 1, 1), 7 * SECOND)])
    panes = harness.advance(MAX_TIMESTAMP)
    assert [(repr(pane.window), pane.value) for pane in panes] == [
        ("[0.0, 10.0)", [1, 2, 3]),
        ("[5.0, 15.0)", [1, 2, 3]),
    ]


def test_an_accumulator_of_nothing_in_an_empty_pane() -> None:
    trigger = AfterWatermark(early=AfterCount(1))
    windowing = Windowing.of(FixedWindows(10), trigger, AccumulationMode.DISCARDING)
    harness = Harness(Grouping(windowing, cast(AnyCombineFn, MeanCombineFn())))
    harness.feed(at(1, 2))
    (pane,) = harness.advance(10 * SECOND)
    assert pane.value != pane.value, "the mean of nothing is not a number"


def test_a_combiner_is_set_up_and_compacted() -> None:
    class Watched(CombineFn[int, list[int], int]):
        ready = False

        def setup(self) -> None:
            self.ready = True

        def create_accumulator(self) -> list[int]:
            assert self.ready
            return []

        def add_input(self, accumulator: list[int], element: int) -> list[int]:
            return [*accumulator, element]

        def merge_accumulators(self, accumulators: Iterable[list[int]]) -> list[int]:
            return [value for accumulator in accumulators for value in accumulator]

        def compact(self, accumulator: list[int]) -> list[int]:
            return [sum(accumulator)]

        def extract_output(self, accumulator: list[int]) -> int:
            assert len(accumulator) <= 2
            return sum(accumulator)

    harness = Harness(Grouping(Windowing.of(FixedWindows(10)), cast(AnyCombineFn, Watched())))
    for time in range(5):
        harness.feed(at(time))
    assert [pane.value for pane in harness.advance(10 * SECOND)] == [10]


# Window functions of one's own


class ByFirstLetter(WindowFn):
    """Merges everything that begins with the same letter into a window as long as all of it."""

    def assign(self, context: AssignContext) -> list[BoundedWindow]:
        start = context.timestamp
        return [Named(str(context.element)[0], start.micros, (start + 10).micros)]

    def merge(self, merge_context: MergeContext) -> None:
        by_name: dict[str, list[Named]] = {}
        for window in merge_context.windows:
            assert isinstance(window, Named)
            by_name.setdefault(window.name, []).append(window)
        for name, windows in by_name.items():
            if len(windows) > 1:
                start = min(window.start_us for window in windows)
                merge_context.merge(windows, Named(name, start, max(window.stop_us for window in windows)))

    def get_window_coder(self) -> NamedCoder:
        return NamedCoder()


class Named(BoundedWindow):
    def __init__(self, name: str, start_us: int, stop_us: int) -> None:
        super().__init__(Timestamp(micros=stop_us))
        self.name, self.start_us, self.stop_us = name, start_us, stop_us


class NamedCoder:
    def encode(self, value: object) -> bytes:
        assert isinstance(value, Named)
        return f"{value.name},{value.start_us},{value.stop_us}".encode()

    def decode(self, data: bytes) -> Named:
        name, start_us, stop_us = data.decode().split(",")
        return Named(name, int(start_us), int(stop_us))


def test_merging_by_a_window_function_of_ones_own() -> None:
    harness = Harness(Grouping(Windowing.of(ByFirstLetter(), allowed_lateness=50)))

    def feed(*words: tuple[str, float]) -> list[tuple[str, list[str]]]:
        panes = harness.feed([("k", word, round(time * SECOND)) for word, time in words])
        return described(panes)

    def described(panes: list) -> list[tuple[str, list[str]]]:
        return sorted((pane.window.name, sorted(pane.value)) for pane in panes)

    feed(("apple", 1), ("beech", 2))
    feed(("acorn", 30))
    feed(("ash", 15), ("beet", 1))
    assert described(harness.advance(12 * SECOND)) == [("b", ["beech", "beet"])]
    assert described(harness.advance(40 * SECOND)) == [("a", ["acorn", "apple", "ash"])]
    assert feed(("late", 1)) == [("l", ["late"])]
    harness.advance(MAX_TIMESTAMP)
    assert stored(harness) == (0, 0)


def test_values_survive_when_a_window_comes_back_with_the_bounds_of_one_that_merged() -> None:
    """The merged window keeps the cells of its parts: a new window with a part's name must not write over them."""

    class Fickle(WindowFn):
        """Merges only when it is told to."""

        def assign(self, context: AssignContext) -> list[BoundedWindow]:
            return [IntervalWindow(0, 10) if "x" in str(context.element) else IntervalWindow(0, 20)]

        def merge(self, merge_context: MergeContext) -> None:
            if merging and len(merge_context.windows) > 1:
                merge_context.merge(merge_context.windows, IntervalWindow(0, 30))

    merging = True
    harness = Harness(Grouping(Windowing.of(Fickle())))
    harness.feed([("k", "x1", 0)])
    harness.feed([("k", "y1", 0)])
    merging = False
    harness.feed([("k", "x2", 0)])
    harness.feed([("k", "x3", 0)])
    panes = harness.advance(MAX_TIMESTAMP)
    assert [(repr(pane.window), pane.value) for pane in panes] == [
        ("[0.0, 10.0)", ["x2", "x3"]),
        ("[0.0, 30.0)", ["x1", "y1"]),
    ]
    assert stored(harness) == (0, 0)


class Shifted(FixedWindows):
    """Counts every timestamp as three seconds later, also where that is after the window."""

    def get_transformed_output_time(self, window: BoundedWindow, input_timestamp: Timestamp) -> Timestamp:
        return input_timestamp + 3


def test_transformed_timestamps() -> None:
    windowing = Windowing.of(Shifted(10), timestamp_combiner=TimestampCombiner.OUTPUT_AT_EARLIEST_TRANSFORMED)
    harness = Harness(Grouping(windowing))
    harness.feed(at(4, 2, 18))
    harness.advance(7 * SECOND)
    assert harness.output_watermark == 5 * SECOND
    assert [pane.timestamp for pane in harness.advance(MAX_TIMESTAMP)] == [5 * SECOND, 21 * SECOND]


def test_elements_in_no_window_are_counted() -> None:
    class Picky(NonMergingWindowFn):
        def assign(self, context: AssignContext) -> list[BoundedWindow]:
            return [IntervalWindow(0, 10)] if context.timestamp < 5 else []

    for windowing in (Windowing.of(Picky()), Windowing.of(SlidingWindows(5, 10))):
        harness = Harness(Grouping(windowing))
        harness.feed(at(1, 7, 8))
        assert harness.counters[OUTSIDE_WINDOWS] == 2
        assert [pane.value for pane in harness.advance(MAX_TIMESTAMP)] == [[1]]


def test_a_trigger_of_ones_own_sees_the_values() -> None:
    class AfterFlush(Trigger):
        """Fires with the first element that says so; remembers that it saw it."""

        def on_elements(self, progress: Progress, count: int, values: object, moment: Moment) -> Progress:
            return progress or ("flush" in cast("list[object]", values)) or None

        def on_merge(self, parts: object, moment: Moment) -> Progress:
            return any(cast("list[object]", parts)) or None

        def should_fire(self, progress: Progress, moment: Moment) -> bool:
            return bool(progress)

        def on_fire(self, progress: Progress, moment: Moment) -> Progress:
            return None

        @property
        def needs_values(self) -> bool:
            return True

    harness = Harness(Grouping(Windowing.of(GlobalWindows(), AfterFlush(), AccumulationMode.DISCARDING)))
    harness.feed([("k", "a", 0)])
    assert [pane.value for pane in harness.feed([("k", "flush", 0), ("k", "b", 0)])] == [["a", "flush", "b"]]
    assert [pane.value for pane in harness.advance(MAX_TIMESTAMP)] == []


# Configuration


def test_a_trigger_needs_a_mode() -> None:
    with pytest.raises(TopologyError, match="without an accumulation_mode"):
        Windowing.of(FixedWindows(1), AfterCount(1))
    with pytest.raises(TopologyError, match="allowed_lateness is -1 s"):
        Windowing.of(FixedWindows(1), allowed_lateness=-1)


def test_a_window_coder_must_be_deterministic() -> None:
    class Vague(NamedCoder):
        def is_deterministic(self) -> bool:
            return False

    class Windows(ByFirstLetter):
        def get_window_coder(self) -> Vague:
            return Vague()

    with pytest.raises(TopologyError, match="not deterministic"):
        Windowing.of(Windows())


def test_the_windowing_after_a_grouping_goes_on() -> None:
    windowing = Windowing.of(FixedWindows(5), AfterWatermark(early=AfterCount(7)), ACCUMULATING, allowed_lateness=3)
    after = windowing.after_grouping()
    assert after.trigger == AfterWatermark(early=AfterCount(1))
    assert after.window_fn == FixedWindows(5) and after.allowed_lateness == 3
    assert windowing.may_lose_data() and not Windowing.of(FixedWindows(5), allowed_lateness=3).may_lose_data()


def test_pane_infos_are_values() -> None:
    pane = pane_info(False, True, PaneInfoTiming.LATE, 3, 1)
    assert pane == PaneInfo(False, True, PaneInfoTiming.LATE, 3, 1, is_retraction=False)
    assert pickle.loads(pickle.dumps(pane)) is pane
    assert PANE_INFO_UNKNOWN.timing is PaneInfoTiming.UNKNOWN and PANE_INFO_UNKNOWN.is_first
    assert PaneInfoTiming.from_string("LATE") is PaneInfoTiming.LATE and int(PaneInfoTiming.LATE) == 2


def test_timers_of_a_merged_window_are_gone() -> None:
    harness = Harness(Grouping(Windowing.of(Sessions(10), Repeatedly(AfterProcessingTime(50)), ACCUMULATING), SUM))
    harness.feed(at(0, 20))
    harness.feed(at(8))
    harness.feed(at(14))
    row = key_hash_of(encode_key("k"))
    marks = {(domain, timestamp) for domain, _, timestamp in harness.store.marks(row)}
    assert marks == {(TimeDomain.LOW_WATERMARK, 30 * SECOND), (TimeDomain.WALL_TIME, 50 * SECOND)}
