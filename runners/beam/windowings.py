"""Where and when: Beam's window functions, triggers and windowings as Headrace's.

Windows, panes and timestamps go between Beam's classes, which user code sees, and Headrace's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import cast

import apache_beam
from apache_beam.transforms import trigger as beam_triggers
from apache_beam.transforms import window as beam
from apache_beam.utils.timestamp import Timestamp as BeamTimestamp
from apache_beam.utils.windowed_value import PaneInfo as BeamPane
from apache_beam.utils.windowed_value import PaneInfoTiming as BeamTiming
from apache_beam.utils.windowed_value import WindowedValue as BeamValue

from headrace.lowlevel.coders.coder import Coder
from headrace.lowlevel.stored_names import named, stored_as
from headrace.lowlevel.time import Duration, Timestamp
from headrace.runners.beam.beam_private import Never
from headrace.sdk import triggers
from headrace.sdk.model.panes import PaneInfo, PaneInfoTiming, pane_info
from headrace.sdk.model.special_outputs import WindowedValue
from headrace.sdk.triggers import AccumulationMode, Trigger
from headrace.sdk.windows import (
    AssignContext,
    BoundedWindow,
    FixedWindows,
    GlobalWindow,
    GlobalWindows,
    IntervalWindow,
    MergeContext,
    Sessions,
    SlidingWindows,
    TimestampCombiner,
    WindowFn,
)
from headrace.sdk.windows.windowing import ClosingBehavior, OnTimeBehavior, Windowing

_REMEMBERED = 20_000
"""Number of cached windows and panes of each kind."""


@stored_as("BeamWindow")
class BeamWindow(BoundedWindow):
    """A window of a class that only Beam or the user's program has."""

    def __init__(self, window: beam.BoundedWindow) -> None:
        super().__init__(Timestamp.of_micros(window.end.micros))
        self.window = window

    def max_timestamp(self) -> Timestamp:
        """The last instant of the window."""
        return Timestamp.of_micros(self.window.max_timestamp().micros)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BeamWindow) and bool(self.window == other.window)

    def __hash__(self) -> int:
        return hash(self.window)

    def __repr__(self) -> str:
        return repr(self.window)


@lru_cache(_REMEMBERED)
def to_beam(window: BoundedWindow) -> beam.BoundedWindow:
    """Beam's window for one of Headrace's."""
    if isinstance(window, IntervalWindow):
        return beam.IntervalWindow(BeamTimestamp(micros=window.start_us), BeamTimestamp(micros=window.end_us))
    if isinstance(window, BeamWindow):
        return window.window
    return beam.GlobalWindow()


def timestamp_to_beam(timestamp: Timestamp) -> BeamTimestamp:
    """Beam's timestamp for one of Headrace's."""
    return BeamTimestamp(micros=timestamp.micros)


def of_beam(window: beam.BoundedWindow) -> BoundedWindow:
    """Headrace's window for one of Beam's."""
    if type(window) is beam.IntervalWindow:
        return _interval(window.start.micros, window.end.micros)
    if type(window) is beam.GlobalWindow or isinstance(window, beam.WindowFn):
        # With Beam, too, an output may name a window function for its window, as long as a `WindowInto` follows.
        return GlobalWindow()
    return BeamWindow(window)


@lru_cache(_REMEMBERED)
def _interval(start: int, end: int) -> IntervalWindow:
    return IntervalWindow.of_micros(start, end)


@lru_cache(_REMEMBERED)
def pane_to_beam(pane: PaneInfo) -> BeamPane:
    """Beam's pane for one of Headrace's."""
    return BeamPane(pane.is_first, pane.is_last, int(pane.timing), pane.index, pane.nonspeculative_index)


def pane_of_beam(pane: BeamPane) -> PaneInfo:
    """Headrace's pane for one of Beam's."""
    timing = PaneInfoTiming.from_string(BeamTiming.to_string(pane.timing))
    return pane_info(pane.is_first, pane.is_last, timing, pane.index, pane.nonspeculative_index)


def value_of_beam(value: BeamValue) -> WindowedValue:
    """Headrace's element for one of Beam's."""
    windows = tuple(map(of_beam, value.windows))
    timestamp = Timestamp.of_micros(value.timestamp_micros)
    return WindowedValue(value.value, timestamp, windows, pane_of_beam(value.pane_info))


class UntranslatableError(NotImplementedError):
    """A pipeline has a step that the runner cannot run; nothing has run.

    >>> import apache_beam as beam
    >>> from apache_beam.transforms.external import ExternalTransform
    >>> from headrace.runners.beam import HeadraceRunner
    >>> beam.Pipeline(HeadraceRunner()) | beam.Create([1]) | ExternalTransform("beam:transform:x", b"", "host:8097")
    Traceback (most recent call last):
      ...
    headrace.runners.beam.windowings.UntranslatableError: ...
    """


class _WindowCoder:
    """Beam's coder of windows as a coder of Headrace's windows."""

    def __init__(self, coder: apache_beam.coders.Coder) -> None:
        self._coder = coder

    def encode(self, value: object) -> bytes:
        """The bytes of Beam's coder."""
        return cast(bytes, self._coder.encode(to_beam(cast(BoundedWindow, value))))

    def decode(self, data: bytes) -> object:
        """The window of the bytes."""
        return of_beam(self._coder.decode(data))

    def is_deterministic(self) -> bool:
        """Whether equal windows have equal bytes."""
        return bool(self._coder.is_deterministic())


