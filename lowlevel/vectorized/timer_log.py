"""Timers that are not due yet, kept as they came until they are (a log-structured store).

A bundle writes its new timers as one segment or a few, by when they are due, and reads those with something due. A
segment with timers of several times stays until the last has fired; which have fired is told by the watermark of the
epoch before, so that nothing need be written again. When there are many segments of a size, they become one.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from headrace.lowlevel.columnkeys import Numbers
from headrace.lowlevel.columnwise.fields import Layout
from headrace.lowlevel.columnwise.timerrows import HOLD_TAG, NO_HOLD, TimerRows, Way
from headrace.lowlevel.intervalcomputation import IntervalContext
from headrace.lowlevel.state import Mark
from headrace.lowlevel.time import MAX_TIMESTAMP

_NAME = struct.Struct(">QQQBQII")
_SHIFT = 1 << 63
"""Makes signed microseconds unsigned, so that bytes are ordered as times are."""
_SMALL = 4096
"""Rows of a segment that takes up timers of other times, too."""
_GROWTH = 8
_MANY = 16
"""Segments of about the same size that become one."""


class Name(NamedTuple):
    """What the name of a segment says; intervals that merge must not have the same name twice.

    >>> name = Name(-5, 10, 7, 0, 3, 1, 0)
    >>> Name.decode(name.encode() + b"appended") == name
    True
    """

    least: int
    """When its first timer is due, microseconds UTC."""
    greatest: int
    hold: int
    """No timer in it holds the output watermark before this."""
    tier: int
    """How large it is: the logarithm of its size."""
    epoch: int
    interval: int
    number: int

    def encode(self) -> bytes:
        """The name, ordered by the first timer."""
        return _NAME.pack(self.least + _SHIFT, self.greatest + _SHIFT, self.hold + _SHIFT, *self[3:])

    @classmethod
    def decode(cls, name: bytes) -> Name:
        """What a name says, whatever was appended to it."""
        least, greatest, hold, *rest = _NAME.unpack_from(name)
        return cls(least - _SHIFT, greatest - _SHIFT, hold - _SHIFT, *rest)


@dataclass(slots=True)
class TimerShelf:
    """The segments of one interval, during one bundle."""

    context: IntervalContext
    layout: Layout
    ways: Sequence[Way] | None
    """How rows of the same key and timestamp become one; None if they do not."""
    _names: dict[bytes, Name] = field(init=False)
    _written: int = 0

    def __post_init__(self) -> None:
        self._names = {name: Name.decode(name) for name in self.context.copy.segment_names()}

    def due(self) -> TimerRows:
        """What is due since the watermark has moved; it is taken away."""
        before, now = self.context.watermark_before, self.context.watermark
        begun = [name for name, told in self._names.items() if told.least <= now]
        parts = [self._read(name, before, now) for name in begun if self._names[name].greatest > before]
        for name in begun:
            if self._names[name].greatest <= now:
                self._drop(name)
        return TimerRows.joined([part for part in parts if len(part)], self.layout)

    def add(self, timers: TimerRows) -> None:
        """Keep timers; before that, make one of many segments if it is time for that."""
        by_tier: dict[int, list[bytes]] = defaultdict(list)
        for name, told in self._names.items():
            by_tier[told.tier].append(name)
        for names in by_tier.values():
            if len(names) >= _MANY:
                self._compact(names)
        self._write(timers.merged(self.ways))

    def hold(self) -> tuple[Mark, bytes] | None:
        """The oldest hold of all timers that are left, and the encoded key of its timer."""
        oldest: tuple[Mark, bytes] | None = None
        for name in sorted(self._names, key=lambda name: self._names[name].hold):
            bound = self._names[name].hold
            if bound == NO_HOLD or (oldest is not None and oldest[0].timestamp <= bound):
                break
            timers = self._read(name, self.context.watermark, MAX_TIMESTAMP)
            if not len(timers):
                continue
            place = int(np.argmin(timers.holds))
            found = Mark(int(timers.holds[place]), timers.rows[place].as_py(), HOLD_TAG), timers.keys[place].as_py()
            if found[0].timestamp != NO_HOLD and (oldest is None or found < oldest):
                oldest = found
        return oldest

    def _read(self, name: bytes, after: int, until: int) -> TimerRows:
        """What of a segment is due after one time, and until another."""
        contents = self.context.delta.segments.get(name) or self.context.copy.segment(name)
        assert contents is not None, "it is in the list of names"
        timers = TimerRows.decode(contents, self.layout)
        return timers.where((timers.timestamps > after) & (timers.timestamps <= until))

    def _drop(self, name: bytes) -> None:
        self.context.drop(name)
        del self._names[name]

    def _compact(self, names: list[bytes]) -> None:
        """One segment, or a few, instead of many; what has fired is left out."""
        parts = [self._read(name, self.context.watermark, MAX_TIMESTAMP) for name in names]
        for name in names:
            self._drop(name)
        self._write(TimerRows.joined([part for part in parts if len(part)], self.layout).merged(self.ways))

    def _write(self, timers: TimerRows) -> None:
        if not len(timers):
            return
        timers = timers.taken(np.argsort(timers.timestamps, kind="stable"))
        for begin, end in _cuts(timers.timestamps):
            part = timers if end - begin == len(timers) else timers.taken(np.arange(begin, end))
            times, hold = part.timestamps, int(part.holds.min())
            tier = _tier_of(len(part))
            name = Name(
                *(int(times[0]), int(times[-1]), hold, tier),
                *(self.context.epoch, self.context.interval, self._written),
            )
            self._written += 1
            self._names[name.encode()] = name
            self.context.put(name.encode(), part.encode(self.layout))


def _tier_of(size: int) -> int:
    tier, size = 0, size // _SMALL
    while size:
        tier, size = tier + 1, size // _GROWTH
    return tier


def _cuts(times: Numbers) -> Iterator[tuple[int, int]]:
    """Where segments begin and end: where another time begins once they are large enough; `times` are in order."""
    rows = max(_SMALL, len(times) // _GROWTH)
    begin = 0
    for edge in [*(np.flatnonzero(np.diff(times)) + 1).tolist(), len(times)]:
        if edge - begin >= rows or edge == len(times):
            yield begin, edge
            begin = edge
