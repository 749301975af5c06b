"""When: the clocks that a `DoFn`'s timers wait for (`apache_beam.transforms.timeutil.TimeDomain`)."""

from __future__ import annotations

from enum import StrEnum

from headrace.lowlevel.stored_names import stored_as
from headrace.lowlevel.topology.timer import TimeDomain as Clock


@stored_as("DoFnTimeDomain")
class TimeDomain(StrEnum):
    """The clock that a timer waits for, under Beam's names.

    >>> TimeDomain.from_string("WATERMARK"), TimeDomain.is_event_time(TimeDomain.REAL_TIME)
    (<TimeDomain.WATERMARK: 'WATERMARK'>, False)
    """

    WATERMARK = "WATERMARK"
    """Event time: the step's input watermark."""
    REAL_TIME = "REAL_TIME"
    """Processing time: the wall clock."""

    @staticmethod
    def from_string(domain: str) -> TimeDomain:
        """The domain with a name. Raises `ValueError` for an unknown name."""
        try:
            return TimeDomain(domain)
        except ValueError:
            names = ", ".join(TimeDomain)
            raise ValueError(f"unknown time domain {domain!r:.80}; use TimeDomain.{names}") from None

    @staticmethod
    def is_event_time(domain: str) -> bool:
        """Whether the domain is event time. Raises `ValueError` for an unknown name."""
        return TimeDomain.from_string(domain) is TimeDomain.WATERMARK

    @property
    def clock(self) -> Clock:
        """The corresponding clock of the low level."""
        return Clock.LOW_WATERMARK if self is TimeDomain.WATERMARK else Clock.WALL_TIME
