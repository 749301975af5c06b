"""Where: which window of a side input belongs to a window of the main input, and for how long it matters."""

from __future__ import annotations

from headrace.lowlevel.errors import TopologyError
from headrace.lowlevel.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from headrace.sdk.frames import Frame, Frames
from headrace.sdk.statesignature import window_kind
from headrace.sdk.windowing import Windowing
from headrace.sdk.windows import BoundedWindow, FixedWindows, GlobalWindow, GlobalWindows, SlidingWindows


class SideWindows:
    """The windows of a side input as elements in the windows of a main input look at them.

    Args:
        side: The windowing of the side input.
        main: The windowing of the main input.

    >>> mapping = SideWindows(Windowing(FixedWindows(60)), Windowing(FixedWindows(10)))
    >>> main = mapping.main_frames.of_interval(50_000_000, 60_000_000)
    >>> mapping.of(main).window
    [0.0, 60.0)
    """

    def __init__(self, side: Windowing, main: Windowing) -> None:
        self._side, self._main = side, main
        self.frames = Frames(side)
        self.main_frames = Frames(main)
        self._ready_delay = ready_delay(side)
        self._is_global = isinstance(side.window_fn, GlobalWindows)

    def __reduce__(self) -> tuple[object, ...]:
        return SideWindows, (self._side, self._main)

    def kinds(self) -> str:
        """What kinds of windows they are, of the side input and of the main input."""
        return f"{window_kind(self._side.window_fn)} beside {window_kind(self._main.window_fn)}"

    def of(self, main: Frame) -> Frame:
        """The side window of a main window: the (last named) one that its last instant is in."""
        window_fn = self._side.window_fn
        if self._is_global:
            return self.frames.of_window(GlobalWindow())
        windows = window_fn.assign_all((main.last,), (None,), (main.window,))[0]
        if not windows:
            raise TopologyError(
                f"{window_fn} have no window around the end of {main.window}, so elements in that window have no side "
                "input; give the side input windows that leave no gaps"
            )
        return self.frames.of_window(windows[-1])

    def ready_at(self, side: Frame) -> int:
        """The watermark of the side input at which a window without a pane is known to be empty; microseconds UTC."""
        return min(side.end + self._ready_delay, MAX_TIMESTAMP)

    def expires_at(self, side: Frame) -> int:
        """The watermark of the main input at which no window of its that is still open belongs to a side window."""
        return MAX_TIMESTAMP if self._is_global else self._main.closes_at(side.end)


def ready_delay(windowing: Windowing) -> int:
    """How long after its end a window surely has its first pane, if it has any; microseconds.

    A trigger that does not fire at the end of the window leaves what it holds to the closing.
    """
    return 0 if windowing.trigger.has_ontime_pane() else windowing.allowed_lateness_us


def next_ready(windowing: Windowing, after: int) -> int | None:
    """An instant before or at the next `SideWindows.ready_at` of any window; None if there is none any more.

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
        ends = _ends(window_fn.assign_all((max(after - delay, MIN_TIMESTAMP),), (None,))[0])
        return min((end + delay for end in ends if end + delay > after), default=after + 1)
    return after + 1


def _ends(windows: tuple[BoundedWindow, ...]) -> list[int]:
    return [window.end_us for window in windows]
