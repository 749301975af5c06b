"""Assertions about collections, checked while the pipeline runs (`apache_beam.testing.util`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from importlib import import_module
from numbers import Real
from typing import TypeAlias, cast

from headrace.lowlevel.time import Timestamp
from headrace.sdk.functions.changelog import Change, ChangeKind
from headrace.sdk.functions.do_fn import DoFn
from headrace.sdk.graph.ptransform import PTransform
from headrace.sdk.graph.pvalue import BasePipeline, PCollection
from headrace.sdk.model.panes import PaneInfo
from headrace.sdk.model.row import Row
from headrace.sdk.model.special_outputs import WindowedValue
from headrace.sdk.pipeline.pipeline import Pipeline
from headrace.sdk.transforms.core.create import Create
from headrace.sdk.transforms.core.par_do import Map
from headrace.sdk.transforms.core.window_into import WindowInto
from headrace.sdk.transforms.util.changelog import ToChangelog, may_retract
from headrace.sdk.transforms.util.co_group_by_key import CoGroupByKey
from headrace.sdk.windows import BoundedWindow, GlobalWindows

Matcher: TypeAlias = Callable[[list[object]], None]
Equals: TypeAlias = Callable[[object, object], bool]


class BeamAssertException(Exception):
    """An assertion about a collection failed.

    >>> import headrace as beam
    >>> from headrace.testing.util import assert_that, equal_to
    >>> try:
    ...     with beam.Pipeline("LocalRunner") as pipeline:
    ...         _ = assert_that(pipeline | beam.Create([1]), equal_to([2]))
    ... except BeamAssertException as error:
    ...     print(error.__cause__)
    expected [2], got [1]; unexpected: [1], missing: [2]
    """


class TestWindowedValue(WindowedValue):
    """A value with its timestamp, windows and pane, as a matcher gets it with `reify_windows`.

    >>> import headrace as beam
    >>> from headrace.transforms.window import FixedWindows, IntervalWindow, TimestampedValue
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     scores = pipeline | beam.Create([TimestampedValue(5, 70)]) | beam.WindowInto(FixedWindows(60))
    ...     expected = [TestWindowedValue(5, 70, [IntervalWindow(60, 120)])]
    ...     _ = assert_that(scores, equal_to(expected), reify_windows=True)
    """

    __test__ = False
    __slots__ = ()


class _PerWindow:
    """Matcher that compares the elements of each window."""

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
    """A matcher that accepts exactly these elements in each window, in any order.

    >>> import headrace as beam
    >>> from headrace.testing.util import assert_that
    >>> from headrace.transforms.window import FixedWindows, IntervalWindow, TimestampedValue
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     numbers = pipeline | beam.Create([TimestampedValue(1, 5), TimestampedValue(2, 65)])
    ...     windowed = numbers | beam.WindowInto(FixedWindows(60))
    ...     _ = assert_that(windowed, equal_to_per_window({IntervalWindow(0, 60): [1], IntervalWindow(60, 120): [2]}))
    """
    return _PerWindow(expected_window_to_elements)


def equal_to(expected: Iterable[object], equals_fn: Equals | None = None) -> Matcher:
    """A matcher that accepts exactly these elements, in any order.

    `equals_fn(expected, actual)` compares two elements; by default they are compared by `==`, and a row equals a named
    tuple with the same fields.

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
    """A matcher that accepts elements equal to these, where numbers, also in tuples and lists, need only be close.

    `rel_tol` and `abs_tol` have the meaning that they have in `math.isclose`.

    >>> import headrace as beam
    >>> from headrace.testing.util import assert_that
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     means = pipeline | beam.Create([0.1 + 0.2])
    ...     _ = assert_that(means, equal_to_approx([0.3]))
    """

    def close(one: object, other: object) -> bool:
        if isinstance(one, Real) and isinstance(other, Real):
            return math.isclose(one, other, rel_tol=rel_tol, abs_tol=abs_tol)
        if isinstance(one, (list, tuple)) and type(one) is type(other):
            assert isinstance(other, (list, tuple))
            return len(one) == len(other) and all(map(close, one, other))
        return one == other

    return equal_to(expected, close)


def _equal(expected: object, actual: object) -> bool:
    """Whether two elements are equal; a row equals a named tuple with the same fields."""
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
    """A matcher that accepts only an empty collection.

    >>> import headrace as beam
    >>> from headrace.testing.util import assert_that
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     large = pipeline | beam.Create([1, 2]) | beam.Filter(lambda number: number > 9)
    ...     _ = assert_that(large, is_empty())
    """

    def match(actual: list[object]) -> None:
        if actual:
            raise BeamAssertException(f"expected nothing, got {actual!r}")

    return match


def is_not_empty() -> Matcher:
    """A matcher that accepts any collection with at least one element.

    >>> import headrace as beam
    >>> from headrace.testing.util import assert_that
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     numbers = pipeline | beam.Create([1, 2])
    ...     _ = assert_that(numbers, is_not_empty())
    """

    def match(actual: list[object]) -> None:
        if not actual:
            raise BeamAssertException("expected something, got nothing")

    return match


def _reify(
    element: object,
    timestamp: Timestamp = DoFn.TimestampParam,
    window: BoundedWindow = DoFn.WindowParam,
    pane_info: PaneInfo = DoFn.PaneInfoParam,
) -> object:
    """Return an element as a `TestWindowedValue` with its timestamp, window and pane."""
    return TestWindowedValue(element, timestamp, [window], pane_info)


def _unwrap_change(reified: object) -> object:
    """Return a reified change as a reified value, whose pane is a retraction if the change is a deletion."""
    assert isinstance(reified, TestWindowedValue)
    change = cast(Change, reified.value)
    pane = replace(reified.pane_info, is_retraction=change.kind is ChangeKind.DELETE)
    return TestWindowedValue(change.value, reified.timestamp, reified.windows, pane)


