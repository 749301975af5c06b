"""Late by a microsecond or not at all; six orders of arrival; wall clocks that jump."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as beam
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
from headrace.lowlevel.time import MAX_TIMESTAMP, SECOND, Timestamp
from headrace.runners.engine.clock import Clock, ManualClock
from headrace.runners.engine.options import EpochProgress, RunOptions, RunResult
from headrace.runners.local import Crash, LocalRunner
from headrace.sdk.model.panes import PaneInfo, PaneInfoTiming
from headrace.sdk.model.special_outputs import TimestampedValue
from headrace.sdk.operators.grouping.grouping import Grouping
from headrace.sdk.triggers import AccumulationMode, AfterCount, AfterWatermark
from headrace.sdk.windows import BoundedWindow, FixedWindows, Sessions, SlidingWindows, WindowFn
from headrace.sdk.windows.windowing import Windowing
from headrace.testing.test_stream import TestStream
from tests.depth import examples, faults
from tests.faults.tally import Tally
from tests.harness import Element, Harness
from tests.properties.model import last_contents
from tests.schedulers import RandomScheduler
from tests.unit.runners.local.test_local_runner import PerMinute

pytestmark = pytest.mark.faults

END = 10 * SECOND
"""Of the window that begins at 0."""
LATENESS = 5 * SECOND
LAST = END - 1
"""The window's greatest timestamp."""
ON_TIME, LATE, DROPPED = "on time", "late", "dropped"


CASES = [
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
]
"""An element, the watermark when it comes, whether it is behind it, and what becomes of it; microseconds."""


@pytest.mark.parametrize(("element", "watermark", "behind", "fate"), CASES)
def test_late_by_a_microsecond(
    element: int, watermark: int, behind: int, fate: str, tally: Callable[[int], Tally]
) -> None:
    """What becomes of an element that comes at a watermark. Its window has had an element in time before."""
    run = tally(10)
    run.plan()
    harness = Harness(Grouping(Windowing.of(FixedWindows(10), allowed_lateness=5)))
    harness.feed([("key", "before", element - element % END)])
    harness.advance(watermark)
    harness.feed([("key", "element", element)])
    run.fire(harness.watermark == watermark)
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


class Fates(beam.DoFn):
    """Which element came out in a pane of which timing."""

    def process(self, grouped: tuple[int, Iterable[str]], pane: PaneInfo = beam.DoFn.PaneInfoParam) -> Iterator[object]:
        for name in grouped[1]:
            yield grouped[0], name, LATE if pane.timing is PaneInfoTiming.LATE else ON_TIME


def _stream() -> TestStream:
    """All cases in one stream, a key each: first what comes before, then each element at its watermark."""
    firsts = [TimestampedValue((case, "before"), _at(time - time % END)) for case, (time, *_) in enumerate(CASES)]
    stream = TestStream().add_elements(firsts)
    for watermark in sorted({watermark for _, watermark, *_ in CASES}):
        here = [(case, time) for case, (time, at, *_) in enumerate(CASES) if at == watermark]
        elements = [TimestampedValue((case, "element"), _at(time)) for case, time in here]
        stream = stream.advance_watermark_to(_at(watermark)).add_elements(elements)
    return stream


def _at(micros: int) -> Timestamp:
    return Timestamp(micros=micros)


def test_late_by_a_microsecond_from_end_to_end(
    run: Callable[[Topology], RunResult], tally: Callable[[int], Tally]
) -> None:
    counts = tally(10)
    counts.plan(len(CASES))
    came: list[object] = []
    pipeline = beam.Pipeline()
    windows = beam.WindowInto(FixedWindows(10), allowed_lateness=5)
    grouped = pipeline | _stream() | windows | "group" >> beam.GroupByKey()
    grouped | beam.ParDo(Fates()) | beam.io.Write(CallSink(lambda _, rows: came.extend(value for value, _ in rows)))
    counters = run(pipeline.topology()).counters["group"]
    counts.fire(counters["records"] - len(CASES))
    expected = [(case, "before", ON_TIME) for case in range(len(CASES))]
    expected += [(case, "element", fate) for case, (*_, fate) in enumerate(CASES) if fate is not DROPPED]
    counts.compare(expected, came)
    assert counters["late"] == sum(behind for *_, behind, _ in CASES)
    assert counters["records"] == len(came) + counters["dropped_late"]


@pytest.mark.parametrize(("timestamp", "late"), [(99, True), (100, False), (101, False)])
def test_a_computation_sees_what_is_late(timestamp: int, late: bool, tally: Callable[[int], Tally]) -> None:
    run = tally(10)
    run.plan()

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
    run.fire(len(asked))
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


