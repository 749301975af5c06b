"""Every pane of a grouping, against panes by brute force: windows, triggers, modes, disorder and bundling at random."""

from __future__ import annotations

import random
from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from headrace.lowlevel.coders.coder import encode_key, key_hash_of
from headrace.lowlevel.time import MAX_TIMESTAMP
from headrace.lowlevel.topology.timer import TimeDomain
from headrace.sdk.model.panes import PaneInfoTiming
from headrace.sdk.operators.grouping.grouping import Grouping
from headrace.sdk.windows import TimestampCombiner
from headrace.sdk.windows.window_fn import OUTSIDE_WINDOWS
from headrace.sdk.windows.window_namespace import RECORD
from headrace.sdk.windows.windowing import Windowing
from tests.harness import Element, Harness, Pane
from tests.properties.oracle import Oracle
from tests.properties.scripts import ALIGNED, EVERY, TIMED, Script, rebundled, scripts, trees, windowings

Bundle = tuple[list[Element], int, int]


def step_by_step(harness: Harness, bundle: Bundle) -> None:
    """Elements, then wall time, then the watermark."""
    elements, watermark, clock = bundle
    harness.feed(elements)
    harness.clock(clock)
    harness.advance(watermark)


def at_once(harness: Harness, bundle: Bundle) -> None:
    """As in an epoch that brings all three."""
    elements, watermark, clock = bundle
    harness.wall_time = clock
    harness.feed_and_advance(elements, watermark)


def expect(oracle: Oracle, bundle: Bundle, together: bool) -> None:
    elements, watermark, clock = bundle
    oracle.add(elements, clock if together else oracle.wall)
    oracle.clock(clock)
    oracle.advance(watermark)


def play(windowing: Windowing, script: Script, together: bool = False, in_time: bool = False) -> tuple[Harness, Oracle]:
    """Play a script to the engine and to the oracle; compare them after every bundle."""
    timed = in_time or windowing.timestamp_combiner is TimestampCombiner.OUTPUT_AT_EOW
    harness, oracle = Harness(Grouping(windowing)), Oracle(windowing)
    for bundle in [*script.bundles, ([], MAX_TIMESTAMP, script.bundles[-1][2])]:
        (at_once if together else step_by_step)(harness, bundle)
        expect(oracle, bundle, together)
        assert described(harness.panes, timed) == described(oracle.panes, timed)
        assert_only_open_windows_are_stored(harness, oracle)
    return harness, oracle


def assert_only_open_windows_are_stored(harness: Harness, oracle: Oracle) -> None:
    """A record, a timer on the watermark, at most one on wall time and at most one hold for each; nothing else."""
    for key in {element for element in "ab"}:
        row, windows = key_hash_of(encode_key(key)), [one for one in oracle.open if one.key == key]
        assert len(list(harness.store.scan(row, RECORD))) == len(windows)
        marks = [domain for domain, _, _ in harness.store.marks(row)]
        assert marks.count(TimeDomain.LOW_WATERMARK) == len(windows)
        timed = [one for one in windows if not one.node.done and any(time > oracle.wall for time in one.node.times())]
        assert marks.count(TimeDomain.WALL_TIME) == len(timed)
        assert len(marks) - len(windows) - len(timed) <= len(windows), "holds"


def described(panes: Iterable[Pane], timed: bool) -> list[str]:
    """Panes by window and number, with their timestamps if `timed`."""
    rows = [
        (pane.key, repr(pane.window), pane.info, sorted(pane.value), pane.timestamp if timed else None)
        for pane in panes
    ]
    return sorted(map(repr, rows))


@given(windowings(triggers=EVERY), scripts())
def test_every_pane(windowing: Windowing, script: Script) -> None:
    """What each pane holds, its number, its timing, whether it is the last; what is dropped and what is stored."""
    harness, oracle = play(windowing, script)
    assert (harness.dropped, harness.counters.get(OUTSIDE_WINDOWS, 0)) == (oracle.dropped, oracle.outside)
    assert not any(harness.stored().values()), f"still stored: {harness.stored()}"


@given(windowings(triggers=EVERY), scripts())
def test_every_pane_when_elements_clock_and_watermark_come_at_once(windowing: Windowing, script: Script) -> None:
    harness, oracle = play(windowing, script, together=True)
    assert (harness.dropped, harness.counters.get(OUTSIDE_WINDOWS, 0)) == (oracle.dropped, oracle.outside)


@given(windowings(triggers=EVERY), scripts(in_time=True), st.booleans())
def test_timestamps_of_panes(windowing: Windowing, script: Script, together: bool) -> None:
    """Without late elements, for every timestamp combiner."""
    play(windowing, script, together, in_time=True)


@given(windowings(triggers=EVERY), scripts(), st.data())
def test_elements_that_come_twice_count_twice(windowing: Windowing, script: Script, data: st.DataObject) -> None:
    """Equal elements are different elements; what comes again by a retry never gets here."""
    doubled = [
        (elements + data.draw(st.lists(st.sampled_from(elements), max_size=3)) if elements else [], watermark, clock)
        for elements, watermark, clock in script.bundles
    ]
    play(windowing, Script(doubled))


IN_TIME = st.tuples(windowings(triggers=trees(TIMED)), scripts(in_time=True))
ALSO_LATE = st.tuples(windowings(window_fns=ALIGNED, triggers=trees(TIMED, watermark=False)), scripts())
"""Without `AfterWatermark`: windows that begin late fire with their first bundle under it."""


@given(IN_TIME | ALSO_LATE, st.randoms(use_true_random=False))
def test_bundling_makes_no_difference_to_triggers_on_time(
    given: tuple[Windowing, Script], shuffle: random.Random
) -> None:
    windowing, script = given
    before, after = (
        play(windowing, each)[0] for each in (rebundled(script, random.Random(0)), rebundled(script, shuffle))
    )
    assert described(after.panes, True) == described(before.panes, True)
    assert after.dropped == before.dropped


@given(windowings(triggers=EVERY), scripts())
def test_nothing_comes_after_the_last_pane(windowing: Windowing, script: Script) -> None:
    harness, _ = play(windowing, script)
    closed: set[tuple[object, str]] = set()
    for pane in harness.panes:
        window = pane.key, repr(pane.window)
        if pane.info.is_retraction or windowing.window_fn.is_merging():
            continue
        assert window not in closed, f"{pane} comes after the last pane of its window"
        if pane.info.is_last:
            closed.add(window)
        if pane.info.timing is PaneInfoTiming.EARLY:
            assert pane.info.nonspeculative_index == -1
