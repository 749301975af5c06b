"""What a checkpoint knows of a step that was not recorded: open windows and waiting timers, key by key.

A checkpoint holds only what the next epoch needs: no inputs, panes or earlier watermarks.
Times are microseconds UTC.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headrace.lowlevel.checkpoint import CheckpointView
from headrace.lowlevel.checkpoint.inspection.values import StoredTimer
from headrace.lowlevel.checkpoint.manifest.fingerprint import COMPUTATION
from headrace.lowlevel.topology.timer import TimeDomain
from headrace.sdk.model.short_text import text_of
from headrace.sdk.windows.window_namespace import GLOBAL, TimerTag


@dataclass(frozen=True, slots=True)
class OpenWindow:
    """A window of a key with stored contents."""

    key: str
    start: int | None
    """None where only its end is known."""
    end: int | None
    """None for the global window."""


@dataclass(frozen=True, slots=True)
class WaitingTimer:
    """A timer of user code that has not fired."""

    key: str
    timestamp: int
    tag: str
    is_wall: bool
    """Whether it waits for the wall clock; else for the watermark."""


@dataclass(frozen=True, slots=True)
class StateSnapshot:
    """Windows and timers of one step, as of the last commit."""

    clock: int
    """The wall clock of that epoch."""
    windows: tuple[OpenWindow, ...] = ()
    timers: tuple[WaitingTimer, ...] = ()
    pending: int = 0
    """Records that were sent to the step and not yet processed."""
    oldest_pending: int | None = None
    """Their least timestamp."""
    beyond: int = 0
    """Windows and timers that were counted but not listed."""

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> StateSnapshot:
        """The snapshot of a `dataclasses.asdict`. Raises KeyError or TypeError for malformed input."""
        windows = tuple(OpenWindow(**its) for its in fields["windows"])
        timers = tuple(WaitingTimer(**its) for its in fields["timers"])
        return cls(**{**fields, "windows": windows, "timers": timers})

    def keys(self) -> list[str]:
        """Every key, the one with most windows and timers first."""
        counts = Counter(window.key for window in self.windows) + Counter(timer.key for timer in self.timers)
        return sorted(counts, key=lambda key: (-counts[key], key))


def has_windows(view: CheckpointView, name: str) -> bool:
    """Whether a computation is a grouping or a `DoFn` with state, whose timers have tags that name windows."""
    assert view.manifest is not None, "something is committed"
    member = view.manifest.topology.of_kind(COMPUTATION).get(name)
    return member is not None and "windows" in dict(member.signature)


def window_or_timer(timer: StoredTimer, has_windows: bool) -> OpenWindow | WaitingTimer:
    """The window whose end a timer waits for, or the timer itself if user code set it.

    >>> from dataclasses import replace
    >>> end = StoredTimer("Sum", "red", "0:60000000", TimeDomain.LOW_WATERMARK, 60_000_000)
    >>> window_or_timer(end, True)
    OpenWindow(key='red', start=0, end=60000000)
    >>> window_or_timer(replace(end, tag="t0:60000000 4:idle"), True)
    WaitingTimer(key='red', timestamp=60000000, tag='idle', is_wall=False)
    """
    key, tag, is_wall = text_of(timer.key), timer.tag, timer.domain is TimeDomain.WALL_TIME
    if has_windows:
        parts = TimerTag.parse(tag)
        if parts.name is not None:
            tag = f"{parts.name} {parts.dynamic_tag}".strip()
        elif (interval := parts.interval()) is not None or parts.window == GLOBAL:
            if not is_wall:
                return OpenWindow(key, *(interval or (None, None)))
            tag = "trigger"
    return WaitingTimer(key, timer.timestamp, text_of(tag), is_wall)
