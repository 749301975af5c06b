"""A grouping against a recomputation by brute force, for random windows, triggers, disorder and bundling."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import groupby, pairwise
from typing import cast

from hypothesis import given
from hypothesis import strategies as st

from headrace.lowlevel.records.record import Batch
from headrace.lowlevel.time import MAX_TIMESTAMP
from headrace.sdk.combinefns.combine_fn import AnyCombineFn
from headrace.sdk.combinefns.numeric import SumFn
from headrace.sdk.model.element_form import GroupingInputForm
from headrace.sdk.model.panes import PaneInfo, PaneInfoTiming
from headrace.sdk.operators.combining.combiner_lifting import LiftedCombine, liftable
from headrace.sdk.operators.grouping.grouping import Grouping
from headrace.sdk.triggers import AccumulationMode, AfterCount, AfterWatermark, DefaultTrigger, Never
from headrace.sdk.windows import BoundedWindow, Sessions, TimestampCombiner
from headrace.sdk.windows.window_fn import OUTSIDE_WINDOWS
from headrace.sdk.windows.windowing import Windowing
from tests.harness import Element, Harness, Pane
from tests.properties.model import all_contents, contents, last_contents
from tests.properties.scripts import ALIGNED, LATENESS, TREES, WINDOW_FNS, Script, rebundled, scripts, windowings


def run(windowing: Windowing, script: Script, parts: int = 1, combine: AnyCombineFn | None = None) -> Harness:
    """Play a script to its end; everything must be freed then."""
    harness = Harness(Grouping(windowing, combine))
    for elements, watermark, clock in script.bundles:
        harness.feed(elements, parts)
        harness.clock(clock)
        harness.advance(watermark)
    harness.advance(MAX_TIMESTAMP)
    assert not any(harness.stored().values()), f"still stored: {harness.stored()}"
    return harness


def values(script: Script) -> set[object]:
    return {value for _, value, _ in script.elements}


@given(windowings(), scripts())
def test_nothing_is_lost_and_nothing_doubled(windowing: Windowing, script: Script) -> None:
    model = contents(windowing, script)
    harness = run(windowing, script)
    if windowing.accumulation_mode is not AccumulationMode.DISCARDING:
        found = last_contents(harness.panes)
        assert {key: found.get(key) for key in model.windows} == model.windows
    elif isinstance(windowing.window_fn, Sessions):
        held = sum(model.windows.values(), Counter[object]())
        assert sum(all_contents(harness.panes).values(), Counter[object]()) == held
    else:
        assert all_contents(harness.panes) == model.windows
    assert harness.dropped == len(model.dropped)
    assert harness.counters.get(OUTSIDE_WINDOWS, 0) == len(model.outside)


@given(windowings(triggers=TREES), scripts())
def test_every_element_contributes_or_is_counted(windowing: Windowing, script: Script) -> None:
    """Also with triggers that finish."""
    harness = run(windowing, script)
    contributed = {value for pane in harness.panes for value in cast("list[object]", pane.value)}
    left_out = len(values(script) - contributed)
    if windowing.window_fn.is_merging() or not hasattr(windowing.window_fn, "period"):
        assert left_out == harness.dropped
        for pane in harness.panes:
            assert len(set(cast("list[object]", pane.value))) == len(cast("list[object]", pane.value))
    else:
        assert left_out <= harness.dropped + harness.counters.get(OUTSIDE_WINDOWS, 0)


@given(windowings(triggers=TREES | st.sampled_from([DefaultTrigger(), Never()])), scripts())
def test_panes_are_numbered(windowing: Windowing, script: Script) -> None:
    """Index from 0; EARLY* ON_TIME? LATE*; non-speculative index from 0; first and last once."""
    panes = sorted(_results(run(windowing, script)), key=_group)
    windows = ([pane.info for pane in group] for _, group in groupby(panes, key=_group))
    for its in _lives(windows, windowing.window_fn.is_merging()):
        assert [info.index for info in its] == list(range(len(its)))
        assert [info.is_first for info in its] == [info.index == 0 for info in its]
        assert not any(info.is_last for info in its[:-1])
        timings = [info.timing for info in its]
        assert timings == sorted(timings) and timings.count(PaneInfoTiming.ON_TIME) <= 1
        speculative = [info for info in its if info.timing is PaneInfoTiming.EARLY]
        assert {info.nonspeculative_index for info in speculative} <= {-1}
        rest = its[len(speculative) :]
        assert [info.nonspeculative_index for info in rest] == list(range(len(rest)))


def _lives(windows: Iterable[list[PaneInfo]], merging: bool) -> Iterator[list[PaneInfo]]:
    """The panes of each window; a session that has finished, or become part of one, may begin anew."""
    for infos in windows:
        begins = [at for at, info in enumerate(infos) if at == 0 or (merging and info.is_first)]
        yield from (infos[begin:stop] for begin, stop in pairwise([*begins, len(infos)]))


def _results(harness: Harness) -> list[Pane]:
    """The panes that take nothing back."""
    return [pane for pane in harness.panes if not pane.info.is_retraction]


def _group(pane: Pane) -> tuple[object, ...]:
    return pane.key, pane.window.end_us, repr(pane.window)


@given(windowings(triggers=TREES), scripts(), st.integers(2, 4))
def test_a_bundle_in_several_pieces_is_one_bundle(windowing: Windowing, script: Script, parts: int) -> None:
    assert _sorted(run(windowing, script, parts).panes) == _sorted(run(windowing, script).panes)


@given(WINDOW_FNS, scripts(in_time=True), LATENESS, st.randoms(use_true_random=False))
def test_order_and_bundling_make_no_difference_to_panes_on_time(
    window_fn: Sessions, script: Script, lateness: int, shuffle: random.Random
) -> None:
    windowing = Windowing.of(window_fn, allowed_lateness=lateness)
    assert _sorted(run(windowing, rebundled(script, shuffle)).panes) == _sorted(run(windowing, script).panes)


@given(windowings(), scripts())
def test_combining_is_grouping_and_then_combining(windowing: Windowing, script: Script) -> None:
    grouped = run(windowing, script).panes
    summed = run(windowing, script, combine=_sum()).panes
    assert _sorted(summed) == _sorted(
        [Pane(pane.key, sum(cast("list[int]", pane.value)), pane.window, pane.timestamp, pane.info) for pane in grouped]
    )


@given(windowings(triggers=TREES), scripts())
def test_combining_before_the_shuffle_makes_no_difference(windowing: Windowing, script: Script) -> None:
    if not liftable(windowing):
        return
    harness = Harness(Grouping(windowing, _sum(), GroupingInputForm.LIFTED))
    lift = LiftedCombine(windowing, _sum())
    for elements, watermark, clock in script.bundles:
        harness.feed(lifted(lift, elements))
        harness.clock(clock)
        harness.advance(watermark)
    harness.advance(MAX_TIMESTAMP)
    direct = run(windowing, script, combine=_sum())
    assert _sorted(harness.panes) == _sorted(direct.panes)
    assert harness.dropped == direct.dropped


def lifted(lift: LiftedCombine, elements: list[Element]) -> list[Element]:
    """What comes out of a bundle that is combined before the shuffle."""
    out: list[Element] = []

    def emit(stream: str, batch: Batch) -> None:
        for value, time in batch.rows():
            key, payload = cast("tuple[object, object]", value)
            out.append((key, payload, time))

    lift.start_bundle()
    pairs = [(key, value) for key, value, _ in elements]
    lift.process_batch("in", Batch(pairs, [time for *_, time in elements]), emit)
    lift.finish_bundle(emit)
    return out


@given(windowings(triggers=TREES), scripts())
def test_windows_that_come_along_make_no_difference(windowing: Windowing, script: Script) -> None:
    harness = Harness(Grouping(windowing, None, GroupingInputForm.WINDOWED))
    for elements, watermark, clock in script.bundles:
        times, payloads = [time for *_, time in elements], [value for _, value, _ in elements]
        windows = windowing.window_fn.assign_all(times, payloads)
        harness.feed(
            [(key, (value, its, None), time) for (key, value, time), its in zip(elements, windows, strict=True)]
        )
        harness.clock(clock)
        harness.advance(watermark)
    harness.advance(MAX_TIMESTAMP)
    plain = run(windowing, script)
    assert _sorted(harness.panes) == _sorted(plain.panes)
    assert harness.dropped == plain.dropped


@given(ALIGNED, st.sampled_from(AccumulationMode), st.integers(1, 3), st.integers(1, 3), scripts())
def test_early_and_late_counts_pane_by_pane(
    window_fn: Sessions, mode: AccumulationMode, early: int, late: int, script: Script
) -> None:
    """Each pane's content, in order, against a list of what a count of elements a bundle leads to."""
    trigger = AfterWatermark(early=AfterCount(early), late=AfterCount(late))
    windowing = Windowing.of(window_fn, trigger, mode, allowed_lateness=20)
    came = sorted(_results(run(windowing, script)), key=_group)
    found = {key: [(pane.info.timing, Counter(pane.value)) for pane in its] for key, its in groupby(came, key=_group)}
    assert found == _early_and_late(windowing, script, early, late)


