"""Exports, under the module name of Beam, timestamps and durations."""

from headrace.lowlevel.time import MAX_TIMESTAMP as _LAST
from headrace.lowlevel.time import MIN_TIMESTAMP as _FIRST
from headrace.lowlevel.time import Duration, DurationTypes, Timestamp, TimestampTypes

__all__ = ["MAX_TIMESTAMP", "MIN_TIMESTAMP", "Duration", "DurationTypes", "Timestamp", "TimestampTypes"]

MIN_TIMESTAMP = Timestamp(micros=_FIRST)
"""The least timestamp, before every event."""
MAX_TIMESTAMP = Timestamp(micros=_LAST)
"""The greatest timestamp, after every event."""
