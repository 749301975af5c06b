"""Where: which windows become one (Streaming 102, figure 16)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, cast

from headrace.lowlevel.errors import HeadraceError
from headrace.sdk.frames import Frame, Frames
from headrace.sdk.windows import BoundedWindow, IntervalWindow, MergeContext, Sessions, WindowFn


class Merged(NamedTuple):
    """A window that stands for others."""

    frame: Frame
    parts: list[Frame]
    """The windows it was made of; itself alone if nothing was merged."""


class MergeError(HeadraceError, ValueError):
    """A window function merged windows in a way that does not fit together. Nothing of this epoch is committed."""


def merge_windows(window_fn: WindowFn, frames: Frames, windows: Sequence[Frame]) -> list[Merged]:
    """What the windows, all different, become.

    >>> from headrace.sdk.windowing import Windowing
    >>> from headrace.sdk.windows import IntervalWindow
    >>> frames = Frames(Windowing(Sessions(5)))
    >>> windows = [frames.of_window(IntervalWindow(start, start + 5)) for start in (3, 20, 0)]
    >>> [merged.frame.window for merged in merge_windows(Sessions(5), frames, windows)]
    [[0.0, 8.0), [20.0, 25.0)]
    """
    if len(windows) == 1:
        return [Merged(windows[0], list(windows))]
    if type(window_fn) is Sessions:
        return _merge_overlapping(frames, windows)
    recorder = _Recorder(window_fn, frames, windows)
    window_fn.merge(recorder)
    return recorder.merged()


def _merge_overlapping(frames: Frames, windows: Sequence[Frame]) -> list[Merged]:
    """`Sessions.merge`, on microseconds."""
    merged: list[Merged] = []
    ordered = sorted((cast(IntervalWindow, frame.window).start_us, frame.end, frame) for frame in windows)
    begin, until, run = 0, 0, list[Frame]()
    for start, end, frame in ordered:
        if run and start >= until:
            merged.append(_stretch(frames, begin, until, run))
            run = []
        begin, until = (begin, max(until, end)) if run else (start, end)
        run.append(frame)
    merged.append(_stretch(frames, begin, until, run))
    return merged


def _stretch(frames: Frames, start: int, end: int, run: list[Frame]) -> Merged:
    return Merged(run[0] if len(run) == 1 else frames.of_interval(start, end), run)


class _Recorder(MergeContext):
    """Notes what a window function merges."""

    def __init__(self, window_fn: WindowFn, frames: Frames, windows: Sequence[Frame]) -> None:
        super().__init__([frame.window for frame in windows])
        self._window_fn = window_fn
        self._frames = frames
        self._groups = {frame.code: Merged(frame, [frame]) for frame in windows}

    def merge(self, to_be_merged: Iterable[BoundedWindow], merge_result: BoundedWindow) -> None:
        """Put the groups of some windows together; the result may have been among them."""
        parts: list[Frame] = []
        for window in to_be_merged:
            group = self._groups.pop(self._frames.of_window(window).code, None)
            if group is None:
                raise MergeError(
                    f"{self._window_fn} merged window {window} into {merge_result}, but there is no such window, or it "
                    "was merged before; merge each of context.windows at most once"
                )
            parts += group.parts
        result = self._frames.of_window(merge_result)
        if result.code in self._groups:
            raise MergeError(
                f"{self._window_fn} merged windows into {merge_result}, which stays a window of its own; "
                "put it among those to be merged"
            )
        self._groups[result.code] = Merged(result, parts)

    def merged(self) -> list[Merged]:
        """The windows that are left."""
        return list(self._groups.values())