def _early_and_late(windowing: Windowing, script: Script, early: int, late: int) -> dict[object, list[object]]:
    keys = {(key, window) for key, window in contents(windowing, script).windows}
    return {
        (key, window.end_us, repr(window)): _panes_of(key, window, windowing, script, early, late)
        for key, window in keys
    }


def _panes_of(
    key: object, window: BoundedWindow, windowing: Windowing, script: Script, early: int, late: int
) -> list[object]:
    """The panes of one key and window: timing and contents of each."""
    panes: list[object] = []
    held: Counter[object] = Counter()
    fresh, before, ended, opened, closed = 0, -(10**18), False, False, False

    def fire(timing: PaneInfoTiming) -> None:
        nonlocal held, fresh
        panes.append((timing, held.copy()))
        fresh = 0
        if windowing.accumulation_mode is AccumulationMode.DISCARDING:
            held = Counter()

    for elements, watermark, _ in [*script.bundles, ([], MAX_TIMESTAMP, 0)]:
        its = _values_in(window, [(value, time) for of, value, time in elements if of == key], windowing)
        closes = window.end_us + windowing.allowed_lateness_us
        if its and before < closes:
            late_from_the_first = not opened and before >= window.end_us
            opened = True
            held.update(its)
            fresh += len(its)
            if late_from_the_first and not ended:
                ended = True
                fire(PaneInfoTiming.LATE)
            elif ended and fresh >= late:
                fire(PaneInfoTiming.LATE)
            elif not ended and fresh >= early:
                fire(PaneInfoTiming.EARLY)
        if opened and not ended and watermark >= window.end_us:
            ended = True
            fire(PaneInfoTiming.ON_TIME)
        if opened and not closed and watermark >= closes:
            closed = True
            if fresh:
                fire(PaneInfoTiming.LATE)
        before = watermark
    return panes


def _values_in(window: BoundedWindow, values: list[tuple[object, int]], windowing: Windowing) -> list[object]:
    return [value for value, time in values if window in windowing.window_fn.assign_all([time], [value])[0]]


def _sorted(panes: list[Pane]) -> list[object]:
    """Panes in an order that does not depend on how they came; lists as multisets."""
    return sorted(
        (
            (
                pane.key,
                repr(pane.window),
                pane.info.index,
                tuple(sorted(pane.value)) if isinstance(pane.value, list) else pane.value,
                pane.timestamp,
                repr(pane.info),
            )
            for pane in panes
        ),
        key=repr,
    )


def _sum() -> AnyCombineFn:
    return cast(AnyCombineFn, SumFn())


@given(windowings(), scripts())
def test_panes_are_in_time_for_what_comes_next(windowing: Windowing, script: Script) -> None:
    """The harness fails for an EARLY or ON_TIME pane behind the output watermark; here, where timestamps lie."""
    for pane in run(windowing, script).panes:
        if windowing.timestamp_combiner is TimestampCombiner.OUTPUT_AT_EOW:
            assert pane.timestamp == pane.window.end_us - 1
        else:
            assert pane.timestamp < pane.window.end_us
