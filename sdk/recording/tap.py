"""A tap on a collection: brings what a recording keeps of each element to the driver.

A value is recorded as a number or a short text, whatever it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite
from typing import cast

from headrace.lowlevel.sinks.sink import CallSink
from headrace.lowlevel.time import Timestamp
from headrace.sdk.functions.do_fn import DoFn
from headrace.sdk.graph.pvalue import PCollection, Step
from headrace.sdk.model.panes import PaneInfo
from headrace.sdk.model.short_text import text_of
from headrace.sdk.recording.recording import Arrival, RecordedPane, Value
from headrace.sdk.transforms.core.par_do import ParDo
from headrace.sdk.transforms.core.write import Write
from headrace.sdk.windows import BoundedWindow, GlobalWindow

TimedValue = tuple[object, int]
"""A value and its timestamp, as a sink receives it."""


def tap(label: str, source: PCollection[object], describe: ParDo, sink: CallSink) -> Iterator[Step]:
    """Two steps that are not part of the program: one that describes each element, and a sink for the descriptions."""
    described: PCollection[object] = PCollection(source.pipeline, source.windowing, source.is_bounded)
    describing = Step(label, describe, [source])
    describing.add_output(described)
    yield describing
    yield Step(f"{label}/sink", Write(sink), [described])


def input_fields(element: object, when: Timestamp = DoFn.TimestampParam, pane: PaneInfo = DoFn.PaneInfoParam) -> object:
    """The fields of an `Arrival`, but for the processing time, of a pair that a grouping receives."""
    key, value = cast("tuple[object, object]", element)
    return when.micros, text_of(key), recorded_value(value), pane.is_retraction


def output_fields(
    element: object, window: BoundedWindow = DoFn.WindowParam, pane: PaneInfo = DoFn.PaneInfoParam
) -> object:
    """The fields of a `RecordedPane`, but for the processing time, of a pair that a grouping puts out."""
    key, value = cast("tuple[object, object]", element)
    return text_of(key), recorded_value(value), *_bounds(window), pane.timing.name, pane.index, pane.is_retraction


def arrival(clock: int, row: TimedValue) -> Arrival:
    """The arrival of `input_fields`, with the clock of its epoch."""
    when, key, value, is_retraction = cast("tuple[int, str, Value, bool]", row[0])
    return Arrival(when, clock, key, value, is_retraction)


def pane(clock: int, row: TimedValue) -> RecordedPane:
    """The pane of `output_fields`, with the clock of its epoch."""
    return RecordedPane(clock, *cast("tuple[str, Value, int | None, int | None, str, int, bool]", row[0]))


def recorded_value(value: object) -> Value:
    """A value in the form that a recording stores.

    >>> recorded_value(22), recorded_value([3, 4, 3]), recorded_value(range(100))
    (22, '[3, 4, 3]', '[0, 1, 2, 3, 4, 5, ...]')
    """
    if value is None or type(value) is bool:
        return cast(Value, value)
    # JSON has no form for infinities and NaN.
    if type(value) is float and isfinite(value):
        return value
    # Other JSON readers take numbers of at most 64 bits.
    if type(value) is int and abs(value) < 1 << 63:
        return value
    return text_of(value)


def _bounds(window: BoundedWindow) -> tuple[int | None, int | None]:
    """Start and end in microseconds; None for a window that has none."""
    start, end = getattr(window, "start", None), getattr(window, "end", None)
    if isinstance(start, Timestamp) and isinstance(end, Timestamp) and not isinstance(window, GlobalWindow):
        return start.micros, end.micros
    return None, None