class _WithoutRetracted:
    """Matcher that passes the elements that were not retracted to another matcher."""

    def __init__(self, matcher: Matcher) -> None:
        self._matcher = matcher

    def __call__(self, actual: list[object]) -> None:
        kept: list[tuple[object, object]] = []
        retractions: list[tuple[object, object]] = []
        for element in actual:
            is_retraction, compared = _compared_value(element)
            (retractions if is_retraction else kept).append((compared, element))
        for compared, element in retractions:
            found = next((i for i, (other, _) in enumerate(kept) if other == compared), None)
            if found is None:
                value = element.value if isinstance(element, (Change, WindowedValue)) else element
                raise BeamAssertException(
                    f"a retraction takes back {value!r:.200}, which was not put out: some step gives another value for "
                    "a retraction than for the pane that it takes back. Put ToChangelog() before that step to compare "
                    "insertions and deletions"
                )
            del kept[found]
        self._matcher([element.value if isinstance(element, Change) else element for _, element in kept])


def _compared_value(element: object) -> tuple[bool, object]:
    """Whether an element is a retraction, and the value that a pane and its retraction have in common."""
    if isinstance(element, TestWindowedValue):
        return element.pane_info.is_retraction, (element.value, element.windows)
    assert isinstance(element, Change), "changes come as they are, or reified"
    return element.kind is ChangeKind.DELETE, element.value


def _add_window(element: object, window: object = DoFn.WindowParam) -> object:
    return element, window


class _AssertThat(PTransform[PCollection[object], PCollection[object]]):
    def __init__(self, matcher: Matcher, reify_windows: bool, use_global_window: bool, without_retracted: bool) -> None:
        super().__init__()
        self._matcher, self._reify, self._global = matcher, reify_windows, use_global_window
        self._without_retracted = without_retracted

    def expand(self, inputs: PCollection[object]) -> PCollection[object]:
        matcher = self._matcher
        if may_retract(inputs):
            inputs = cast(PCollection[object], inputs | "Log" >> ToChangelog())
            if self._reify:
                inputs = inputs | "Reify" >> Map(_reify) | "Unwrap" >> Map(_unwrap_change)
            if self._without_retracted:
                matcher = _WithoutRetracted(matcher)
        elif self._reify:
            inputs = inputs | "Reify" >> Map(_reify)
        if self._global:
            inputs = inputs | "Window" >> WindowInto(GlobalWindows())
        # The element of "One" makes the matcher run even for an empty collection.
        one = inputs.pipeline | "One" >> Create([(None, None)]) | "Beside" >> WindowInto(inputs.windowing)
        keyed = inputs | "Key" >> Map(lambda element: (None, element))
        one.is_bounded = keyed.is_bounded = True
        grouped = (one, keyed) | "Group" >> CoGroupByKey()
        actual = grouped | "Unkey" >> Map(lambda pair: list(pair[1][1]))
        if not self._global:
            actual = actual | "AddWindow" >> Map(_add_window)
        return actual | "Match" >> Map(matcher)


def matches_all(expected: Iterable[object]) -> Matcher:
    """A matcher: each element matches one of the values or Hamcrest matchers, and each of these one element.

    It needs the package `pyhamcrest`.

    >>> matches_all([2, 1])([1, 2])
    """

    def match(actual: list[object]) -> None:
        hamcrest = import_module("hamcrest")
        hamcrest.assert_that(list(actual), hamcrest.contains_inanyorder(*expected))

    return match


def assert_that(
    actual: PCollection[object],
    matcher: Matcher,
    label: str = "assert_that",
    reify_windows: bool = False,
    use_global_window: bool = True,
) -> PCollection[object]:
    """Check all elements of a collection when the pipeline runs; the run fails if the matcher raises.

    If the collection has retractions, the matcher gets the elements that were not retracted; a retraction of an element
    that was never emitted fails the run. `assert_that(collection | ToChangelog(), ...)` compares each insertion and
    deletion, and `reify_windows` gives the matcher each pane and each retraction.

    Args:
        actual: The collection.
        matcher: Function that is called with the list of the elements, and raises if they are wrong.
        label: Label of the step; a number is added if the pipeline already has a step with this label.
        reify_windows: Whether the matcher gets `TestWindowedValue`s instead of bare elements.
        use_global_window: Whether the matcher gets all elements at once. If not, it gets (elements, window) for each
            window, and also for the window at the beginning of time, which may have no elements.

    Raises:
        TypeError: `actual` is not a collection.
        RuntimeError: The pipeline has run already.

    >>> import headrace as beam
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     doubled = pipeline | beam.Create([1, 2]) | beam.Map(lambda number: 2 * number)
    ...     _ = assert_that(doubled, equal_to([4, 2]))
    """
    if not isinstance(actual, PCollection):
        raise TypeError(f"assert_that takes a collection, got {actual!r:.200}")
    pipeline = actual.pipeline
    if isinstance(pipeline, Pipeline) and pipeline.result is not None:
        raise RuntimeError("the pipeline has run already; call assert_that inside its with block")
    per_window = isinstance(matcher, _PerWindow)
    reified, together = reify_windows or per_window, use_global_window or per_window
    return actual | _free_label(pipeline, label) >> _AssertThat(matcher, reified, together, not reify_windows)


def _free_label(pipeline: BasePipeline, label: str) -> str:
    """The label, with a number if the pipeline already has a step of this label."""
    number, numbered = 1, label
    while pipeline.has_label(numbered):
        number += 1
        numbered = f"{label}_{number}"
    return numbered
