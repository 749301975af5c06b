"""The interval map of low watermarks of one computation (MillWheel paper §7.2).

Columns instead of an object an interval, and the least value of every block of them: as values never go back, a report
can only change the least of its block if it comes from the interval that has it. So a report costs the same however
many intervals there are, and asking for the low watermark means looking at a few blocks.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from headrace.lowlevel.intervals import SPACE
from headrace.lowlevel.sequencer import Sequencer
from headrace.lowlevel.time import MAX_TIMESTAMP, MIN_TIMESTAMP

Values = npt.NDArray[np.int64]
"""Low watermarks, microseconds UTC."""
_Places = npt.NDArray[np.uint64]

_BLOCK = 512
"""Intervals a block: few enough that looking for their least value takes a microsecond or two."""
_EPOCHS = 1 << 40
_GENERATIONS = 1 << 23
_RUNS, _PLAIN = b"R", b"P"
"""Forms of a journal part."""


class Range(Protocol):
    """An interval as far as the authority is concerned."""

    @property
    def number(self) -> int:
        """By which reports name it."""

    @property
    def start(self) -> int:
        """Its first place in the key space."""

    @property
    def stop(self) -> int:
        """The place behind its last."""


class WatermarkMap:
    """Values and owners of the intervals that divide the key space, in order of their ranges.

    Raises ValueError for intervals that leave out a part of the key space, or have one twice.
    """

    def __init__(self, computation: str, intervals: Iterable[Range], sequencer: Sequencer) -> None:
        ordered = sorted(intervals, key=lambda interval: interval.start)
        _check_cover(computation, ordered)
        count = len(ordered)
        self._numbers = np.fromiter((interval.number for interval in ordered), np.int64, count)
        self._starts = np.fromiter((interval.start for interval in ordered), np.uint64, count)
        self._first = int(self._numbers.min())
        # A table: at random places of a large dictionary a look-up takes three times as long.
        self._places = np.full(int(self._numbers.max()) - self._first + 1, -1, np.int32)
        self._places[self._numbers - self._first] = np.arange(count)
        if (self._places >= 0).sum() < count:
            raise ValueError(f"two intervals of {computation!r} have the same number; give each its own")
        self._owners = np.full(count, _packed(sequencer), np.int64)
        padded = np.full(-(-count // _BLOCK) * _BLOCK, MAX_TIMESTAMP, np.int64)
        self.values: Values = padded[:count]
        """By place, that is in order of ranges."""
        self.values[:] = MIN_TIMESTAMP
        self._blocks = padded.reshape(-1, _BLOCK)
        self._minima = self._blocks.min(axis=1)
        self._risen: set[int] = set()
        """Blocks whose least value may have risen."""
        self._least = MIN_TIMESTAMP

    def __len__(self) -> int:
        return len(self._numbers)

    def report(self, number: int, sequencer: Sequencer, value: int) -> bool:
        """Take an owner's value; False if there is no such interval, or it has had a later owner."""
        offset, packed = number - self._first, _packed(sequencer)
        place = self._places[offset] if 0 <= offset < len(self._places) else -1
        if place < 0 or packed < (owner := self._owners[place]):
            return False
        if packed > owner:
            self._owners[place] = packed
        before = self.values[place]
        if value > before:
            self.values[place] = value
            if before == self._minima[place // _BLOCK]:
                self._risen.add(place // _BLOCK)
        return True

    def report_all(self, numbers: Sequence[int] | Values, sequencer: Sequencer, values: Sequence[int] | Values) -> int:
        """`report` for many intervals of one owner; how many were refused."""
        places = self._places_of(np.asarray(numbers, np.int64))
        news = np.asarray(values, np.int64)
        packed = _packed(sequencer)
        valid = (places >= 0) & (self._owners[places] <= packed)
        if not valid.all():
            places, news = places[valid], news[valid]
        self._owners[places] = packed
        np.maximum.at(self.values, places, news)
        self._risen.update(np.unique(places // _BLOCK).tolist())
        return len(valid) - len(places)

    def least(self) -> int:
        """The low watermark: the least value of all."""
        if self._risen:
            blocks = list(self._risen)
            self._minima[blocks] = self._blocks[blocks].min(axis=1)
            self._risen.clear()
            self._least = int(self._minima.min())
        return self._least

    def take_over(self, old: WatermarkMap) -> None:
        """Take the values of the map before: of the intervals that one overlaps, the least."""
        places = np.append(self._starts, np.uint64(SPACE - 1))
        first = np.searchsorted(old._starts, places[:-1], side="right") - 1
        # Behind the last interval that begins before this one's end.
        behind = np.append(np.searchsorted(old._starts, places[1:-1], side="left"), len(old))
        # One more than there are: `reduceat` wants to be able to look at the end of the last stretch.
        values = np.append(old.values, MAX_TIMESTAMP)
        self._set(np.minimum.reduceat(values, np.column_stack([first, behind]).ravel())[::2])

    def stale(self, sequencer: Sequencer) -> bool:
        """Whether some interval has had an owner later than this."""
        return bool((self._owners > _packed(sequencer)).any())

    def by_number(self) -> dict[int, int]:
        """Interval -> value."""
        return dict(zip(self._numbers.tolist(), self.values.tolist(), strict=True))

    def encode(self) -> bytes:
        """The values, in order of the ranges: as runs of equal ones if that is shorter."""
        starts = np.flatnonzero(np.diff(self.values, prepend=~self.values[:1]))
        if 2 * len(starts) >= len(self):
            return _PLAIN + struct.pack("<q", len(self)) + self.values.astype("<i8").tobytes()
        lengths = np.diff(starts, append=len(self))
        return _RUNS + struct.pack("<q", len(self)) + np.append(lengths, self.values[starts]).astype("<i8").tobytes()

    def restore(self, computation: str, part: bytes) -> None:
        """Take the values that `encode` wrote for as many intervals. Raises ValueError."""
        values = decoded(part)
        if len(values) != len(self):
            raise ValueError(
                f"the journal has watermarks of {len(values)} intervals of {computation!r}, which has {len(self)}; "
                "restore it with the intervals that were committed with it"
            )
        self._set(values)

    def _set(self, values: Values) -> None:
        self.values[:] = values
        self._risen.update(range(len(self._minima)))

    def _places_of(self, numbers: Values) -> Values:
        """Places of intervals; -1 for one that is not there."""
        offsets = numbers - self._first
        known = (offsets >= 0) & (offsets < len(self._places))
        return np.where(known, self._places[np.where(known, offsets, 0)], -1)


def decoded(part: bytes) -> Values:
    """The values of a part of the journal, in order of the intervals' ranges. Raises ValueError.

    >>> from headrace.lowlevel.intervals import IntervalMap
    >>> decoded(WatermarkMap("count", IntervalMap.evenly(2), Sequencer(1, 1)).encode()).tolist() == 2 * [MIN_TIMESTAMP]
    True
    """
    form, column = part[:1], np.frombuffer(part[9:], "<i8").astype(np.int64)
    (count,) = struct.unpack("<q", part[1:9])
    runs = len(column) // 2
    values = np.repeat(column[runs:], column[:runs]) if form == _RUNS else column
    if form not in (_RUNS, _PLAIN) or len(values) != count:
        raise ValueError(f"{part[:40]!r}… is no part of an authority's journal")
    return values


def _packed(sequencer: Sequencer) -> int:
    """A sequencer as one number of the same order."""
    generation, epoch = sequencer
    if not (0 <= generation < _GENERATIONS and 0 <= epoch < _EPOCHS):
        raise ValueError(f"{sequencer} is out of range; generations are below 2**23, epochs below 2**40")
    return generation * _EPOCHS + epoch


def _check_cover(computation: str, ordered: Sequence[Range]) -> None:
    reached = 0
    for interval in ordered:
        if interval.start != reached or interval.stop <= interval.start:
            raise ValueError(
                f"the intervals of {computation!r} do not divide the key space: interval {interval.number} is "
                f"[{interval.start}, {interval.stop}) where one from {reached} on is due; give each place one interval"
            )
        reached = interval.stop
    if reached != SPACE:
        raise ValueError(f"the intervals of {computation!r} end at {reached}, the key space at {SPACE}; give all of it")
