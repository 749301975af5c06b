"""When: the clocks that a `DoFn`'s timers wait for (`apache_beam.transforms.timeutil.TimeDomain`)."""

from __future__ import annotations

from enum import StrEnum

from headrace.lowlevel.timer import TimeDomain as Clock


class TimeDomain(StrEnum):
    """A clock, under Beam's names.

    >>> TimeDomain.from_string("WATERMARK"), TimeDomain.is_event_time(TimeDomain.REAL_TIME)
    (<TimeDomain.WATERMARK: 'WATERMARK'>, False)
    """

    WATERMARK = "WATERMARK"
    """Event time: the step's input watermark."""
    REAL_TIME = "REAL_TIME"
    """Processing time: the wall clock."""

    @staticmethod
    def from_string(domain: str) -> TimeDomain:
        """The domain of a name; raises `ValueError` for one that there is not."""
        try:
            return TimeDomain(domain)
        except ValueError:
            names = ", ".join(TimeDomain)
            raise ValueError(f"unknown time domain {domain!r:.80}; use TimeDomain.{names}") from None

    @staticmethod
    def is_event_time(domain: str) -> bool:
        """Whether it is the watermark's."""
        return TimeDomain.from_string(domain) is TimeDomain.WATERMARK

    @property
    def clock(self) -> Clock:
        """What the low level calls it."""
        return Clock.LOW_WATERMARK if self is TimeDomain.WATERMARK else Clock.WALL_TIME
