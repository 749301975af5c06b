"""One step of a run that is being recorded: a tap brings rows to the driver, where they wait for their epoch's clock.

A value is recorded as a number or a short text, whatever it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from math import isfinite
from typing import Any, NamedTuple, TypeAlias, cast

from headrace.lowlevel.sinks.sink import CallSink
from headrace.lowlevel.time import Timestamp
from headrace.sdk.functions.do_fn import DoFn
from headrace.sdk.graph.pvalue import PCollection, Step
from headrace.sdk.model.panes import PaneInfo
from headrace.sdk.model.short_text import text_of
from headrace.sdk.recording.recording import (
    LISTS,
    Arrival,
    FiredTimer,
    Production,
    RecordedPane,
    StepRecording,
    Value,
    WatermarkStep,
)
from headrace.sdk.transforms.core.low_level import Write
from headrace.sdk.transforms.core.par_do import ParDo
from headrace.sdk.windows import BoundedWindow, GlobalWindow

TimedValue = tuple[object, int]
"""A value and its timestamp, as a sink receives it."""
LIMIT = 10_000
"""Items of each kind that a recording keeps of one step; a plot of more would be unreadable."""
Item: TypeAlias = Arrival | RecordedPane | Production | FiredTimer | WatermarkStep
Make = Callable[[int, TimedValue], Item]
"""From the clock of an epoch and a row to an item of the recording."""


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


class EpochClock(NamedTuple):
    """Clock, watermark and dropped records of a step at the commit of an epoch."""

    clock: int
    watermark: int | None
    dropped: int


class RecordedStep:
    """The recording of one step so far, and its rows of epochs whose clock is not known yet."""

    def __init__(self, label: str, sinks: Mapping[str, Make]) -> None:
        self.step = StepRecording(label)
        self.sinks = sinks
        """Name of a sink that delivers rows -> what makes items of them."""
        self._rows: dict[int, list[tuple[Make, list[TimedValue]]]] = {}
        self._watermark: int | None = None
        self._restarts = False

    def restart(self) -> None:
        """Note that the next epoch is the first of another driver."""
        self._restarts = True

    def begin(self, earlier: StepRecording) -> None:
        """Continue the recording of earlier drivers."""
        self.step = earlier
        self._watermark = earlier.watermarks[-1].watermark if earlier.watermarks else None

    def deliver(self, make: Make, epoch: int, rows: list[TimedValue]) -> None:
        """Keep the rows of an epoch until its clock is known."""
        self._rows.setdefault(epoch, []).append((make, rows))

    def forget(self, epoch: int) -> None:
        """Drop the rows of an epoch, as they are delivered again."""
        self._rows.pop(epoch, None)

    def commit(self, epoch: int, moment: EpochClock) -> StepRecording:
        """Add the rows of a committed epoch, with its clock as their processing time; returns the new items."""
        rows = self._rows.pop(epoch, [])
        # Rows of earlier epochs that were delivered again are not part of the recording.
        self._rows = {other: its for other, its in self._rows.items() if other > epoch}
        moves: list[Item] = []
        if moment.watermark is not None and moment.watermark != self._watermark:
            self._watermark = moment.watermark
            moves = [WatermarkStep(moment.clock, moment.watermark)]
        recorded = [(make, row) for make, its in rows for row in its]
        # A tap reports only the number of rows where there are very many.
        more = sum(row[0] for _, row in recorded if isinstance(row[0], int))
        items = [make(moment.clock, row) for make, row in recorded if not isinstance(row[0], int)] + moves
        new = self._within_limit(items, more, epoch, moment)
        self.step = self.step.followed_by(new)
        return new

    def _within_limit(self, items: Sequence[Item], more: int, epoch: int, moment: EpochClock) -> StepRecording:
        """As many items of each kind as the limit allows; the rest are counted."""
        lists: dict[str, Any] = {}
        for name, kind in LISTS.items():
            room = max(0, LIMIT - len(getattr(self.step, name)))
            lists[name] = tuple(islice((item for item in items if type(item) is kind), room))
        left_out = len(items) - sum(map(len, lists.values())) + more
        restarts, self._restarts = (moment.clock,) if self._restarts else (), False
        return StepRecording(
            self.step.label,
            **lists,
            dropped=moment.dropped,
            left_out=left_out,
            epochs=((epoch, epoch),),
            restarts=restarts,
        )
