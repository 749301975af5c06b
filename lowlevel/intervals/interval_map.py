"""Key intervals: which task owns which keys, and how ownership changes during a run (MillWheel paper §7.1).

The first 8 bytes of a key's 16-byte hash are its position in the key space, an unsigned 64-bit integer. The intervals
of a level divide the key space. Each interval has an owner, the one task of the level that processes its keys.
Intervals can be split, merged and moved between two epochs. A changed interval gets a new sequencer, and an interval
with new bounds gets a number that is greater than all numbers in use.

A whole map is few numbers: runs of intervals that divide the key space evenly, and the intervals between them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

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


__all__ = ["SPACE", "Interval", "IntervalMap", "key_position"]


def key_position(key_hash: bytes) -> int:
    """The position of a key hash in the key space: its first 8 bytes, big-endian.

    >>> hex(key_position(bytes.fromhex("80" + 15 * "00")))
    '0x8000000000000000'
    """
    return int.from_bytes(key_hash[:8], "big")


def positions_in(key_hashes: bytes) -> NDArray[np.uint64]:
    """The positions of several 16-byte key hashes, one behind the other.

    >>> positions_in(bytes(16) + bytes([255]) * 16).tolist() == [0, 2**64 - 1]
    True
    """
    return np.frombuffer(key_hashes, ">u8")[::2].astype(np.uint64)


@dataclass(frozen=True)
class IntervalMap:
    """The intervals of one level, in order of their ranges. They cover the key space without overlap.

    Raises:
        ValueError: Intervals overlap, leave a gap, are empty, or have the same number.

    >>> halves = IntervalMap.evenly(2)
    >>> thirds = halves.split(1, 3 * 2**62, owner=0, sequencer=Sequencer(1, 7))
    >>> [(interval.number, interval.owner) for interval in thirds]
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
        empty = any(interval.start >= interval.stop for interval in self.intervals)
        if not in_order or empty or len(numbers) < len(starts):
            raise ValueError(
                f"{self.intervals} is no map of the key space; intervals need different numbers, and each must begin "
                "where the interval before it ends"
            )

    @classmethod
    def evenly(cls, count: int, sequencer: Sequencer = NO_SEQUENCER, first: int = 0) -> IntervalMap:
        """Divide the space into `count` intervals of equal size (to within one), each with an owner of its own.

        Numbers start with `first`, owners with 0. Raises ValueError for a `count` below 1.

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
        """The interval with this number. Raises KeyError."""
        return self._by_number[number]

    def of(self, key_hash: bytes) -> Interval:
        """The interval that contains a key hash."""
        return self.intervals[self.index_of(key_hash)]

    def index_of(self, key_hash: bytes) -> int:
        """Index in `intervals` of the interval that contains a key hash."""
        return bisect_right(self._starts, int.from_bytes(key_hash[:8], "big")) - 1

    def indices_of(self, key_hashes: bytes) -> NDArray[np.intp]:
        """`index_of` of each of several 16-byte key hashes, one behind the other.

        >>> IntervalMap.evenly(2).indices_of(bytes(16) + bytes([255]) * 16).tolist()
        [0, 1]
        """
        return np.searchsorted(self._start_column, positions_in(key_hashes), side="right") - 1

    def owned(self, owner: int) -> tuple[Interval, ...]:
        """The intervals of a task."""
        return self._by_owner.get(owner, ())

    @cached_property
    def numbers(self) -> NDArray[np.int64]:
        """The number of each interval, in order of the ranges."""
        return np.array([interval.number for interval in self.intervals], np.int64)

    def of_one_owner(self) -> IntervalMap:
        """The same intervals, all owned by task 0."""
        return IntervalMap(tuple(interval._replace(owner=0) for interval in self.intervals))

    @property
    def tasks(self) -> int:
        """The least number of tasks that the owners need."""
        return 1 + max(interval.owner for interval in self.intervals)

    @property
    def unused(self) -> int:
        """The least number above all interval numbers in use."""
        return 1 + max(interval.number for interval in self.intervals)

    def split(self, number: int, at: int, owner: int, sequencer: Sequencer) -> IntervalMap:
        """Split an interval; the part from position `at` of the key space on gets the owner `owner`.

        Raises KeyError for an unknown number, ValueError if `at` is not inside the interval.
        """
        old = self[number]
        if not old.start < at < old.stop:
            raise ValueError(
                f"interval {number} cannot be split at {at}; give a position between {old.start} and {old.stop}"
            )
        left = Interval(self.unused, old.start, at, old.owner, sequencer)
        return self._with({number: (left, Interval(self.unused + 1, at, old.stop, owner, sequencer))})

    def merge(self, number: int, owner: int, sequencer: Sequencer) -> IntervalMap:
        """Merge the interval with this number and the one behind it.

        Raises KeyError for an unknown number, ValueError for the last interval.
        """
        left, right = self[number], self._behind(number)
        merged = Interval(self.unused, left.start, right.stop, owner, sequencer)
        return self._with({number: (merged,), right.number: ()})

    def _behind(self, number: int) -> Interval:
        stop = self[number].stop
        if stop == SPACE:
            raise ValueError(f"interval {number} is the last; merge the interval before it")
        return next(interval for interval in self.intervals if interval.start == stop)

    def move(self, number: int, owner: int, sequencer: Sequencer) -> IntervalMap:
        """Give one interval another owner; bounds and number stay. Raises KeyError for an unknown number."""
        return self._with({number: (self[number]._replace(owner=owner, sequencer=sequencer),)})

    def renumbered(self, sequencer: Sequencer) -> IntervalMap:
        """The same ranges and owners with new numbers, so that they do not share files with the old intervals."""
        first = self.unused
        return IntervalMap(
            tuple(old._replace(number=first + n, sequencer=sequencer) for n, old in enumerate(self.intervals))
        )

    def taken_over(self, sequencer: Sequencer) -> IntervalMap:
        """The same intervals with a new driver's sequencer, which makes reports of the old driver's tasks stale."""
        return IntervalMap(tuple(interval._replace(sequencer=sequencer) for interval in self.intervals))

    def _with(self, changed: dict[int, tuple[Interval, ...]]) -> IntervalMap:
        parts = (changed.get(interval.number, (interval,)) for interval in self.intervals)
        return IntervalMap(tuple(interval for part in parts for interval in part))

    @cached_property
    def _start_column(self) -> NDArray[np.uint64]:
        return np.array(self._starts, np.uint64)

    @cached_property
    def _by_number(self) -> dict[int, Interval]:
        return {interval.number: interval for interval in self.intervals}

    @cached_property
    def _by_owner(self) -> dict[int, tuple[Interval, ...]]:
        owned: dict[int, list[Interval]] = {}
        for interval in self.intervals:
            owned.setdefault(interval.owner, []).append(interval)
        return {owner: tuple(intervals) for owner, intervals in owned.items()}

    @cached_property
    def _runs(self) -> tuple[IntervalRun | Interval, ...]:
        return runs_of(self.intervals)

    def __reduce__(self) -> tuple[Callable[[Runs], IntervalMap], tuple[Runs]]:
        # A map is sent with every control message: as runs it is small, and a process makes it only once.
        return _map_of, (self._runs,)


Runs = tuple[IntervalRun | Interval, ...]


@lru_cache(maxsize=256)
def _map_of(runs: Runs) -> IntervalMap:
    return IntervalMap(tuple(intervals_of(runs)))
