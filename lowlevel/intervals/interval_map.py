"""Key intervals: who works on which keys, and how that changes while a topology runs (MillWheel paper §7.1).

A key's row (16 bytes of hash) has its place in a 64-bit space by its first 8 bytes. The intervals of a level divide
that space; each has an owner, one task of the level, which works on it alone. They can be split, merged and moved
between two epochs. Whatever changes gets a new sequencer, and new bounds a number that no interval of the level had.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headrace.lowlevel.sequencer import NO_SEQUENCER, Sequencer

SPACE = 1 << 64
"""Number of places that a key's row can have."""


class Interval(NamedTuple):
    """A half-open range of the 64-bit key space. Persisted: every field."""

    number: int
    """Its own among all intervals that its level ever had."""
    start: int
    stop: int
    owner: int = 0
    """The task of its level that works on it."""
    sequencer: Sequencer = NO_SEQUENCER
    """New whenever the interval has a new owner or new bounds, or its driver is a new one."""

    def overlaps(self, other: Interval) -> bool:
        """Whether the two have a place in common.

        >>> Interval(0, 0, 5).overlaps(Interval(1, 5, 9))
        False
        """
        return self.start < other.stop and other.start < self.stop


Wants = Callable[[Interval], bool]
"""Whether records for an interval are sent on; where they are not, somebody else sends them."""


def everything(interval: Interval) -> bool:
    """See `Wants`: there is nobody else.

    >>> everything(Interval(0, 0, SPACE))
    True
    """
    return True


def place_of(row: bytes) -> int:
    """The place of a key's row in the key space.

    >>> hex(place_of(bytes.fromhex("80" + 15 * "00")))
    '0x8000000000000000'
    """
    return int.from_bytes(row[:8], "big")


@dataclass(frozen=True)
class IntervalMap:
    """The intervals of one level, in order of their ranges: together they cover the whole space, without overlap.

    >>> halves = IntervalMap.evenly(2)
    >>> thirds = halves.split(1, 3 * 2**62, owner=0, sequencer=Sequencer(1, 7))
    >>> [(one.number, one.owner) for one in thirds]
    [(0, 0), (2, 1), (3, 0)]
    >>> thirds.of(bytes.fromhex("c0" + 15 * "00")).number
    3
    """

    intervals: tuple[Interval, ...]
    _starts: list[int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        starts = [interval.start for interval in self.intervals]
        object.__setattr__(self, "_starts", starts)
        numbers = {interval.number for interval in self.intervals}
        in_order = [0, *(interval.stop for interval in self.intervals)] == [*starts, SPACE]
        if not in_order or len(numbers) < len(starts) or any(one.start >= one.stop for one in self.intervals):
            raise ValueError(
                f"{self.intervals} is no map of the key space; intervals need numbers of their own, and each must "
                "begin where the one before it ends"
            )

    @classmethod
    def evenly(cls, count: int, sequencer: Sequencer = NO_SEQUENCER, first: int = 0) -> IntervalMap:
        """The whole space as `count` intervals of equal size (to within one place), each with an owner of its own.

        >>> [interval.stop - interval.start == 2**62 for interval in IntervalMap.evenly(4)]
        [True, True, True, True]
        """
        if count < 1:
            raise ValueError(f"the key space cannot be split into {count} intervals; give 1 or more")
        bounds = [index * SPACE // count for index in range(count + 1)]
        return cls(tuple(Interval(first + i, bounds[i], bounds[i + 1], i, sequencer) for i in range(count)))

    def __iter__(self) -> Iterator[Interval]:
        return iter(self.intervals)

    def __len__(self) -> int:
        return len(self.intervals)

    def __getitem__(self, number: int) -> Interval:
        """The interval of that number; raises KeyError."""
        for interval in self.intervals:
            if interval.number == number:
                return interval
        raise KeyError(number)

    def of(self, row: bytes) -> Interval:
        """The interval that a key's row lies in."""
        return self.intervals[self.position_of(row)]

    def position_of(self, row: bytes) -> int:
        """Where in `intervals` the one is that a key's row lies in."""
        return bisect_right(self._starts, int.from_bytes(row[:8], "big")) - 1

    def positions_of(self, rows: Sequence[bytes]) -> NDArray[np.intp]:
        """`position_of` of each row.

        >>> IntervalMap.evenly(2).positions_of([bytes(16), bytes([255]) * 16]).tolist()
        [0, 1]
        """
        places = np.frombuffer(b"".join([row[:8] for row in rows]), ">u8").astype(np.uint64)
        return np.searchsorted(np.array(self._starts, np.uint64), places, side="right") - 1

    def owned(self, owner: int) -> tuple[Interval, ...]:
        """The intervals that a task works on."""
        return tuple(interval for interval in self.intervals if interval.owner == owner)

    @property
    def tasks(self) -> int:
        """How many tasks are needed at least."""
        return 1 + max(interval.owner for interval in self.intervals)

    @property
    def unused(self) -> int:
        """A number above all that are in use: nothing of an interval that is gone has it."""
        return 1 + max(interval.number for interval in self.intervals)

    def split(self, number: int, at: int, owner: int, sequencer: Sequencer) -> IntervalMap:
        """Two intervals instead of one; the part from place `at` on goes to `owner`. Raises ValueError."""
        old = self[number]
        if not old.start < at < old.stop:
            raise ValueError(
                f"interval {number} cannot be split at {at}; give a place between {old.start} and {old.stop}"
            )
        kept = Interval(self.unused, old.start, at, old.owner, sequencer)
        return self._with({number: (kept, Interval(self.unused + 1, at, old.stop, owner, sequencer))})

    def merge(self, number: int, owner: int, sequencer: Sequencer) -> IntervalMap:
        """One interval instead of two: that of the given number and the one behind it. Raises ValueError."""
        one, other = self[number], self._behind(number)
        merged = Interval(self.unused, one.start, other.stop, owner, sequencer)
        return self._with({number: (merged,), other.number: ()})

    def _behind(self, number: int) -> Interval:
        stop = self[number].stop
        if stop == SPACE:
            raise ValueError(f"interval {number} is the last; merge the one before it")
        return next(interval for interval in self.intervals if interval.start == stop)

    def move(self, number: int, owner: int, sequencer: Sequencer) -> IntervalMap:
        """The same intervals, one with another owner."""
        return self._with({number: (self[number]._replace(owner=owner, sequencer=sequencer),)})

    def renumbered(self, sequencer: Sequencer) -> IntervalMap:
        """The same ranges and owners under new numbers: what is stored for the old ones is not theirs."""
        first = self.unused
        return IntervalMap(
            tuple(one._replace(number=first + n, sequencer=sequencer) for n, one in enumerate(self.intervals))
        )

    def taken_over(self, sequencer: Sequencer) -> IntervalMap:
        """The same intervals under a new driver: reports of tasks that the old one started are stale."""
        return IntervalMap(tuple(interval._replace(sequencer=sequencer) for interval in self.intervals))

    def _with(self, changed: dict[int, tuple[Interval, ...]]) -> IntervalMap:
        parts = (changed.get(interval.number, (interval,)) for interval in self.intervals)
        return IntervalMap(tuple(interval for part in parts for interval in part))

    def __reduce__(self) -> tuple[Callable[[tuple[Interval, ...]], IntervalMap], tuple[tuple[Interval, ...]]]:
        # It travels with every control row: what can be made again is left out.
        return IntervalMap, (self.intervals,)
