"""A tap on a collection: what a recording keeps of each element, brought to the driver.

What is told of an element is small and plain: a number or a short text, whatever the value is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import isfinite
from typing import cast

from headrace.lowlevel.sink import TapSink
from headrace.lowlevel.time import Timestamp
from headrace.sdk.panes import PaneInfo
from headrace.sdk.pipeline import Pipeline, Step
from headrace.sdk.pvalue import PCollection
from headrace.sdk.recording import Arrival, RecordedPane, Value
from headrace.sdk.shorttext import text_of
from headrace.sdk.transforms.element import DoFn, ParDo
from headrace.sdk.transforms.write import Write
from headrace.sdk.windows import BoundedWindow, GlobalWindow

Row = tuple[object, int]
"""A value and its timestamp, as a sink gets it."""


def tap(
    pipeline: Pipeline,
    label: str,
    source: PCollection[object],
    tell: ParDo,
    deliver: Callable[[int, list[Row]], None],
) -> Iterator[Step]:
    """Steps that are no part of the program: one that says what is seen of each element, and a sink for that."""
    seen: PCollection[object] = PCollection(pipeline, source.windowing, source.is_bounded)
    telling = Step(label, tell, [source])
    telling.add_output(seen)
    yield telling
    yield Step(f"{label}/sink", Write(TapSink(deliver)), [seen])


def told_in(element: object, when: Timestamp = DoFn.TimestampParam, pane: PaneInfo = DoFn.PaneInfoParam) -> object:
    """Of an element that goes into a grouping, which is a pair: all of an `Arrival` but the processing time."""
    key, value = cast("tuple[object, object]", element)
    return when.micros, text_of(key), plain(value), pane.is_retraction


def told_out(element: object, window: BoundedWindow = DoFn.WindowParam, pane: PaneInfo = DoFn.PaneInfoParam) -> object:
    """Of an element that comes out: all of a `RecordedPane` but the processing time."""
    key, value = cast("tuple[object, object]", element)
    return text_of(key), plain(value), *_bounds(window), pane.timing.name, pane.index, pane.is_retraction


def arrival(clock: int, row: Row) -> Arrival:
    """Of what `told_in` tells."""
    when, key, value, is_retraction = cast("tuple[int, str, Value, bool]", row[0])
    return Arrival(when, clock, key, value, is_retraction)


def pane(clock: int, row: Row) -> RecordedPane:
    """Of what `told_out` tells."""
    return RecordedPane(clock, *cast("tuple[str, Value, int | None, int | None, str, int, bool]", row[0]))


def plain(value: object) -> Value:
    """A value as a recording has it.

    >>> plain(22), plain([3, 4, 3]), plain(range(100))
    (22, '[3, 4, 3]', '[0, 1, 2, 3, 4, 5, ...]')
    """
    if value is None or type(value) is bool:
        return cast(Value, value)
    # JSON has no form for the others.
    if type(value) is float and isfinite(value):
        return value
    # JSON readers elsewhere know numbers of 64 bits at best.
    if type(value) is int and abs(value) < 1 << 63:
        return value
    return text_of(value)


def _bounds(window: BoundedWindow) -> tuple[int | None, int | None]:
    """Start and end in microseconds; None for a window that has none."""
    start, end = getattr(window, "start", None), getattr(window, "end", None)
    if isinstance(start, Timestamp) and isinstance(end, Timestamp) and not isinstance(window, GlobalWindow):
        return start.micros, end.micros
    return None, None
