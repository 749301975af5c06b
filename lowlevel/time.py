"""One time: whole microseconds UTC, with named ends. Beam's limits (`apache_beam.utils.timestamp`)."""

from __future__ import annotations

MIN_TIMESTAMP = -9_223_372_036_854_775_000
"""Before every event; a watermark that nothing is known of yet."""
MAX_TIMESTAMP = 9_223_372_036_854_775_000
"""After every event; the watermark of input that has ended."""
END_OF_GLOBAL_WINDOW = MAX_TIMESTAMP - 86_400_000_000
"""The last instant of the global window: a day before the end of time, as in Beam."""
SECOND = 1_000_000
"""Microseconds in a second."""
