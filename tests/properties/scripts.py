"""Random windowings, triggers, and scripts of what happens to a grouping."""

from __future__ import annotations

import random
from dataclasses import dataclass

from hypothesis import strategies as st

from headrace.lowlevel.time import MAX_TIMESTAMP, MIN_TIMESTAMP, SECOND
from headrace.sdk.triggers import (
    AccumulationMode,
    AfterAll,
    AfterAny,
    AfterCount,
    AfterEach,
    AfterElement,
    AfterProcessingTime,
    AfterWatermark,
    Always,
    AtPeriod,
    DefaultTrigger,
    Never,
    OrFinally,
    Repeatedly,
    Trigger,
)
from headrace.sdk.windows import FixedWindows, GlobalWindows, Sessions, SlidingWindows, TimestampCombiner, WindowFn
from headrace.sdk.windows.windowing import ClosingBehavior, OnTimeBehavior, Windowing
from tests.harness import Element


@dataclass(frozen=True)
class Script:
    """Bundles of elements, each with the watermark and the wall time that come after it; microseconds."""

    bundles: list[tuple[list[Element], int, int]]

    @property
    def elements(self) -> list[Element]:
        return [element for elements, _, _ in self.bundles for element in elements]


class OwnWindows(SlidingWindows):
    """The same windows as a window function of a user's own, for which the engine has no short cuts."""


class OwnSessions(Sessions):
    """The same."""


ALIGNED: st.SearchStrategy[WindowFn] = st.sampled_from(
    [
        FixedWindows(10),
        FixedWindows(7, 3),
        SlidingWindows(10, 4),
        SlidingWindows(12, 4),
        SlidingWindows(4, 10),
        OwnWindows(10, 5),
    ]
)
WINDOW_FNS: st.SearchStrategy[WindowFn] = ALIGNED | st.sampled_from(
    [GlobalWindows(), Sessions(4), Sessions(9), OwnSessions(7)]
)
LATENESS = st.sampled_from([0, 3, 20, 1_000_000])


def is_flush(value: object) -> bool:
    return isinstance(value, int) and value % 5 == 0


DELAYS: st.SearchStrategy[Trigger] = st.one_of(
    st.builds(AfterProcessingTime, st.sampled_from([2, 5.5])), st.builds(AtPeriod, st.just(4), st.sampled_from([0, 1]))
)
LEAVES: st.SearchStrategy[Trigger] = st.one_of(
    st.builds(AfterCount, st.integers(1, 4)),
    st.just(AfterProcessingTime()),
    DELAYS,
    st.just(AfterElement(is_flush)),
    st.just(AfterWatermark()),
)


def trees(leaves: st.SearchStrategy[Trigger], most: int = 5, watermark: bool = True) -> st.SearchStrategy[Trigger]:
    """Triggers made of these, nested; also early and late ones if `watermark`."""

    def made_of(parts: st.SearchStrategy[Trigger]) -> st.SearchStrategy[Trigger]:
        kinds = (AfterAny, AfterAll, AfterEach, OrFinally, *((AfterWatermark,) if watermark else ()))
        return st.builds(Repeatedly, parts) | st.one_of(*(st.builds(kind, parts, parts) for kind in kinds))

    return st.recursive(leaves, made_of, max_leaves=most)


TREES = trees(LEAVES)
TIMED = DELAYS | st.just(Never())
ENDLESS: st.SearchStrategy[Trigger] = st.one_of(
    st.just(DefaultTrigger()),
    st.just(Always()),
    st.just(Never()),
    st.builds(AfterWatermark, st.none() | TREES, TREES),
    st.builds(Repeatedly, TREES),
)
"""Triggers that never finish."""
EVERY = TREES | st.sampled_from([DefaultTrigger(), Always(), Never()])


@st.composite
def windowings(
    draw: st.DrawFn,
    window_fns: st.SearchStrategy[WindowFn] = WINDOW_FNS,
    triggers: st.SearchStrategy[Trigger] = ENDLESS,
) -> Windowing:
    return Windowing.of(
        draw(window_fns),
        draw(triggers),
        draw(st.sampled_from(AccumulationMode)),
        draw(st.sampled_from(TimestampCombiner)),
        draw(LATENESS),
        draw(st.sampled_from(ClosingBehavior)),
        draw(st.sampled_from(OnTimeBehavior)),
    )


@st.composite
def scripts(draw: st.DrawFn, most: int = 8, in_time: bool = False) -> Script:
    """Elements around a watermark that moves on; values are unique numbers.

    Args:
        draw: hypothesis' own.
        most: bundles at most.
        in_time: whether no element is late.
    """
    bundles: list[tuple[list[Element], int, int]] = []
    watermark, clock, number = 0, 0, 0
    for _ in range(draw(st.integers(1, most))):
        elements: list[Element] = []
        for offset in draw(st.lists(st.integers(0 if in_time else -30, 25), max_size=6)):
            fraction = draw(st.sampled_from([0, 0, 1, -1]))
            time = max((watermark + offset) * SECOND + fraction, watermark * SECOND if in_time else -MAX_TIMESTAMP)
            elements.append((draw(st.sampled_from("ab")), number, time))
            number += 1
        watermark += draw(st.sampled_from([0, 0, 1, 3, 10, 40]))
        clock += draw(st.sampled_from([0, 0, 1, 2, 6]))
        bundles.append((elements, watermark * SECOND, clock * SECOND))
    return Script(bundles)


def rebundled(script: Script, shuffle: random.Random) -> Script:
    """The same elements between the same movements of time, one by one or together, in another order."""
    bundles: list[tuple[list[Element], int, int]] = []
    before, clock_before = MIN_TIMESTAMP, 0
    for elements, watermark, clock in script.bundles:
        left = shuffle.sample(elements, len(elements))
        while left:
            size = shuffle.randint(1, len(left))
            bundles.append((left[:size], before, clock_before))
            left = left[size:]
        bundles.append(([], watermark, clock))
        before, clock_before = watermark, clock
    return Script(bundles)
