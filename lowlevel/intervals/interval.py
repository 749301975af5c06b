"""Key intervals: ranges of the key space with their owners (MillWheel paper §7.1).

A whole map is few numbers: runs of intervals that divide the key space evenly, and the intervals between them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
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


class IntervalRun(NamedTuple):
    """Neighbours with consecutive numbers and owners, and one sequencer, out of `parts` even parts of the key space."""

    parts: int
    first: int
    """Number of the first one's part, from 0."""
    length: int
    """Number of intervals."""
    number: int
    owner: int
    sequencer: Sequencer

    def interval(self, offset: int) -> Interval:
        """One of the intervals."""
        part = self.first + offset
        start, stop = part * SPACE // self.parts, (part + 1) * SPACE // self.parts
        return Interval(self.number + offset, start, stop, self.owner + offset, self.sequencer)


def runs_of(intervals: Sequence[Interval]) -> tuple[IntervalRun | Interval, ...]:
    """The runs of neighbouring intervals, and the intervals that belong to none.

    >>> quarters = [Interval(n, n * SPACE // 4, (n + 1) * SPACE // 4, n) for n in range(4)]
    >>> len(runs_of(quarters)), list(intervals_of(runs_of(quarters))) == quarters
    (1, True)
    """
    runs: list[IntervalRun | Interval] = []
    at = 0
    while at < len(intervals):
        run = _run_at(intervals, at)
        runs.append(intervals[at] if run is None else run)
        at += 1 if run is None else run.length
    return tuple(runs)


def intervals_of(runs: Iterable[IntervalRun | Interval]) -> Iterator[Interval]:
    """The intervals of which `runs_of` made the runs."""
    for run in runs:
        if isinstance(run, Interval):
            yield run
        else:
            yield from map(run.interval, range(run.length))


def _run_at(intervals: Sequence[Interval], at: int) -> IntervalRun | None:
    """The longest run that begins with this interval; None if there is none of two or more."""
    number, start, stop, owner, sequencer = intervals[at]
    width = stop - start
    count = (SPACE + width // 2) // width
    run = IntervalRun(count, -(-start * count // SPACE), 0, number, owner, sequencer)
    length = 0
    while at + length < len(intervals) and intervals[at + length] == run.interval(length):
        length += 1
    return run._replace(length=length) if length > 1 else None
