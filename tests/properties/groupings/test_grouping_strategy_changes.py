"""State goes on whichever way the grouping behind it takes: ways that change between epochs change no result."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.lowlevel import StepError
from headrace.lowlevel.intervals.interval_map import IntervalMap
from headrace.lowlevel.processing.bundle import Bundle
from headrace.lowlevel.processing.worker import Worker
from headrace.lowlevel.records.record import Batch, Emit
from headrace.lowlevel.time import SECOND
from headrace.lowlevel.topology.computation import Computation, InlineComputation
from headrace.lowlevel.vectorized import segment_store
from headrace.sdk.combinefns.combine_fn import AnyCombineFn
from headrace.sdk.combinefns.numeric import SumFn
from headrace.sdk.model.element_form import GroupingInputForm
from headrace.sdk.model.panes import PaneInfoTiming
from headrace.sdk.operators.combining.aggregates import reducers_of
from headrace.sdk.operators.combining.combiner_lifting import LiftedCombine
from headrace.sdk.operators.combining.session_lifting import SessionLifting
from headrace.sdk.operators.grouping.grouping import Grouping
from headrace.sdk.operators.vectorized.eligibility import gap_of
from headrace.sdk.operators.vectorized.sessions import ColumnSessions
from headrace.sdk.operators.vectorized.state_migration import records_of_segments
from headrace.sdk.triggers import AccumulationMode, AfterCount, Repeatedly
from headrace.sdk.windows import FixedWindows, Sessions
from headrace.sdk.windows.windowing import Windowing
from tests.depth import examples
from tests.harness import Pane
from tests.properties.grouping_strategies import Combining, Step, by_columns, by_key, of_each_key
from tests.properties.groupings.test_vectorized_grouping import COMBINERS, TUPLES, WINDOW_FNS, scripts
from tests.properties.groupings.test_vectorized_panes import windowings

SESSIONS = [Sessions(4), Sessions(15)]


class Unlifted(InlineComputation):
    """Nothing is combined before the shuffle."""

    def process_batch(self, stream: str, batch: Batch, emit: Emit) -> None:
        emit("lifted", batch)


def element_by_element(windowing: Windowing, combine: AnyCombineFn) -> Computation:
    """The general way, of elements that come as they are."""
    forms = {"lifted": GroupingInputForm.PLAIN}
    return Grouping(windowing, combine, forms, "out", migration=records_of_segments)


def by_session_columns(windowing: Windowing, combine: AnyCombineFn) -> Computation:
    """The quick way of sessions."""
    reducers = reducers_of(combine)
    assert reducers is not None and gap_of(windowing) is not None
    return ColumnSessions(windowing, combine, reducers, "out")


@dataclass
class Changing(Combining):
    """Each epoch takes a way of its own, in intervals of its own."""

    turns: list[int] = field(default_factory=lambda: [0])
    counts: list[int] = field(default_factory=lambda: [2])

    def step(self, step: Step, parts: int = 1) -> None:
        self.cut(IntervalMap.evenly(self.counts[self.epoch % len(self.counts)]))
        ways = self.ways()
        way, self.lift = ways[self.turns[self.epoch % len(self.turns)] % len(ways)]
        self.go_on(way)
        cast(Any, self.lift).begin_bundle(self.watermark)
        super().step(step, parts)

    def ways(self) -> list[tuple[Any, Any]]:
        """Ways with what comes before the shuffle."""
        general = (element_by_element, Unlifted())
        if isinstance(self.windowing.window_fn, Sessions):
            gap, reducers = gap_of(self.windowing), reducers_of(self.combine)
            assert gap is not None and reducers is not None
            return [
                general,
                (by_session_columns, SessionLifting(self.combine, reducers, gap, GroupingInputForm.PLAIN, "lifted")),
            ]
        lifted = LiftedCombine(self.windowing, self.combine)
        return [general, (by_columns, lifted), (by_key, lifted)]

    def rewindow(self, windowing: Windowing) -> None:
        self.windowing = windowing


def outcome(combining: Combining, steps: list[Step]) -> object:
    """What comes of it: panes of each key and window in order, counters; or the error.

    Windows of a key in one bundle come in the order of their first elements, which what is combined before the shuffle
    does not keep.
    """
    try:
        combining.run(steps)
    except StepError as error:
        return error.step, error.cause.splitlines()[-1]
    assert not combining.stored()
    by_window = {key: sorted(its, key=lambda told: str(told[3])) for key, its in of_each_key(combining.panes).items()}
    return by_window, combining.counted()


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments that come together soon."""
    for name, number in (("SMALL", 2), ("MANY", 3), ("GROWTH", 2)):
        monkeypatch.setattr(segment_store, name, number)


