"""A key interval: a range of the key space with its owner (MillWheel paper §7.1)."""

from __future__ import annotations

from typing import NamedTuple

from headrace.lowlevel.intervals.sequencer import NO_SEQUENCER, Sequencer

SPACE = 1 << 64
"""Size of the key space."""


class Interval(NamedTuple):
    """A half-open range of the key space, with its owner. Persisted: every field."""

    number: int
    """Unique among the intervals of the level; an interval with new bounds has a new number."""
    start: int
    stop: int
    owner: int = 0
    """Index of the task that processes the interval, from 0."""
    sequencer: Sequencer = NO_SEQUENCER
    """Changes whenever the owner, the bounds or the driver change."""

    def overlaps(self, other: Interval) -> bool:
        """Whether the two intervals overlap.

        >>> Interval(0, 0, 5).overlaps(Interval(1, 5, 9))
        False
        """
        return self.start < other.stop and other.start < self.stop
