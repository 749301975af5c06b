"""Windows, panes and timestamps between Beam's classes, which user code sees, and Headrace's."""

from __future__ import annotations

from functools import lru_cache

from apache_beam.transforms import window as beam
from apache_beam.utils.timestamp import Timestamp as BeamTimestamp
from apache_beam.utils.windowed_value import PaneInfo as BeamPane
from apache_beam.utils.windowed_value import PaneInfoTiming as BeamTiming
from apache_beam.utils.windowed_value import WindowedValue as BeamValue

from headrace.lowlevel.stored_names import stored_as
from headrace.lowlevel.time import Timestamp
from headrace.sdk.model.panes import PaneInfo, PaneInfoTiming, pane_info
from headrace.sdk.model.special_outputs import WindowedValue
from headrace.sdk.windows import BoundedWindow, GlobalWindow, IntervalWindow

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
