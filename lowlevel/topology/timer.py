"""Timers: per-key hooks on the low watermark or on wall time (MillWheel paper §4.6)."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class TimeDomain(IntEnum):
    """The clock that a timer waits for."""

    LOW_WATERMARK = 0
    """Fires when the computation's input low watermark reaches the timestamp."""
    WALL_TIME = 1
    """Fires when the wall clock reaches the timestamp."""


HOLD = 2
"""Third domain of the table of marks: timestamps that keep the output watermark back instead of firing."""


class Timer(NamedTuple):
    """A timer as `process_timer` sees it: its tag, the time it was set for, and the clock it waited for.

    >>> Timer("minute", 60_000_000)
    Timer(tag='minute', timestamp=60000000, domain=<TimeDomain.LOW_WATERMARK: 0>, hold=None)
    """

    tag: str
    timestamp: int
    """Microseconds UTC, in the timer's own domain."""
    domain: TimeDomain = TimeDomain.LOW_WATERMARK
    hold: int | None = None
    """The event time, microseconds UTC, at which the timer held the output watermark until now; None for no hold."""
