"""Windows with several panes: taking all keys at once is going key by key, pane by pane, and nothing is left behind."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from headrace.lowlevel import StepError
from headrace.lowlevel.intervals.interval_map import IntervalMap
from headrace.lowlevel.time import SECOND
from headrace.lowlevel.vectorized import segment_store
from headrace.sdk.combinefns.combine_fn import AnyCombineFn
from headrace.sdk.combinefns.numeric import SumFn
from headrace.sdk.operators.vectorized.eligibility import obstacle
from headrace.sdk.triggers import (
    AccumulationMode,
    AfterAll,
    AfterAny,
    AfterCount,
    AfterElement,
    AfterProcessingTime,
    AfterWatermark,
    Always,
    AtPeriod,
    DefaultTrigger,
    OrFinally,
    Repeatedly,
    Trigger,
)
from headrace.sdk.windows import FixedWindows, GlobalWindows, Sessions
from headrace.sdk.windows.windowing import ClosingBehavior, OnTimeBehavior, Windowing
from tests.properties.grouping_strategies import Combining, Step, by_columns, by_key, of_each_key
from tests.properties.groupings.test_vectorized_grouping import COMBINERS, TUPLES, WINDOW_FNS, scripts

BOTH = AfterWatermark(early=AfterCount(1), late=AfterCount(1))
BY_WALL_TIME = AfterWatermark(early=AfterProcessingTime(60))
ENDING = AfterWatermark(early=OrFinally(AfterProcessingTime(60), AfterCount(9)))
PAIRS = Repeatedly(AfterCount(2))
LATE_ELEMENT = AfterWatermark(late=Repeatedly(AfterElement(bool)))
WAITING = Repeatedly(AfterProcessingTime(3))
TRIGGERS: list[Trigger] = [
    DefaultTrigger(),
    BOTH,
    AfterWatermark(),
    AfterWatermark(early=AfterCount(1)),
    AfterWatermark(late=AfterCount(1)),
    AfterWatermark(early=AfterCount(3), late=AfterCount(2)),
    AfterWatermark(early=Repeatedly(AfterCount(2)), late=Always()),
    Repeatedly(AfterCount(1)),
    Always(),
    AfterWatermark(early=AfterProcessingTime(3), late=AfterProcessingTime(1)),
    AfterWatermark(early=AtPeriod(2, 1), late=AfterCount(2)),
    AfterWatermark(early=AfterCount(2), late=AtPeriod(5)),
    AfterWatermark(early=AfterAny(AfterCount(3), AfterProcessingTime(2)), late=AfterProcessingTime(0)),
    AfterWatermark(early=AfterAll(AfterProcessingTime(2), AfterCount(2)), late=AfterAny(AtPeriod(2), AfterCount(2))),
]
FULL: list[Trigger] = [
    *TRIGGERS,
    Repeatedly(AfterCount(2)),
    Repeatedly(AfterCount(3)),
    WAITING,
    Repeatedly(AtPeriod(5)),
    Repeatedly(AfterAny(AfterCount(3), AfterProcessingTime(3), AfterCount(4))),
    Repeatedly(AfterAll(AfterCount(3), AfterProcessingTime(1), AfterCount(2))),
]
"""Without allowed lateness, a pane need not be ready either when its window ends, nor where it ends with time."""


@st.composite
def windowings(draw: st.DrawFn) -> Windowing:
    lateness = draw(st.sampled_from([0, 5, 10, 60]))
    window_fn = draw(st.sampled_from(WINDOW_FNS))
    return Windowing.of(
        window_fn,
        draw(st.sampled_from(TRIGGERS if lateness and window_fn != GlobalWindows() else FULL)),
        draw(st.sampled_from(AccumulationMode)),
        allowed_lateness=lateness,
        closing_behavior=draw(st.sampled_from(ClosingBehavior)),
        on_time_behavior=draw(st.sampled_from(OnTimeBehavior)),
    )


def outcome(combining: Combining, steps: list[Step], parts: int = 1) -> object:
    """What comes of it; for some combiners the empty pane at the end of a window is an error."""
    try:
        for step in steps:
            combining.step(step, parts)
        combining.run([])
    except StepError as error:
        return error.step, error.cause.splitlines()[-1]
    assert not combining.stored()
    assert combining.wakes[-1] is None
    return of_each_key(combining.panes), combining.counted()


FAR = 1 << 61
AFTER_ITS_END = [
    Step([("a", 1, 0), ("a", 1, FAR)], 0),
    Step([], 10 * SECOND),
    Step([], 10 * SECOND, wall_time=3 * SECOND),
]
"""The time that a window waited for comes when it is closed; the other one of its segment is not."""


@given(windowings(), st.sampled_from(COMBINERS), scripts(), st.integers(1, 3))
@example(Windowing.of(FixedWindows(10), WAITING, AccumulationMode.DISCARDING), SumFn(), AFTER_ITS_END, 1)
def test_both_ways_put_out_the_same(windowing: Windowing, combine: AnyCombineFn, steps: list[Step], parts: int) -> None:
    general, quick = Combining(windowing, combine, by_key), Combining(windowing, combine)
    expected = outcome(general, steps, parts)
    assert outcome(quick, steps, parts) == expected
    for wanted, told in zip(general.wakes, quick.wakes, strict=True):
        assert wanted is None or (told is not None and told <= wanted), "a pane would come too late"


@given(windowings(), scripts())
def test_several_results_at_once(windowing: Windowing, steps: list[Step]) -> None:
    wide = [step._replace(elements=[(key, (value,) * 5, time) for key, value, time in step.elements]) for step in steps]
    assert outcome(Combining(windowing, TUPLES), wide) == outcome(Combining(windowing, TUPLES, by_key), wide)


@dataclass
class Cut(Combining):
    """After each epoch it has other intervals."""

    counts: list[int] = field(default_factory=list)

    def step(self, step: Step, parts: int = 1) -> None:
        super().step(step, parts)
        self.cut(IntervalMap.evenly(self.counts[self.epoch % len(self.counts)]))


@dataclass
class Turned(Combining):
    """It goes by columns from some epoch on, with other intervals."""

    turn: int = 0
    number: int = 2

    def step(self, step: Step, parts: int = 1) -> None:
        if self.epoch == self.turn:
            self.go_on(by_columns)
            self.cut(IntervalMap.evenly(self.number))
        super().step(step, parts)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments that come together soon."""
    monkeypatch.setattr(segment_store, "SMALL", 2)
    monkeypatch.setattr(segment_store, "MANY", 2)
    monkeypatch.setattr(segment_store, "GROWTH", 2)


