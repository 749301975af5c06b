"""Retractions through chains of groupings: what was put out and not taken back, against recomputation from scratch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import NamedTuple, cast

from hypothesis import given
from hypothesis import strategies as st

from headrace.lowlevel.time import MAX_TIMESTAMP, MIN_TIMESTAMP, SECOND
from headrace.sdk.combinefns.collecting import ToListCombineFn, ToSetCombineFn
from headrace.sdk.combinefns.combine_fn import AnyCombineFn, CallableCombineFn
from headrace.sdk.combinefns.composite import SingleInputTupleCombineFn
from headrace.sdk.combinefns.numeric import CountCombineFn, MeanCombineFn, SumFn
from headrace.sdk.combinefns.variance import StandardDeviationFn
from headrace.sdk.model.element_form import GroupingInputForm
from headrace.sdk.model.panes import UNMATCHED_RETRACTIONS, PaneInfo, PaneInfoTiming
from headrace.sdk.operators.grouping.grouping import Grouping
from headrace.sdk.operators.grouping.window_contents import matched
from headrace.sdk.triggers import AccumulationMode, AfterCount, AfterWatermark, Always, Repeatedly, Trigger
from headrace.sdk.windows import BoundedWindow, FixedWindows, IntervalWindow, Sessions, WindowFn
from headrace.sdk.windows.windowing import Windowing
from tests.harness import Element, Harness, Pane
from tests.properties.model import contents
from tests.properties.scripts import WINDOW_FNS, Script, scripts

RETRACTING = AccumulationMode.ACCUMULATING_AND_RETRACTING
EAGER = st.sampled_from([Always(), Repeatedly(AfterCount(1)), AfterWatermark(early=AfterCount(1), late=AfterCount(1))])
"""Triggers that leave nothing waiting after a bundle."""
WINDOW = FixedWindows(10)
ENDLESS_S = 10_000_000
"""Allowed lateness that nothing outlasts."""


class Row(NamedTuple):
    """A result, as long as it is not taken back."""

    key: object
    window: BoundedWindow
    value: object


class Link(NamedTuple):
    """A grouping of a chain, and how it keys what the one before puts out: by the value there, or by nothing."""

    combine: AnyCombineFn | None
    compute: Callable[[list[object]], object]
    by_value: bool

    def pair(self, key: object, value: object) -> tuple[object, object]:
        return (str(value), key) if self.by_value else ("all", str(value))


LINKS = st.builds(
    lambda how, by_value: Link(*how, by_value),
    st.sampled_from(
        [
            (CountCombineFn(), len),
            (CallableCombineFn(max), max),
            (None, lambda values: sorted(values)),
        ]
    ),
    st.booleans(),
)


class Chain:
    """Team totals, and further groupings of what each puts out."""

    def __init__(self, windowing: Windowing, links: list[Link]) -> None:
        self.links = links
        self.harnesses = [Harness(Grouping(windowing, SumFn()))]
        self.harnesses += [
            Harness(Grouping(windowing, link.combine, GroupingInputForm.WINDOWED, takes_back=True)) for link in links
        ]

    def feed(self, elements: Iterable[Element]) -> None:
        self._pass_on(self.harnesses[0].feed(elements), 0)

    def advance(self, watermark: int) -> None:
        for at, harness in enumerate(self.harnesses):
            self._pass_on(harness.advance(max(watermark, harness.watermark)), at)
            watermark = min(watermark, harness.output_watermark)

    def _pass_on(self, panes: list[Pane], at: int) -> None:
        for link, harness in zip(self.links[at:], self.harnesses[at + 1 :], strict=True):
            elements: list[Element] = []
            for pane in panes:
                key, value = link.pair(pane.key, _plain(pane.value))
                elements.append((key, (value, (pane.window,), pane.info), pane.timestamp))
            panes = harness.feed(elements)

    def standing(self, at: int) -> Counter[Row]:
        """What a grouping has put out and not taken back."""
        net: Counter[Row] = Counter()
        for pane in self.harnesses[at].panes:
            net[Row(pane.key, pane.window, _plain(pane.value))] += -1 if pane.info.is_retraction else 1
        assert min(net.values(), default=0) >= 0, f"taken back more often than put out: {net}"
        return +net


def _plain(value: object) -> object:
    return str(sorted(value)) if isinstance(value, list) else value


def from_scratch(windowing: Windowing, links: list[Link], script: Script) -> list[Counter[Row]]:
    """What each grouping of the chain would put out if it saw nothing but what is there now."""
    held = contents(windowing, script).windows
    rows = [Row(key, window, sum(int(str(value)) % 3 for value in its)) for (key, window), its in held.items()]
    results = [Counter(rows)]
    for link in links:
        pairs: dict[object, list[Row]] = {}
        for row in rows:
            key, value = link.pair(row.key, row.value)
            pairs.setdefault(key, []).append(Row(key, row.window, value))
        rows = []
        for key, its in pairs.items():
            for window, together in _merged(windowing, its):
                rows.append(Row(key, window, _plain(link.compute([row.value for row in together]))))
        results.append(Counter(rows))
    return results


def _merged(windowing: Windowing, rows: list[Row]) -> list[tuple[BoundedWindow, list[Row]]]:
    if not isinstance(windowing.window_fn, Sessions):
        by_window: dict[BoundedWindow, list[Row]] = {}
        for row in rows:
            by_window.setdefault(row.window, []).append(row)
        return list(by_window.items())
    merged: list[tuple[BoundedWindow, list[Row]]] = []
    for row in sorted(rows, key=lambda row: row.window.start_us):
        window = row.window
        assert isinstance(window, IntervalWindow)
        last = merged[-1][0] if merged else None
        if isinstance(last, IntervalWindow) and window.start_us < last.end_us:
            union = IntervalWindow.of_micros(last.start_us, max(last.end_us, window.end_us))
            merged[-1] = (union, [*merged[-1][1], row])
        else:
            merged.append((window, [row]))
    return merged


def numbers(elements: list[Element]) -> list[Element]:
    return [(key, int(str(value)) % 3, time) for key, value, time in elements]


@given(WINDOW_FNS, EAGER, st.lists(LINKS, min_size=1, max_size=3), scripts())
def test_at_every_instant_as_if_computed_from_scratch(
    window_fn: object, trigger: object, links: list[Link], script: Script
) -> None:
    """Team totals, a histogram of the totals, and further; also where sessions merge and fall apart."""
    windowing = Windowing.of(window_fn, trigger, RETRACTING, allowed_lateness=ENDLESS_S)
    chain = Chain(windowing, links)
    for number, (elements, watermark, _) in enumerate(script.bundles):
        chain.feed(numbers(elements))
        expected = from_scratch(windowing, links, Script(script.bundles[: number + 1]))
        for at, rows in enumerate(expected):
            assert chain.standing(at) == rows, f"grouping {at} after bundle {number}"
        chain.advance(watermark)
    chain.advance(MAX_TIMESTAMP)
    for at, rows in enumerate(from_scratch(windowing, links, script)):
        assert chain.standing(at) == rows, f"grouping {at} at the end"
        assert not any(chain.harnesses[at].stored().values()), f"still stored: {chain.harnesses[at].stored()}"
        assert not chain.harnesses[at].counters.get(UNMATCHED_RETRACTIONS)


@given(WINDOW_FNS, EAGER, st.sampled_from([0, 3, 20]), LINKS, scripts())
def test_retractions_are_those_of_the_panes_before(
    window_fn: object, trigger: object, lateness: int, link: Link, script: Script
) -> None:
    windowing = Windowing.of(window_fn, trigger, RETRACTING, allowed_lateness=lateness)
    chain = Chain(windowing, [link])
    for elements, watermark, _ in script.bundles:
        chain.feed(numbers(elements))
        chain.advance(watermark)
    chain.advance(MAX_TIMESTAMP)
    for harness in chain.harnesses:
        _check_numbers(harness.panes, isinstance(window_fn, Sessions))
        assert not any(harness.stored().values()), f"still stored: {harness.stored()}"


def _check_numbers(panes: list[Pane], merging: bool) -> None:
    """Every retraction takes back a pane that stands; panes that are none are numbered without gaps.

    A session that grows or falls apart is other windows: those that come of it begin at 0, unless they stay.
    """
    standing: dict[tuple[object, BoundedWindow], Pane] = {}
    count: Counter[tuple[object, BoundedWindow]] = Counter()
    for pane in panes:
        place = (pane.key, pane.window)
        if pane.info.is_retraction:
            shown = standing.pop(place)
            assert (shown.value, shown.timestamp) == (pane.value, pane.timestamp)
            assert _without_mark(pane.info) == shown.info
        else:
            assert place not in standing, f"{pane} before {standing.get(place)} is taken back"
            standing[place] = pane
            if merging and pane.info.is_first:
                count[place] = 0
            assert (pane.info.index, pane.info.is_first) == (count[place], count[place] == 0)
            count[place] += 1


def _without_mark(info: PaneInfo) -> PaneInfo:
    return PaneInfo(info.is_first, info.is_last, info.timing, info.index, info.nonspeculative_index)


def test_what_was_never_there_is_counted() -> None:
    """As where the element came too late and what takes it back, to a longer window, does not."""
    windowing = Windowing.of(WINDOW, Always(), RETRACTING)
    harness = Harness(Grouping(windowing, None, GroupingInputForm.WINDOWED, takes_back=True))
    retraction = PaneInfo(True, False, 0, 0, -1, is_retraction=True)
    window = WINDOW.assign_all([5], [None])[0]
    harness.feed([("a", (7, window, retraction), 5)])
    assert harness.counters == {"records": 1, UNMATCHED_RETRACTIONS: 1}
    harness.feed([("a", (8, window, None), 5), ("a", (7, window, retraction), 5)])
    assert [(pane.value, pane.info.is_retraction) for pane in harness.panes] == [([8], False)]
    assert harness.counters[UNMATCHED_RETRACTIONS] == 2
    assert harness.watermark == MIN_TIMESTAMP


@st.composite
def signed(draw: st.DrawFn) -> tuple[list[list[tuple[bool, int, int]]], list[tuple[int, int]]]:
    """Bundles of elements (value, time) and retractions of some, in any order; and the elements that are left."""
    elements = draw(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 40)), max_size=12))
    retracted = [element for element in elements if draw(st.booleans())]
    left = list((Counter(elements) - Counter(retracted)).elements())
    rows = draw(st.permutations([(False, *each) for each in elements] + [(True, *each) for each in retracted]))
    cuts = sorted(draw(st.lists(st.integers(0, len(rows)), max_size=6)))
    return [list(rows[a:b]) for a, b in pairwise([0, *cuts, len(rows)])], left


COMBINERS = st.sampled_from(
    [
        None,
        SumFn(),
        CallableCombineFn(max),
        MeanCombineFn(),
        ToListCombineFn(),
        ToSetCombineFn(),
        StandardDeviationFn(),
        SingleInputTupleCombineFn(SumFn(), StandardDeviationFn()),
    ]
)


@given(WINDOW_FNS, EAGER, COMBINERS, signed())
def test_a_retraction_may_come_before_what_it_retracts(
    window_fn: WindowFn, trigger: Trigger, combine: AnyCombineFn | None, rows: object
) -> None:
    """In the end as if there had been the elements alone that are left; also where sessions would have merged."""
    bundles, left = cast("tuple[list[list[tuple[bool, int, int]]], list[tuple[int, int]]]", rows)
    ends: list[Counter[Row]] = []
    for each in (bundles, [[(False, *element) for element in left]]):
        windowing = Windowing.of(window_fn, trigger, RETRACTING, allowed_lateness=ENDLESS_S)
        harness = Harness(Grouping(windowing, combine, GroupingInputForm.WINDOWED, takes_back=True))
        for bundle in each:
            harness.feed([_signed(window_fn, *row) for row in bundle])
        harness.advance(MAX_TIMESTAMP)
        net: Counter[Row] = Counter()
        for pane in harness.panes:
            net[Row(pane.key, pane.window, str(_plain(pane.value)))] += -1 if pane.info.is_retraction else 1
            assert min(net.values()) >= 0
        ends.append(+net)
        assert not harness.counters.get(UNMATCHED_RETRACTIONS)
        assert not any(harness.stored().values()), f"still stored: {harness.stored()}"
    assert ends[0] == ends[1]


def _signed(window_fn: WindowFn, is_retraction: bool, value: int, second: int) -> Element:
    windows = window_fn.assign_all([second * SECOND], [value])[0]
    pane = PaneInfo(True, False, PaneInfoTiming.EARLY, 0, -1, is_retraction=True) if is_retraction else None
    return "a", (value, windows, pane), second * SECOND


@given(WINDOW_FNS, st.sampled_from([None, SumFn(), CallableCombineFn(max)]))
def test_what_waits_in_vain_goes_with_its_window(window_fn: WindowFn, combine: AnyCombineFn | None) -> None:
    windowing = Windowing.of(window_fn, Always(), RETRACTING, allowed_lateness=5)
    harness = Harness(Grouping(windowing, combine, GroupingInputForm.WINDOWED, takes_back=True))
    harness.feed([_signed(window_fn, True, 1, 5)])
    harness.advance(MAX_TIMESTAMP)
    assert not any(harness.stored().values()), f"still stored: {harness.stored()}"
    assert harness.counters.get(UNMATCHED_RETRACTIONS, 0) == len(window_fn.assign_all([5 * SECOND], [1])[0])


@given(
    st.lists(st.sampled_from([1, 1.0, True, None, "a"]).flatmap(lambda each: st.sampled_from([{"v": each}, each]))),
    st.lists(st.sampled_from([1, 2, None, "a"]).flatmap(lambda each: st.sampled_from([{"v": each}, each]))),
)
def test_each_removed_value_takes_one_equal_value(values: list[object], removed: list[object]) -> None:
    """Also values that cannot be hashed, and equal ones of several types."""
    stay, missing = matched(values, removed)
    gone = [value for at, value in enumerate(values) if at not in stay]
    left = list(removed)
    for target in missing:
        left.remove(target)
    assert len(left) == len(gone) and all(left.count(value) == gone.count(value) for value in gone)
    assert not any(values[at] == target for at in stay for target in missing)
