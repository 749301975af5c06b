"""An element as the model sees it: value, timestamp, windows and pane (`apache_beam.utils.windowed_value`)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from headrace.lowlevel.stored_names import stored_as
from headrace.lowlevel.time import Timestamp, TimestampTypes
from headrace.sdk.model.panes import PANE_INFO_UNKNOWN, PaneInfo
from headrace.sdk.windows import BoundedWindow


@stored_as("WindowedValue")
@dataclass(frozen=True, slots=True, init=False)
class WindowedValue:
    """A value with its timestamp (in seconds since 1970 UTC, or a `Timestamp`), its windows and its pane.

    A function emits a `WindowedValue` to choose the windows itself.

    >>> from headrace.sdk.windows import GlobalWindow
    >>> WindowedValue("britney", 12, [GlobalWindow()]).timestamp
    Timestamp(12)
    """

    value: object
    timestamp: Timestamp
    windows: tuple[BoundedWindow, ...]
    pane_info: PaneInfo

    def __init__(
        self,
        value: object,
        timestamp: TimestampTypes,
        windows: Iterable[BoundedWindow],
        pane_info: PaneInfo = PANE_INFO_UNKNOWN,
    ) -> None:
        object.__setattr__(self, "value", value)
        object.__setattr__(self, "timestamp", Timestamp.of(timestamp))
        object.__setattr__(self, "windows", tuple(windows))
        object.__setattr__(self, "pane_info", pane_info)

    def with_value(self, new_value: object) -> WindowedValue:
        """The same element with another value."""
        return WindowedValue(new_value, self.timestamp, self.windows, self.pane_info)
