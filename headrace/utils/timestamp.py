"""Under the name that Beam programs import: instants and lengths of time."""

from headrace.lowlevel.time import MAX_TIMESTAMP as _LAST
from headrace.lowlevel.time import MIN_TIMESTAMP as _FIRST
from headrace.lowlevel.time import Duration, DurationTypes, Timestamp, TimestampTypes

__all__ = ["MAX_TIMESTAMP", "MIN_TIMESTAMP", "Duration", "DurationTypes", "Timestamp", "TimestampTypes"]

MIN_TIMESTAMP = Timestamp(micros=_FIRST)
"""Before every event."""
MAX_TIMESTAMP = Timestamp(micros=_LAST)
"""After every event."""
