"""Which implementation a grouping takes."""

from __future__ import annotations

from itertools import product

import pytest

import headrace as beam
from headrace.sdk.combinefns.composite import TupleCombineFn
from headrace.sdk.combinefns.numeric import CountCombineFn, SumFn
from headrace.sdk.compiler.execution_strategy import Grouper, Lifting, grouping_strategy
from headrace.sdk.model.element_form import GroupingInputForm
from headrace.sdk.triggers import (
    AccumulationMode,
    AfterCount,
    AfterElement,
    AfterProcessingTime,
    AfterWatermark,
    DefaultTrigger,
    Repeatedly,
    Trigger,
)
from headrace.sdk.windows import FixedWindows, GlobalWindows, Sessions, SlidingWindows, TimestampCombiner
from headrace.sdk.windows.windowing import Windowing
from tests.unit.collected import values

PLAIN, WINDOWED = GroupingInputForm.PLAIN, GroupingInputForm.WINDOWED
LATE_ELEMENT = AfterWatermark(late=Repeatedly(AfterElement(bool)))
TRIGGERS: list[Trigger] = [
    DefaultTrigger(),
    AfterWatermark(early=AfterCount(2), late=AfterCount(1)),
    Repeatedly(AfterElement(bool)),
    Repeatedly(AfterProcessingTime(5)),
    LATE_ELEMENT,
]
WINDOW_FNS = [FixedWindows(60), SlidingWindows(60, 15), SlidingWindows(15, 60), Sessions(9), GlobalWindows()]
WINDOWINGS = [
    Windowing.of(window_fn, trigger, AccumulationMode.DISCARDING, stamps, allowed_lateness=lateness)
    for window_fn, trigger, stamps, lateness in product(
        WINDOW_FNS,
        TRIGGERS,
        [TimestampCombiner.OUTPUT_AT_EOW, TimestampCombiner.OUTPUT_AT_EARLIEST],
        [0, 5],
    )
]


@pytest.mark.parametrize(
    "combine", [None, SumFn(), TupleCombineFn(SumFn(), CountCombineFn()), beam.combiners.ToListCombineFn()]
)
@pytest.mark.parametrize("forms", [[PLAIN], [PLAIN, WINDOWED]])
@pytest.mark.parametrize(("takes_back", "has_fanout"), list(product([False, True], repeat=2)))
def test_every_grouping_has_a_strategy(combine, forms, takes_back, has_fanout) -> None:
    for windowing in WINDOWINGS:
        found = grouping_strategy(windowing, combine, forms, takes_back=takes_back, has_fanout=has_fanout)
        assert (found.obstacle is None) == (found.grouper is not Grouper.PER_KEY)
        assert found.grouper in (Grouper.PER_KEY, Grouper.LISTS) or found.lifting is not Lifting.NOTHING
        assert (found.grouper is Grouper.SESSIONS) == (found.lifting is Lifting.SESSIONS)
        if combine is None or takes_back:
            assert (found.lifting, found.fans_out) == (Lifting.NOTHING, False)
            assert found.grouper is Grouper.PER_KEY or (found.grouper is Grouper.LISTS and not takes_back)


@pytest.mark.parametrize(
    ("windowing", "has_fanout", "expected"),
    [
        (Windowing.of(FixedWindows(60)), False, (Grouper.COLUMNS, Lifting.WINDOWS, False)),
        (Windowing.of(FixedWindows(60), allowed_lateness=5), True, (Grouper.COLUMNS, Lifting.WINDOWS, True)),
        (Windowing.of(Sessions(9)), False, (Grouper.SESSIONS, Lifting.SESSIONS, False)),
        (Windowing.of(Sessions(9)), True, (Grouper.PER_KEY, Lifting.NOTHING, True)),
        (Windowing.of(SlidingWindows(15, 60)), True, (Grouper.PER_KEY, Lifting.NOTHING, True)),
        (
            Windowing.of(FixedWindows(60), LATE_ELEMENT, AccumulationMode.DISCARDING),
            True,
            (Grouper.PER_KEY, Lifting.NOTHING, False),
        ),
    ],
)
def test_the_strategy_of_sums(windowing: Windowing, has_fanout: bool, expected: tuple[object, ...]) -> None:
    found = grouping_strategy(windowing, SumFn(), [PLAIN], takes_back=False, has_fanout=has_fanout)
    assert (found.grouper, found.lifting, found.fans_out) == expected


@pytest.mark.parametrize(
    ("windowing", "reason"),
    [
        (Windowing.of(FixedWindows(60)), None),
        (Windowing.of(GlobalWindows()), None),
        (Windowing.of(FixedWindows(60), allowed_lateness=5), "windows that may have more panes"),
        (Windowing.of(FixedWindows(60), TRIGGERS[1], AccumulationMode.DISCARDING), "windows that may have more panes"),
        (Windowing.of(SlidingWindows(60, 15)), "windows from SlidingWindows"),
        (Windowing.of(Sessions(9)), "windows from Sessions"),
        (
            Windowing.of(FixedWindows(60), timestamp_combiner=TimestampCombiner.OUTPUT_AT_LATEST),
            "the time of a pane depends",
        ),
    ],
)
def test_the_strategy_of_lists(windowing: Windowing, reason: str | None) -> None:
    found = grouping_strategy(windowing, None, [PLAIN, WINDOWED], takes_back=False, has_fanout=False)
    assert (found.grouper is Grouper.LISTS) == (reason is None)
    assert (found.obstacle is None) if reason is None else reason in str(found.obstacle)


def test_a_trigger_that_looks_at_late_values_runs() -> None:
    """It was vectorized, with input that was not combined before the shuffle."""
    into = beam.WindowInto(FixedWindows(60), LATE_ELEMENT, AccumulationMode.DISCARDING)
    sums = values(lambda pipeline: pipeline | beam.Create([("a", 1), ("a", 2)]) | into | beam.CombinePerKey(sum))
    assert sums == [("a", 3)]