@named("BeamWindowFn")
class BeamWindowFn(WindowFn):
    """A window function of the user's own, or one of Beam's without a counterpart; the function runs as it is."""

    def __init__(self, fn: beam.WindowFn) -> None:
        self.fn = fn

    def adapted_name(self) -> str:
        """The name of the function's class and of its coder, in fingerprints."""
        return f"{type(self.fn).__qualname__} with {self.fn.get_window_coder()!r}"

    def assign(self, context: AssignContext) -> Iterable[BoundedWindow]:
        """The windows that the function assigns."""
        window = None if context.window is None else to_beam(context.window)
        timestamp = BeamTimestamp(micros=context.timestamp.micros)
        return [
            of_beam(each) for each in self.fn.assign(beam.WindowFn.AssignContext(timestamp, context.element, window))
        ]

    def merge(self, merge_context: MergeContext) -> None:
        """Merge as the function does."""
        windows = {to_beam(window): window for window in merge_context.windows}

        class Context(beam.WindowFn.MergeContext):  # type: ignore[misc]  # Beam's types are not read
            def merge(self, to_be_merged: Iterable[beam.BoundedWindow], merge_result: beam.BoundedWindow) -> None:
                merge_context.merge([windows[each] for each in to_be_merged], of_beam(merge_result))

        self.fn.merge(Context(list(windows)))

    def is_merging(self) -> bool:
        """Whether the function merges windows."""
        return not isinstance(self.fn, beam.NonMergingWindowFn)

    def get_window_coder(self) -> Coder:
        """The function's coder."""
        return cast(Coder, _WindowCoder(self.fn.get_window_coder()))

    def get_transformed_output_time(self, window: BoundedWindow, input_timestamp: Timestamp) -> Timestamp:
        """The time that the function gives."""
        time = self.fn.get_transformed_output_time(to_beam(window), BeamTimestamp(micros=input_timestamp.micros))
        return Timestamp(micros=time.micros)


def _span(duration: object) -> Duration:
    return Duration(micros=cast("beam.Duration", duration).micros)


_WINDOW_FNS: dict[type, Callable[..., WindowFn]] = {
    beam.GlobalWindows: lambda _: GlobalWindows(),
    beam.FixedWindows: lambda fn: FixedWindows(_span(fn.size), Timestamp(micros=fn.offset.micros)),
    beam.SlidingWindows: lambda fn: SlidingWindows(
        _span(fn.size), _span(fn.period), Timestamp(micros=fn.offset.micros)
    ),
    beam.Sessions: lambda fn: Sessions(_span(fn.gap_size)),
}


def window_fn_of(fn: beam.WindowFn) -> WindowFn:
    """Headrace's window function for one of Beam's."""
    make = _WINDOW_FNS.get(type(fn))
    return BeamWindowFn(fn) if make is None else make(fn)


def _all(parts: Iterable[beam_triggers.TriggerFn]) -> list[Trigger]:
    return [trigger_of(part) for part in parts]


_TRIGGERS: dict[type, Callable[..., Trigger]] = {
    beam_triggers.DefaultTrigger: lambda _: triggers.DefaultTrigger(),
    beam_triggers.AfterWatermark: lambda each: triggers.AfterWatermark(
        *(None if part is None else trigger_of(part) for part in (each.early, each.late))
    ),
    beam_triggers.AfterProcessingTime: lambda each: triggers.AfterProcessingTime(each.delay),
    beam_triggers.AfterCount: lambda each: triggers.AfterCount(each.count),
    beam_triggers.Repeatedly: lambda each: triggers.Repeatedly(trigger_of(each.underlying)),
    beam_triggers.AfterAny: lambda each: triggers.AfterAny(*_all(each.triggers)),
    beam_triggers.AfterAll: lambda each: triggers.AfterAll(*_all(each.triggers)),
    beam_triggers.AfterEach: lambda each: triggers.AfterEach(*_all(each.triggers)),
    beam_triggers.OrFinally: lambda each: triggers.OrFinally(*_all(each.triggers)),
    beam_triggers.Always: lambda _: triggers.Always(),
    Never: lambda _: triggers.Never(),
}


def trigger_of(trigger: beam_triggers.TriggerFn) -> Trigger:
    """Headrace's trigger for one of Beam's. Raises UntranslatableError for a class that Beam does not have."""
    make = _TRIGGERS.get(type(trigger))
    if make is None:
        raise UntranslatableError(
            f"trigger {trigger} is of the class {type(trigger).__name__}, which no runner but Beam's in-process one "
            "knows; use the triggers of apache_beam.transforms.trigger"
        )
    return make(trigger)


_MODES = {
    beam_triggers.AccumulationMode.DISCARDING: AccumulationMode.DISCARDING,
    beam_triggers.AccumulationMode.ACCUMULATING: AccumulationMode.ACCUMULATING,
}
_COMBINERS = {getattr(beam.TimestampCombiner, each.name): each for each in TimestampCombiner}


def windowing_of(windowing: apache_beam.Windowing) -> Windowing:
    """Headrace's windowing for one of Beam's. Raises UntranslatableError for what it does not have."""
    return Windowing.of(
        window_fn_of(windowing.windowfn),
        trigger_of(windowing.triggerfn),
        _MODES[windowing.accumulation_mode],
        _COMBINERS[windowing.timestamp_combiner],
        Duration(micros=windowing.allowed_lateness.micros),
        ClosingBehavior.FIRE_IF_NON_EMPTY,
        OnTimeBehavior.FIRE_ALWAYS,
    )
