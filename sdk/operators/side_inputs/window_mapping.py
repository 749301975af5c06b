"""Where: the mapping of main-input windows to side-input windows, and how long side windows are reachable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.lowlevel.errors import TopologyError
from headrace.lowlevel.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from headrace.sdk.windows import FixedWindows, GlobalWindow, GlobalWindows, SlidingWindows
from headrace.sdk.windows.window_namespace import WindowNamespace, WindowNamespaces
from headrace.sdk.windows.windowing import Windowing, window_kind


class SideWindows:
    """Maps windows of a main input to the windows of a side input.

    Args:
        side: The windowing of the side input.
        main: The windowing of the main input.

    >>> mapping = SideWindows(Windowing(FixedWindows(60)), Windowing(FixedWindows(10)))
    >>> main = mapping.main_namespaces.of_interval(50_000_000, 60_000_000)
    >>> mapping.of(main).window
    [0.0, 60.0)
    """

    def __init__(self, side: Windowing, main: Windowing) -> None:
        self._side, self._main = side, main
        self.namespaces = WindowNamespaces(side)
        self.main_namespaces = WindowNamespaces(main)
        self._ready_delay = ready_delay(side)
        self._is_global = isinstance(side.window_fn, GlobalWindows)

    def __reduce__(self) -> tuple[object, ...]:
        return SideWindows, (self._side, self._main)

    def kinds(self) -> str:
        """The kinds of windows of the side input and of the main input, for the state signature."""
        return f"{window_kind(self._side.window_fn)} beside {window_kind(self._main.window_fn)}"

    def of(self, main: WindowNamespace) -> WindowNamespace:
        """The side window of a main window: the last side window that contains the main window's last instant.

        Raises TopologyError if there is no such side window.
        """
        window_fn = self._side.window_fn
        if self._is_global:
            return self.namespaces.of_window(GlobalWindow())
        windows = window_fn.assign_all((main.last,), (None,), (main.window,))[0]
        if not windows:
            raise TopologyError(
                f"{window_fn} have no window around the end of {main.window}, so elements in that window have no side "
                "input; give the side input windows that leave no gaps"
            )
        return self.namespaces.of_window(windows[-1])

    def ready_at(self, side: WindowNamespace) -> int:
        """The side-input watermark at which a window without a pane is known to be empty, microseconds UTC."""
        return min(side.end + self._ready_delay, MAX_TIMESTAMP)

    def expires_at(self, side: WindowNamespace) -> int:
        """The main-input watermark from which on a side window is unreachable, because its main windows are closed."""
        return MAX_TIMESTAMP if self._is_global else self._main.closes_at(side.end)


@dataclass(frozen=True, slots=True)
class SideExpiry:
    """When an element of a main window is too late for its side inputs."""

    windows: Sequence[SideWindows]

    def __call__(self, main: WindowNamespace) -> int:
        """The watermark from which on one of the side windows is unreachable, microseconds UTC.

        Raises TopologyError if there is no such side window.
        """
        return min(windows.expires_at(windows.of(main)) for windows in self.windows)


def ready_delay(windowing: Windowing) -> int:
    """The time from the end of a window until it has its first pane at the latest, if it has one; microseconds.

    A window whose trigger has no on-time pane may emit its contents when it closes.
    """
    return 0 if windowing.trigger.has_ontime_pane() else windowing.allowed_lateness_us


def next_ready(windowing: Windowing, after: int) -> int | None:
    """A time not after the next `SideWindows.ready_at` of any window, and after `after`; None if there is none.

    >>> next_ready(Windowing(FixedWindows(10)), 12_000_000)
    20000000
    """
    if after >= MAX_TIMESTAMP:
        return None
    delay, window_fn = ready_delay(windowing), windowing.window_fn
    if isinstance(window_fn, GlobalWindows):
        ready = min(GlobalWindow().end_us + delay, MAX_TIMESTAMP)
        return ready if ready > after else None
    if isinstance(window_fn, (FixedWindows, SlidingWindows)):
        windows = window_fn.assign_all((max(after - delay, MIN_TIMESTAMP),), (None,))[0]
        ends = [window.end_us for window in windows]
        return min((end + delay for end in ends if end + delay > after), default=after + 1)
    return after + 1
