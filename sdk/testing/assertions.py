"""Assertions about collections, checked while the pipeline runs (`apache_beam.testing.util`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from numbers import Real
from typing import TypeAlias, cast

from headrace.lowlevel.time import Timestamp
from headrace.sdk.panes import PaneInfo
from headrace.sdk.ptransform import PTransform
from headrace.sdk.pvalue import PCollection
from headrace.sdk.row import Row
from headrace.sdk.transforms.changelog import Change, ChangeKind, ToChangelog, may_retract
from headrace.sdk.transforms.create import Create
from headrace.sdk.transforms.element import DoFn, Map, ParDo
from headrace.sdk.transforms.group import CoGroupByKey
from headrace.sdk.transforms.window_into import WindowInto
from headrace.sdk.windowedvalue import WindowedValue
from headrace.sdk.windows import BoundedWindow, GlobalWindows

Matcher: TypeAlias = Callable[[list[object]], None]
Equals: TypeAlias = Callable[[object, object], bool]


class BeamAssertException(Exception):
    """An assertion about a collection that does not hold."""


class TestWindowedValue(WindowedValue):
    """A value with timestamp, windows and pane, as an element to be looked at."""

    __test__ = False
    __slots__ = ()


class _PerWindow:
    """Compares the elements of each window."""

    def __init__(self, expected: Mapping[object, Iterable[object]]) -> None:
        self._expected = {window: list(elements) for window, elements in expected.items()}

    def __call__(self, actual: list[object]) -> None:
        left = {window: list(elements) for window, elements in self._expected.items()}
        for element in actual:
            assert isinstance(element, TestWindowedValue)
            window = element.windows[0]
            if window not in left:
                raise BeamAssertException(f"{element.value!r} is in window {window}; expected are {list(left)}")
            if element.value not in left[window]:
                raise BeamAssertException(f"unexpected {element.value!r} in window {window}; left: {left[window]!r}")
            left[window].remove(element.value)
        if missing := {window: elements for window, elements in left.items() if elements}:
            raise BeamAssertException(f"missing elements by window: {missing!r}")


def equal_to_per_window(expected_window_to_elements: Mapping[object, Iterable[object]]) -> Matcher:
    """Matches if each window holds just these elements, in any order."""
    return _PerWindow(expected_window_to_elements)


def equal_to(expected: Iterable[object], equals_fn: Equals | None = None) -> Matcher:
    """Matches just these elements, in any order.

    >>> equal_to([1, 2])([2, 1])
    >>> equal_to([1, 2])([2, 3])
    Traceback (most recent call last):
      ...
    headrace.sdk.testing.assertions.BeamAssertException: expected [1, 2], got [2, 3]; unexpected: [3], missing: [1]
    """
    wanted = list(expected)
    equals = equals_fn or _equal

    def match(actual: list[object]) -> None:
        missing, unexpected = list(wanted), []
        for element in actual:
            for index, candidate in enumerate(missing):
                if equals(candidate, element):
                    del missing[index]
                    break
            else:
                unexpected.append(element)
        if missing or unexpected:
            raise BeamAssertException(
                f"expected {wanted!r}, got {list(actual)!r}; unexpected: {unexpected!r}, missing: {missing!r}"
            )

    return match


def equal_to_approx(expected: Iterable[object], rel_tol: float = 1e-9, abs_tol: float = 0.0) -> Matcher:
    """Matches elements equal to these or, where they are numbers (in tuples and lists too), close to them."""

    def close(one: object, other: object) -> bool:
        if isinstance(one, Real) and isinstance(other, Real):
            return math.isclose(one, other, rel_tol=rel_tol, abs_tol=abs_tol)
        if isinstance(one, (list, tuple)) and type(one) is type(other):
            assert isinstance(other, (list, tuple))
            return len(one) == len(other) and all(map(close, one, other))
        return one == other

    return equal_to(expected, close)


def _equal(expected: object, actual: object) -> bool:
    """Equality in which a row and a named tuple of the same fields are the same."""
    if expected == actual:
        return True
    one, other = _fields(expected), _fields(actual)
    if one is None or other is None:
        return False
    return one.keys() == other.keys() and all(_equal(one[name], other[name]) for name in one)


def _fields(value: object) -> dict[str, object] | None:
    if isinstance(value, Row):
        return value.as_dict()
    as_dict = getattr(value, "_asdict", None)
    return as_dict() if isinstance(value, tuple) and as_dict is not None else None


def is_empty() -> Matcher:
    """Matches no elements."""

    def match(actual: list[object]) -> None:
        if actual:
            raise BeamAssertException(f"expected nothing, got {actual!r}")

    return match


def is_not_empty() -> Matcher:
    """Matches any elements, but not none."""

    def match(actual: list[object]) -> None:
        if not actual:
            raise BeamAssertException("expected something, got nothing")

    return match


class _Reify(DoFn):
    """Elements with what the model knows of them."""

    def process(
        self,
        element: object,
        timestamp: Timestamp = DoFn.TimestampParam,
        window: BoundedWindow = DoFn.WindowParam,
        pane_info: PaneInfo = DoFn.PaneInfoParam,
    ) -> list[object]:
        return [TestWindowedValue(element, timestamp, [window], pane_info)]


class _ReifyChange(DoFn):
    """The pane or retraction that a change stands for, with what the model knows of it."""

    def process(
        self,
        change: Change,
        timestamp: Timestamp = DoFn.TimestampParam,
        window: BoundedWindow = DoFn.WindowParam,
        pane_info: PaneInfo = DoFn.PaneInfoParam,
    ) -> list[object]:
        pane = replace(pane_info, is_retraction=change.kind is ChangeKind.DELETE)
        return [TestWindowedValue(change.value, timestamp, [window], pane)]


class _Standing:
    """Calls a matcher with what was put out and not taken back."""

    def __init__(self, matcher: Matcher) -> None:
        self._matcher = matcher

    def __call__(self, actual: list[object]) -> None:
        standing: list[tuple[object, object]] = []
        taken_back: list[tuple[object, object]] = []
        for element in actual:
            is_retraction, compared = _change(element)
            (taken_back if is_retraction else standing).append((compared, element))
        for compared, element in taken_back:
            found = next((i for i, (other, _) in enumerate(standing) if other == compared), None)
            if found is None:
                value = element.value if isinstance(element, (Change, WindowedValue)) else element
                raise BeamAssertException(
                    f"a retraction takes back {value!r:.200}, which was not put out: some step gives another value for "
                    "a retraction than for the pane that it takes back. Put ToChangelog() before that step to compare "
                    "insertions and deletions"
                )
            del standing[found]
        kept = (element for _, element in standing)
        self._matcher([element.value if isinstance(element, Change) else element for element in kept])


def _change(element: object) -> tuple[bool, object]:
    """Whether an element takes something back, and what must be equal."""
    if isinstance(element, TestWindowedValue):
        return element.pane_info.is_retraction, (element.value, element.windows)
    assert isinstance(element, Change), "changes come as they are, or reified"
    return element.kind is ChangeKind.DELETE, element.value


class _AddWindow(DoFn):
    def process(self, element: object, window: object = DoFn.WindowParam) -> list[object]:
        return [(element, window)]


class _AssertThat(PTransform[PCollection[object], PCollection[object]]):
    def __init__(self, matcher: Matcher, reify_windows: bool, use_global_window: bool, standing: bool) -> None:
        super().__init__()
        self._matcher, self._reify, self._global = matcher, reify_windows, use_global_window
        self._standing = standing

    def expand(self, inputs: PCollection[object]) -> PCollection[object]:
        matcher = self._matcher
        if may_retract(inputs):
            inputs = cast(PCollection[object], inputs | "Log" >> ToChangelog())
            if self._reify:
                inputs = inputs | "Reify" >> ParDo(_ReifyChange())
            if self._standing:
                matcher = _Standing(matcher)
        elif self._reify:
            inputs = inputs | "Reify" >> ParDo(_Reify())
        if self._global:
            inputs = inputs | "Window" >> WindowInto(GlobalWindows())
        # Together with one element of its own the matcher is called even if there are no others.
        one = inputs.pipeline | "One" >> Create([(None, None)]) | "Beside" >> WindowInto(inputs.windowing)
        keyed = inputs | "Key" >> Map(lambda element: (None, element))
        one.is_bounded = keyed.is_bounded = True
        grouped = (one, keyed) | "Group" >> CoGroupByKey()
        actual = grouped | "Unkey" >> Map(lambda pair: list(pair[1][1]))
        if not self._global:
            actual = actual | "AddWindow" >> ParDo(_AddWindow())
        return actual | "Match" >> Map(matcher)


def assert_that(
    actual: PCollection[object],
    matcher: Matcher,
    label: str = "assert_that",
    reify_windows: bool = False,
    use_global_window: bool = True,
) -> PCollection[object]:
    """Check all elements of a collection when the pipeline runs: the run fails if the matcher raises.

    Of a collection with retractions the matcher gets what was put out and not taken back; a retraction of what was
    never put out fails the run. `assert_that(collection | ToChangelog(), ...)` compares each insertion and deletion,
    and `reify_windows` shows each pane and each retraction.

    Args:
        actual: The collection.
        matcher: Called with the list of its elements.
        label: Of the step; a number is added if there is one of this label.
        reify_windows: Whether the matcher gets `TestWindowedValue`s instead of bare elements.
        use_global_window: Whether all elements are checked at once, rather than those of each window as
            (elements, window); then the window at the beginning of time is there too, without elements.
    """
    if not isinstance(actual, PCollection):
        raise TypeError(f"assert_that takes a collection, got {actual!r:.200}")
    pipeline = actual.pipeline
    if pipeline.result is not None:
        raise RuntimeError("the pipeline has run already; call assert_that inside its with block")
    number, numbered = 1, label
    while pipeline.has_label(numbered):
        number += 1
        numbered = f"{label}_{number}"
    per_window = isinstance(matcher, _PerWindow)
    reified, together = reify_windows or per_window, use_global_window or per_window
    return actual | numbered >> _AssertThat(matcher, reified, together, standing=not reify_windows)
