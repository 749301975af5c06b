"""A log-structured store of timers that are not due yet.

A bundle writes its new timers as one or a few segments, by the time at which they are due, and reads the segments that
contain due timers. A segment stays until its last timer has fired. Timers at or before the watermark of the previous
epoch have fired, so segments are not rewritten when only some timers fire. Many segments of similar size are merged.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from headrace.lowlevel.columnar.key_columns import Numbers
from headrace.lowlevel.state.state_store import Mark
from headrace.lowlevel.time import MAX_TIMESTAMP
from headrace.lowlevel.topology.computation import IntervalContext
from headrace.lowlevel.vectorized.fields import Layout
from headrace.lowlevel.vectorized.timer_rows import HOLD_TAG, NO_HOLD, TimerCombination, TimerRows

_NAME = struct.Struct(">QQQBQII")
_SHIFT = 1 << 63
"""Added to signed microseconds to make them unsigned, so that bytes sort in the order of times."""
_SMALL = 4096
"""A segment is extended by timers with later timestamps while it has fewer rows."""
_GROWTH = 8
_MANY = 16
"""The number of segments of one tier at which they are merged."""


class Name(NamedTuple):
    """The fields in the name of a segment; names stay unique when intervals merge.

    >>> name = Name(-5, 10, 7, 0, 3, 1, 0)
    >>> Name.decode(name.encode() + b"appended") == name
    True
    """

    least: int
    """The timestamp of its first timer, microseconds UTC."""
    greatest: int
    hold: int
    """The least hold of its timers, microseconds UTC; `NO_HOLD` if there is none."""
    tier: int
    """Size class of the segment: the logarithm of its number of rows."""
    epoch: int
    interval: int
    number: int

    def encode(self) -> bytes:
        """The name as bytes, which sort by the first timer's timestamp."""
        return _NAME.pack(self.least + _SHIFT, self.greatest + _SHIFT, self.hold + _SHIFT, *self[3:])

    @classmethod
    def decode(cls, name: bytes) -> Name:
        """Parse a name; bytes behind the fields are ignored."""
        least, greatest, hold, *rest = _NAME.unpack_from(name)
        return cls(least - _SHIFT, greatest - _SHIFT, hold - _SHIFT, *rest)


@dataclass(slots=True)
class TimerLog:
    """The timer segments of one interval during one bundle."""

    context: IntervalContext
    layout: Layout
    combinations: Sequence[TimerCombination] | None
    """For each field, how timers with the same key and timestamp are combined; None if they are not combined."""
    _names: dict[bytes, Name] = field(init=False)
    _written: int = 0

    def __post_init__(self) -> None:
        self._names = {name: Name.decode(name) for name in self.context.store.segment_names()}

    def take_due(self) -> TimerRows:
        """Read the timers that have become due with this epoch's watermark, and remove them from the log."""
        before, now = self.context.watermark_before, self.context.watermark
        begun = [name for name, fields in self._names.items() if fields.least <= now]
        parts = [self._read(name, before, now) for name in begun if self._names[name].greatest > before]
        for name in begun:
            if self._names[name].greatest <= now:
                self._drop(name)
        return TimerRows.concatenated([part for part in parts if len(part)], self.layout)

    def add(self, timers: TimerRows) -> None:
        """Store timers. Tiers with many segments are merged first."""
        by_tier: dict[int, list[bytes]] = defaultdict(list)
        for name, fields in self._names.items():
            by_tier[fields.tier].append(name)
        for names in by_tier.values():
            if len(names) >= _MANY:
                self._compact(names)
        self._write(timers.merged(self.combinations))

    def hold(self) -> tuple[Mark, bytes] | None:
        """The oldest hold of the timers in the log, and its encoded key; None if there is none."""
        oldest: tuple[Mark, bytes] | None = None
        for name in sorted(self._names, key=lambda name: self._names[name].hold):
            bound = self._names[name].hold
            if bound == NO_HOLD or (oldest is not None and oldest[0].timestamp <= bound):
                break
            timers = self._read(name, self.context.watermark, MAX_TIMESTAMP)
            if not len(timers):
                continue
            index = int(np.argmin(timers.holds))
            found = (
                Mark(int(timers.holds[index]), timers.key_hashes[index].as_py(), HOLD_TAG),
                timers.keys[index].as_py(),
            )
            if found[0].timestamp != NO_HOLD and (oldest is None or found < oldest):
                oldest = found
        return oldest

    def _read(self, name: bytes, after: int, until: int) -> TimerRows:
        """The timers of a segment with `after` < timestamp <= `until`."""
        contents = self.context.delta.segments.get(name) or self.context.store.segment(name)
        assert contents is not None, "the name is in the list of names"
        timers = TimerRows.decode(contents, self.layout)
        return timers.where((timers.timestamps > after) & (timers.timestamps <= until))

    def _drop(self, name: bytes) -> None:
        self.context.drop(name)
        del self._names[name]

    def _compact(self, names: list[bytes]) -> None:
        """Merge segments into one or a few, without timers that have fired."""
        parts = [self._read(name, self.context.watermark, MAX_TIMESTAMP) for name in names]
        for name in names:
            self._drop(name)
        self._write(
            TimerRows.concatenated([part for part in parts if len(part)], self.layout).merged(self.combinations)
        )

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
    """Ranges of row indices, one for each segment to write.

    `times` are ascending. Timers with the same timestamp are in one segment.
    """
    rows = max(_SMALL, len(times) // _GROWTH)
    begin = 0
    for edge in [*(np.flatnonzero(np.diff(times)) + 1).tolist(), len(times)]:
        if edge - begin >= rows or edge == len(times):
            yield begin, edge
            begin = edge