@pytest.mark.usefixtures("small")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(windowings(), st.sampled_from(COMBINERS), scripts(most=12), st.lists(st.integers(1, 4), min_size=12))
def test_segments_come_together_and_intervals_change(
    windowing: Windowing, combine: AnyCombineFn, steps: list[Step], counts: list[int]
) -> None:
    expected = outcome(Combining(windowing, combine, by_key), steps)
    assert outcome(Cut(windowing, combine, counts=counts), steps) == expected


@given(windowings(), st.sampled_from(COMBINERS), scripts(), st.integers(0, 6), st.integers(1, 3))
def test_what_went_key_by_key_goes_on_by_columns(
    windowing: Windowing, combine: AnyCombineFn, steps: list[Step], turn: int, intervals: int
) -> None:
    """State of the general way is taken over, also where intervals change with it."""
    expected = outcome(Combining(windowing, combine, by_key), steps)
    assert outcome(Turned(windowing, combine, by_key, turn=turn, number=intervals), steps) == expected


def test_an_epoch_writes_what_it_changes() -> None:
    """Not the windows that are open: a few lines more than once, as small segments come together."""
    windowing = Windowing.of(FixedWindows(10), BOTH, AccumulationMode.ACCUMULATING, allowed_lateness=60)
    combining = Combining(windowing, SumFn(), intervals=IntervalMap.evenly(1))
    combining.step(Step([(f"key {number}", 1, 0) for number in range(5_000)], 0))
    for number in range(60):
        combining.step(Step([(f"key {number % 3}", 1, 0)], 0 if number < 30 else 20 * SECOND))
    assert combining.written < 5_400
    combining.run([])
    assert len(combining.panes) == 5_000 + 60 + 5_000
    assert not combining.stored()


@pytest.mark.parametrize(
    ("windowing", "said"),
    [
        (Windowing.of(FixedWindows(10), BOTH, AccumulationMode.ACCUMULATING_AND_RETRACTING), None),
        (Windowing.of(FixedWindows(10), AfterCount(2), AccumulationMode.DISCARDING), "AfterCount does more"),
        (Windowing.of(FixedWindows(10), ENDING, AccumulationMode.DISCARDING), "early Repeatedly(OrFinally"),
        (Windowing.of(FixedWindows(10), BY_WALL_TIME, AccumulationMode.DISCARDING), None),
        (
            Windowing.of(FixedWindows(10), WAITING, AccumulationMode.DISCARDING, allowed_lateness=5),
            "holds the watermark",
        ),
        (Windowing.of(GlobalWindows(), WAITING, AccumulationMode.DISCARDING, allowed_lateness=5), None),
        (Windowing.of(Sessions(10), BOTH, AccumulationMode.DISCARDING), "come from Sessions"),
        (Windowing.of(FixedWindows(10), PAIRS, AccumulationMode.DISCARDING, allowed_lateness=5), "holds the watermark"),
        (Windowing.of(FixedWindows(10), PAIRS, AccumulationMode.DISCARDING), None),
        (Windowing.of(FixedWindows(10), LATE_ELEMENT, AccumulationMode.DISCARDING), "looks at the values"),
        (Windowing.of(GlobalWindows(), BOTH, AccumulationMode.ACCUMULATING), None),
    ],
)
def test_what_else_goes_key_by_key_says_why(windowing: Windowing, said: str | None) -> None:
    why = obstacle(windowing, SumFn(), takes_back=False, spread=False)
    assert why is None if said is None else why is not None and said in why