TURNS = st.lists(st.integers(0, 2), min_size=1, max_size=8)
COUNTS = st.lists(st.integers(1, 4), min_size=1, max_size=5)
pytestmark = pytest.mark.usefixtures("small")
quickly = settings(max_examples=examples(50, 2_000), suppress_health_check=[HealthCheck.function_scoped_fixture])


@quickly
@given(st.sampled_from(WINDOW_FNS), st.sampled_from(COMBINERS), scripts(most=8), TURNS, COUNTS)
def test_windows_with_one_pane(
    window_fn: Any, combine: AnyCombineFn, steps: list[Step], turns: list[int], counts: list[int]
) -> None:
    windowing = Windowing.of(window_fn)
    found = outcome(Changing(windowing, combine, turns=turns, counts=counts), steps)
    assert found == outcome(Changing(windowing, combine), steps)


@quickly
@given(windowings(), st.sampled_from(COMBINERS), scripts(most=8), TURNS, COUNTS)
def test_windows_with_several_panes(
    windowing: Windowing, combine: AnyCombineFn, steps: list[Step], turns: list[int], counts: list[int]
) -> None:
    found = outcome(Changing(windowing, combine, turns=turns, counts=counts), steps)
    assert found == outcome(Changing(windowing, combine), steps)


@quickly
@given(st.sampled_from(SESSIONS), st.sampled_from(COMBINERS), scripts(most=8), TURNS, COUNTS)
def test_sessions(
    window_fn: Sessions, combine: AnyCombineFn, steps: list[Step], turns: list[int], counts: list[int]
) -> None:
    windowing = Windowing.of(window_fn)
    found = outcome(Changing(windowing, combine, turns=turns, counts=counts), steps)
    assert found == outcome(Changing(windowing, combine), steps)


@quickly
@given(windowings() | st.sampled_from(SESSIONS).map(Windowing.of), scripts(most=6), TURNS, COUNTS)
def test_several_results_at_once(windowing: Windowing, steps: list[Step], turns: list[int], counts: list[int]) -> None:
    wide = [step._replace(elements=[(key, (value,) * 5, time) for key, value, time in step.elements]) for step in steps]
    found = outcome(Changing(windowing, TUPLES, turns=turns, counts=counts), wide)
    assert found == outcome(Changing(windowing, TUPLES), wide)


class Told(Combining):
    """The watermark may be held, and panes be behind that of the input."""

    held = False

    def _run(self, number: int, bundle: Bundle, watermark: int) -> None:
        bundle.watermark_before, bundle.watermark = self.watermark, watermark
        bundle.epoch, bundle.interval = self.epoch, number
        commit = Worker(self.place, self.copies[number], self._emit).run(bundle)
        self.copies[number].apply(commit.delta)
        self.held = commit.hold is not None or self.held

    def _emit(self, stream: str, batch: Batch) -> None:
        self.panes += [Pane(*pair, window, time, info) for (pair, window, info), time in batch.rows()]


def test_a_pane_that_held_the_watermark_comes_at_once() -> None:
    """Where windows are taken over that have ended before they had enough elements, and one is enough by now."""
    told = Told(_counting(4), SumFn(), by_key)
    told.step(Step([("a", 7, 5 * SECOND)], 20 * SECOND))
    assert (told.panes, told.held) == ([], True)
    told.held = False
    told.way = by_columns
    told.rewindow(_counting(1))
    told.step(Step([], 20 * SECOND))
    assert [(pane.value, pane.info.timing) for pane in told.panes] == [(7, PaneInfoTiming.ON_TIME)]
    assert not told.held


def _counting(count: int) -> Windowing:
    trigger = Repeatedly(AfterCount(count))
    return Windowing.of(FixedWindows(10), trigger, AccumulationMode.DISCARDING, allowed_lateness=60)
