"""Late by a microsecond or not at all; six orders of arrival; wall clocks that jump."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.lowlevel import (
    BoundedInjector,
    CallSink,
    Computation,
    Context,
    ManualInjector,
    Record,
    TimeDomain,
    Timer,
    Topology,
)
from headrace.lowlevel.time import MAX_TIMESTAMP, SECOND
from headrace.runners.engine.clock import ManualClock
from headrace.runners.engine.options import Progress, RunOptions
from headrace.runners.local import LocalRunner
from headrace.sdk.grouping import Grouping
from headrace.sdk.panes import PaneInfoTiming
from headrace.sdk.triggers import AccumulationMode, AfterCount, AfterWatermark
from headrace.sdk.windowing import Windowing
from headrace.sdk.windows import FixedWindows, Sessions, SlidingWindows, WindowFn
from tests.depth import examples
from tests.harness import Element, Harness
from tests.properties.model import last_contents
from tests.unit.test_local_runner import PerMinute

END = 10 * SECOND
"""Of the window that begins at 0."""
LATENESS = 5 * SECOND
LAST = END - 1
"""The window's greatest timestamp."""
ON_TIME, LATE, DROPPED = "on time", "late", "dropped"


@pytest.mark.parametrize(
    ("element", "watermark", "behind", "fate"),
    [
        # Behind the watermark or not: within the window, this is all that differs.
        (LAST - 1, LAST - 1, 0, ON_TIME),
        (LAST - 1, LAST, 1, ON_TIME),
        (LAST, LAST - 1, 0, ON_TIME),
        (LAST, LAST, 0, ON_TIME),
        # The window ends when the watermark reaches its end.
        (LAST, END, 1, LATE),
        (LAST, END + 1, 1, LATE),
        (0, END, 1, LATE),
        # It closes when the watermark reaches its end and lateness.
        (LAST, END + LATENESS - 1, 1, LATE),
        (LAST, END + LATENESS, 1, DROPPED),
        (LAST, END + LATENESS + 1, 1, DROPPED),
        (0, END + LATENESS - 1, 1, LATE),
        (0, END + LATENESS, 1, DROPPED),
        # A microsecond later is another window, which is still open.
        (END, END + LATENESS, 1, ON_TIME),
        (END, END, 0, ON_TIME),
        (END, END - 1, 0, ON_TIME),
    ],
)
def test_late_by_a_microsecond(element: int, watermark: int, behind: int, fate: str) -> None:
    """What becomes of an element that comes at a watermark. Its window has had an element in time before."""
    harness = Harness(Grouping(Windowing.of(FixedWindows(10), allowed_lateness=5)))
    harness.feed([("key", "before", element - element % END)])
    harness.advance(watermark)
    harness.feed([("key", "element", element)])
    harness.advance(MAX_TIMESTAMP)
    fates = [
        LATE if pane.info.timing is PaneInfoTiming.LATE else ON_TIME
        for pane in harness.panes
        if "element" in pane.value
    ]
    assert fates == ([] if fate is DROPPED else [fate])
    assert harness.counters.get("late", 0) == behind
    contributed = sum(len(pane.value) for pane in harness.panes)
    assert (contributed, harness.dropped) == ((1, 1) if fate is DROPPED else (2, 0))
    assert harness.counters["records"] == contributed + harness.dropped


@pytest.mark.parametrize(("timestamp", "late"), [(99, True), (100, False), (101, False)])
def test_a_computation_sees_what_is_late(timestamp: int, late: bool) -> None:
    class Asks(Computation):
        def process_record(self, record: Record, context: Context) -> None:
            asked.append(context.is_late(record))
            if context.is_late(record):
                context.drop_late()
            else:
                context.count("taken")

    asked: list[bool] = []
    topology = Topology()
    topology.injector("in", ManualInjector().watermark(100).records(("value", timestamp)))
    topology.computation("asks", Asks(), {"in": lambda value: value})
    counters = LocalRunner().run_topology(topology).counters["asks"]
    assert asked == [late]
    assert counters["records"] == counters.get("taken", 0) + counters.get("dropped_late", 0) == 1
    assert counters.get("late", 0) == counters.get("dropped_late", 0) == int(late)