ARRIVALS = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 40)), min_size=1, max_size=20)


def test_six_orders_of_arrival_end_in_the_same_panes(tally: Callable[[int], Tally]) -> None:
    """Early panes differ, as they say what was known when; what each window ends with does not."""
    run = tally(8)

    @settings(max_examples=max(examples(1, 5000), faults(quick=60, full=1000)))
    @given(st.sampled_from(WINDOWS), st.integers(1, 4), ARRIVALS)
    def in_every_order(window_fn: WindowFn, early: int, arrivals: list[tuple[str, int]]) -> None:
        windowing = Windowing.of(window_fn, AfterWatermark(early=AfterCount(early)), AccumulationMode.ACCUMULATING)
        elements: list[Element] = [(key, number, second * SECOND) for number, (key, second) in enumerate(arrivals)]
        ends = {name: _ends(windowing, bundled(elements)) for name, bundled in BUNDLINGS.items()}
        run.plan()
        run.fire()
        assert ends["all at once"]
        for name, end in ends.items():
            run.compare(ends["all at once"].items(), end.items(), name)

    in_every_order()


def _ends(windowing: Windowing, bundles: list[list[Element]]) -> dict[tuple[object, BoundedWindow], list[object]]:
    """What each key and window ends with when elements come in these bundles."""
    harness = Harness(Grouping(windowing))
    for bundle in bundles:
        harness.feed(bundle)
    harness.advance(MAX_TIMESTAMP)
    assert harness.dropped == 0
    last = last_contents([pane for pane in harness.panes if pane.info.timing is not PaneInfoTiming.EARLY])
    return {window: sorted(contents.elements()) for window, contents in last.items()}


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


class Clocked(RandomScheduler):
    """Any order of tasks and rows; stops the driver at a step."""

    def bundle_size(self, epoch: int, limit: int) -> int:
        return limit


def _topology(out: dict[int, list[tuple[object, int]]]) -> Topology:
    topology = Topology()
    topology.injector("in", BoundedInjector([(i % 5, (i * 37) % 700) for i in range(80)], max_delay=90))
    topology.computation("per minute", PerMinute(), {"in": lambda value: value}, ["minutes"])
    topology.computation("ticks", Ticks(), {"in": lambda value: value})
    topology.sink("out", "minutes", CallSink(out.__setitem__))
    return topology


@dataclass
class Course:
    """What became of one run."""

    rows: list[tuple[object, int]]
    watermarks: list[int]
    clocks: list[int]


def _run(clock: Clock, checkpoint: str | None = None, crash_at: int | None = None, seed: int = 0) -> Course:
    """One run; with `crash_at` the driver dies at that step, and a new one goes on by the same clock."""
    out: dict[int, list[tuple[object, int]]] = {}
    progress: list[EpochProgress] = []
    options = RunOptions(checkpoint, max_records_per_epoch=8, progress=progress.append)
    if crash_at is not None:
        with pytest.raises(Crash):
            LocalRunner(clock, Clocked(seed, crash_at), intervals=2).run_topology(_topology(out), options)
    LocalRunner(clock, intervals=2).run_topology(_topology(out), options)
    rows = sorted(row for rows in out.values() for row in rows)
    return Course(rows, [each.watermark for each in progress], [each.clock for each in progress])


def test_a_wall_clock_that_jumps_changes_nothing_in_event_time(tmp_path: Path, tally: Callable[[int], Tally]) -> None:
    """By up to an hour whenever somebody looks; every other seed also has a driver die, and the next one look."""
    run = tally(7)
    steady = _run(ManualClock(10**15))
    assert len(steady.rows) > 20
    for seed in run.seeds(quick=16, full=1000):
        run.plan()
        clock = Jumping(seed)
        dies = seed % 2
        course = _run(clock, str(tmp_path / str(seed)) if dies else None, 10 + seed % 40 if dies else None, seed)
        run.fire(clock.backwards > 0)
        run.note("looks at which the clock had gone back", clock.backwards)
        run.compare(steady.rows, course.rows)
        for readings in (course.watermarks, course.clocks):
            back = sum(now < before for before, now in pairwise(readings))
            run.note("watermark regressions", back)
            assert not back, f"seed {seed}"
        # An epoch may be added or spared where a tick comes due earlier or later, and one that a driver committed but
        # died before it told is not seen; the watermark goes the same way.
        assert set(course.watermarks) <= set(steady.watermarks), f"seed {seed}"
        assert len(set(course.watermarks)) >= len(set(steady.watermarks)) - dies, f"seed {seed}"
