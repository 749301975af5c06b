"""Random triggers, nested, over elements in time and late, compared with Beam's own trigger machinery."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any, NamedTuple, cast

import pytest
from apache_beam.transforms import core
from apache_beam.transforms import trigger as beam
from apache_beam.transforms import window as beam_windows
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import WindowedValue
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headrace.lowlevel.time import SECOND
from headrace.sdk.operators.grouping.grouping import Grouping
from headrace.sdk.triggers import (
    AccumulationMode,
    AfterAll,
    AfterAny,
    AfterCount,
    AfterEach,
    AfterWatermark,
    DefaultTrigger,
    OrFinally,
    Repeatedly,
    Trigger,
)
from headrace.sdk.windows import FixedWindows, IntervalWindow
from headrace.sdk.windows.windowing import Windowing
from tests.depth import examples
from tests.harness import Harness
from tests.properties.scripts import trees

pytestmark = pytest.mark.parity

SIZE, OPEN = 10, 1_000_000
"""Length of windows and allowed lateness in seconds: no window closes; Beam's driver never empties one."""
LEAVES: st.SearchStrategy[Trigger] = st.one_of(
    st.builds(AfterCount, st.integers(1, 4)), st.just(AfterWatermark()), st.just(DefaultTrigger())
)
Bundles = list[tuple[list[int], int]]
"""Event times of the elements of bundles, and seconds by which the watermark then moves."""
BUNDLES: st.SearchStrategy[Bundles] = st.lists(
    st.tuples(st.lists(st.integers(0, 29), max_size=4), st.sampled_from([0, 0, 1, 5, 10])), min_size=1, max_size=10
)


class Shown(NamedTuple):
    """What is compared of a pane."""

    window: int
    index: int
    values: list[int]
    last: bool


class ReadyAfterEach(beam.AfterEach):
    """Beam's `AfterEach`, which is ready for an `AfterAll` around it when it has finished (as in Beam's Java SDK)."""

    def should_fire(self, time_domain: Any, watermark: Any, window: Any, context: Any) -> bool:
        return self._ended(context) or super().should_fire(time_domain, watermark, window, context)

    def on_fire(self, watermark: Any, window: Any, context: Any) -> bool:
        return self._ended(context) or super().on_fire(watermark, window, context)

    def _ended(self, context: Any) -> bool:
        return context.get_state(self.INDEX_TAG) == len(self.triggers)


KINDS: dict[type, Callable[..., Any]] = {
    AfterAny: beam.AfterAny,
    AfterAll: beam.AfterAll,
    AfterEach: ReadyAfterEach,
    OrFinally: beam.OrFinally,
}


def of_ours(trigger: Any) -> Any:
    """Beam's trigger for one of ours."""
    match trigger:
        case AfterCount():
            return beam.AfterCount(trigger.count)
        case AfterWatermark():
            return beam.AfterWatermark(*(part and of_ours(part) for part in (trigger.early, trigger.late)))
        case DefaultTrigger():
            return beam.DefaultTrigger()
        case Repeatedly():
            return beam.Repeatedly(of_ours(trigger.underlying))
    return KINDS[type(trigger)](*map(of_ours, trigger.triggers))


def panes_of_beam(trigger: Trigger, bundles: Bundles) -> list[Shown]:
    """Panes of Beam's `GeneralTriggerDriver`, which is asked at the end of each window, as Beam's runners ask it."""
    windowing = core.Windowing(
        beam_windows.FixedWindows(SIZE), of_ours(trigger), beam.AccumulationMode.DISCARDING, allowed_lateness=OPEN
    )
    driver, state = beam.GeneralTriggerDriver(windowing, None), beam.InMemoryUnmergedState()
    driver.is_merging = False
    watermark, number, panes = Timestamp(0), count(), []
    windows: dict[beam_windows.IntervalWindow, None] = {}
    for times, step in bundles:
        starts = [time // SIZE * SIZE for time in times]
        its = [beam_windows.IntervalWindow(start, start + SIZE) for start in starts]
        windows |= dict.fromkeys(its)
        values = [WindowedValue(next(number), time, [window]) for time, window in zip(times, its, strict=True)]
        panes += [pane_of(pane) for pane in driver.process_elements(state, values, watermark, watermark)]
        before, watermark = watermark, watermark + step
        for window in windows:
            if before < window.end <= watermark:
                fired = driver.process_timer(window, "", beam.TimeDomain.WATERMARK, watermark, state)
                panes += [pane_of(pane) for pane in fired]
    return sorted(pane for pane in panes if pane.values)


def pane_of(pane: Any) -> Shown:
    return Shown(int(pane.windows[0].start), pane.pane_info.index, sorted(pane.value), pane.pane_info.is_last)


def panes_of_ours(trigger: Trigger, bundles: Bundles) -> list[Shown]:
    windowing = Windowing.of(FixedWindows(SIZE), trigger, AccumulationMode.DISCARDING, allowed_lateness=OPEN)
    harness, number, watermark = Harness(Grouping(windowing)), count(), 0
    harness.advance(0)
    for times, step in bundles:
        harness.feed([("k", next(number), time * SECOND) for time in times])
        watermark += step
        harness.advance(watermark * SECOND)
    return sorted(
        Shown(
            cast(IntervalWindow, pane.window).start_us // SECOND, pane.info.index, sorted(pane.value), pane.info.is_last
        )
        for pane in harness.panes
        if pane.value
    )


LATE = [([1], 10), ([2], 0), ([3], 0)]


@settings(max_examples=examples(300, 5_000))
@given(trees(LEAVES, most=6), BUNDLES)
@example(OrFinally(Repeatedly(AfterCount(2)), AfterWatermark(late=AfterCount(1))), LATE)
@example(AfterEach(OrFinally(AfterCount(2), DefaultTrigger()), AfterCount(1)), LATE)
def test_panes_are_those_of_beams_trigger_machinery(trigger: Trigger, bundles: Bundles) -> None:
    """With elements in their panes: Beam's driver also emits empty panes, of any trigger that is ready at the end."""
    assert panes_of_ours(trigger, bundles) == panes_of_beam(trigger, bundles)


@given(trees(LEAVES, most=6), BUNDLES)
def test_a_trigger_that_never_finishes_takes_every_late_element(trigger: Trigger, bundles: Bundles) -> None:
    """What a pipeline is refused for, and what it is not refused for, follows from `may_finish`."""
    finished = any(pane.last for pane in panes_of_ours(trigger, bundles))
    assert trigger.may_finish(OPEN * SECOND) or not finished