BUNDLINGS: dict[str, Callable[[list[Element]], list[list[Element]]]] = {
    "all at once": lambda elements: [elements],
    "one by one": lambda elements: [[element] for element in elements],
    "in pairs": lambda elements: [elements[at : at + 2] for at in range(0, len(elements), 2)],
    "in order of time": lambda elements: [[element] for element in sorted(elements, key=lambda each: each[2])],
    "newest first": lambda elements: [[element] for element in sorted(elements, key=lambda each: -each[2])],
    "shuffled, in threes": lambda elements: [_shuffled(elements)[at : at + 3] for at in range(0, len(elements), 3)],
}


def _shuffled(elements: list[Element]) -> list[Element]:
    return random.Random(len(elements)).sample(elements, len(elements))


WINDOWS: list[WindowFn] = [FixedWindows(10), SlidingWindows(12, 4), Sessions(4)]


@settings(max_examples=examples(100, 5000))
@given(
    st.sampled_from(WINDOWS),
    st.integers(1, 4),
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 40)), min_size=1, max_size=20),
)
def test_six_orders_of_arrival_end_in_the_same_panes(
    window_fn: WindowFn, early: int, arrivals: list[tuple[str, int]]
) -> None:
    """Early panes differ, as they say what was known when; what each window ends with does not."""
    windowing = Windowing.of(window_fn, AfterWatermark(early=AfterCount(early)), AccumulationMode.ACCUMULATING)
    elements: list[Element] = [(key, number, second * SECOND) for number, (key, second) in enumerate(arrivals)]
    ends = {}
    for name, bundled in BUNDLINGS.items():
        harness = Harness(Grouping(windowing))
        for bundle in bundled(elements):
            harness.feed(bundle)
        harness.advance(MAX_TIMESTAMP)
        assert harness.dropped == 0
        ends[name] = last_contents([pane for pane in harness.panes if pane.info.timing is not PaneInfoTiming.EARLY])
        assert ends[name] == ends["all at once"], f"{name} differs from all at once"
    assert ends["all at once"]


class Jumping(ManualClock):
    """A wall clock that jumps by up to an hour either way whenever somebody looks."""

    def __init__(self, seed: int) -> None:
        super().__init__(10**15)
        self._random = random.Random(seed)
        self.backwards = 0
        self._last = 0

    def now(self) -> int:
        reading = super().now() + self._random.randint(-3600 * SECOND, 3600 * SECOND)
        self.backwards += reading < self._last
        self._last = reading
        return reading


class Ticks(Computation):
    """Has work on wall time, so that the clock does matter to the run."""

    def process_record(self, record: Record, context: Context) -> None:
        context.set_timer("tick", context.wall_time + 60 * SECOND, TimeDomain.WALL_TIME)

    def process_timer(self, timer: Timer, context: Context) -> None:
        assert context.wall_time >= timer.timestamp
        context.count("ticks")


def _run(clock: ManualClock) -> tuple[list[tuple[object, int]], list[Progress]]:
    rows: list[tuple[object, int]] = []
    progress: list[Progress] = []
    topology = Topology()
    topology.injector("in", BoundedInjector([(i % 5, (i * 37) % 700) for i in range(80)], max_delay=90))
    topology.computation("per minute", PerMinute(), {"in": lambda value: value}, ["minutes"])
    topology.computation("ticks", Ticks(), {"in": lambda value: value})
    topology.sink("out", "minutes", CallSink(lambda _, delivered: rows.extend(delivered)))
    options = RunOptions(max_records_per_epoch=8, progress=progress.append)
    LocalRunner(clock, intervals=2).run_topology(topology, options)
    return sorted(rows), progress


def test_a_wall_clock_that_jumps_changes_nothing_in_event_time() -> None:
    expected, steady = _run(ManualClock(10**15))
    assert len(expected) > 20
    for seed in range(examples(20, 1000)):
        clock = Jumping(seed)
        rows, progress = _run(clock)
        assert clock.backwards > 0, "the fault did not fire"
        assert rows == expected, f"seed {seed}"
        assert all(now.watermark >= before.watermark for before, now in pairwise(progress)), f"seed {seed}"
        assert all(now.clock >= before.clock for before, now in pairwise(progress)), f"seed {seed}"
        # An epoch may be added or spared where a tick comes due earlier or later; the watermark goes the same way.
        assert _course(progress) == _course(steady), f"seed {seed}"


def _course(progress: list[Progress]) -> list[int]:
    return sorted({epoch.watermark for epoch in progress})
