"""What a checkpoint knows of a step that was not recorded: open windows and waiting timers, key by key.

A checkpoint holds only what the next epoch needs: no inputs, panes or earlier watermarks.
Times are microseconds UTC.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


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
