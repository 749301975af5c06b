"""Timers: per-key hooks on the low watermark or on wall time (MillWheel paper §4.6)."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from headrace.lowlevel.stored_names import stored_as


@stored_as("TimeDomain")
class TimeDomain(IntEnum):
    """The clock that a timer waits for.

    >>> from headrace.lowlevel import Computation
    >>> class Reminder(Computation):
    ...     def process_record(self, record, context):
    ...         context.set_timer("remind", context.wall_time + 60_000_000, TimeDomain.WALL_TIME)
    ...     def process_timer(self, timer, context):
    ...         assert timer.domain is TimeDomain.WALL_TIME
    """

    LOW_WATERMARK = 0
    """Fires when the computation's input low watermark reaches the timestamp."""
    WALL_TIME = 1
    """Fires when the wall clock reaches the timestamp."""


HOLD = 2
"""Third domain of the table of marks: holds, whose timestamps keep the output watermark back."""


def hold_tag(domain: int, tag: str) -> str:
    """The tag of a timer's hold. It begins with NUL, which the tag of a user's own hold does not.

    >>> timer_of_hold(hold_tag(TimeDomain.WALL_TIME, "minute")), timer_of_hold("mine")
    ((<TimeDomain.WALL_TIME: 1>, 'minute'), (None, 'mine'))
    """
    return f"\0{int(domain)}{tag}"


def timer_of_hold(tag: str) -> tuple[TimeDomain | None, str]:
    """The domain and tag of the timer that a hold belongs to; no domain and the tag itself for a user's own hold."""
    return (TimeDomain(int(tag[1])), tag[2:]) if tag.startswith("\0") else (None, tag)


@stored_as("Timer")
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
    """Event time of the timer's hold, which ends as the timer fires, microseconds UTC; None if it had no hold."""
