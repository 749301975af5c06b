"""What a checkpoint knows of a step that nobody recorded: open windows and timers that wait, key by key.

Inputs, panes and earlier watermarks are gone when they are done with; what is left is what the next epoch needs.
Times are microseconds UTC.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class OpenWindow:
    """A window of a key that holds something."""

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
class Standing:
    """Of one step, as of the last commit."""

    clock: int
    """The wall clock of that epoch."""
    windows: tuple[OpenWindow, ...] = ()
    timers: tuple[WaitingTimer, ...] = ()
    pending: int = 0
    """Records on their way to the step."""
    oldest_pending: int | None = None
    """The least timestamp of them."""
    beyond: int = 0
    """Windows and timers that were only counted."""

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Standing:
        """Back from `dataclasses.asdict`; raises whatever, for what is none."""
        windows = tuple(OpenWindow(**its) for its in told["windows"])
        timers = tuple(WaitingTimer(**its) for its in told["timers"])
        return cls(**{**told, "windows": windows, "timers": timers})

    def keys(self) -> list[str]:
        """Every key, the one with most windows and timers first."""
        counts = Counter(window.key for window in self.windows) + Counter(timer.key for timer in self.timers)
        return sorted(counts, key=lambda key: (-counts[key], key))
