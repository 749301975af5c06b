"""What: partial results of windows that are not over, kept as they came until they are due (a log-structured store).

A bundle writes what it has of windows that are still open as one segment or a few, and reads nothing. When the
watermark reaches the end of a window, the segments with something of it are read and added up. A segment with windows
of several ends stays until the last of them is over; what was due before is told by the watermark of then, so that
nothing need be written again. When there are many small segments, they become one: each row is written again a few
times for every eightfold growth.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from headrace.lowlevel.columncomputation import ColumnContext
from headrace.sdk.columns import objects
from headrace.sdk.columns.objects import Held
from headrace.sdk.columns.partials import Partials
from headrace.sdk.columns.reducers import Reducers
from headrace.sdk.contents import Combiner

_NAME = struct.Struct(">QQBQIH")
_SHIFT = 1 << 63
"""Makes signed microseconds unsigned, so that bytes are ordered as times are."""
_SMALL = 4096
"""Rows of a segment that takes up windows of other ends, too."""
_GROWTH = 8
_MANY = 16
"""Segments of about the same size that become one."""
_OBJECTS = 255
"""The tier of segments whose accumulators are Python values."""


class Name(NamedTuple):
    """What the name of a segment says; intervals that merge must not have the same name twice."""

    least: int
    """Least end of a window in it, microseconds UTC."""
    greatest: int
    tier: int
    """How large it is: the logarithm of its size; or `_OBJECTS`."""
    epoch: int
    interval: int
    number: int

    def encode(self) -> bytes:
        """The name, ordered by the least end."""
        return _NAME.pack(self.least + _SHIFT, self.greatest + _SHIFT, *self[2:])

    @classmethod
    def decode(cls, name: bytes) -> Name:
        """What a name says, whatever was appended to it.

        >>> name = Name(-5, 10, 0, 3, 1, 0)
        >>> Name.decode(name.encode() + b"appended") == name
        True
        """
        least, greatest, *rest = _NAME.unpack_from(name)
        return cls(least - _SHIFT, greatest - _SHIFT, *rest)


@dataclass(slots=True)
class Shelf:
    """The segments of one interval, during one bundle."""

    context: ColumnContext
    reducers: Reducers
    combine: Combiner
    _names: dict[bytes, Name] = field(init=False)
    _written: int = 0

    def __post_init__(self) -> None:
        self._names = {name: Name.decode(name) for name in self.context.copy.segment_names()}

    def due(self) -> tuple[list[Partials], list[Held]]:
        """What is stored of windows whose end the watermark has reached just now."""
        before, now = self.context.watermark_before, self.context.watermark
        partials: list[Partials] = []
        held: list[Held] = []
        for name, told in list(self._names.items()):
            if told.least > now:
                break
            if told.greatest > before and told.tier == _OBJECTS:
                held += objects.decode(self._contents(name), before, now)
            elif told.greatest > before:
                partials.append(self._read(name, before, now))
            if told.greatest <= now:
                self._drop(name)
        return partials, held

    def _read(self, name: bytes, after: int, until: int) -> Partials:
        """The rows of a segment whose windows end after one time, and until another."""
        partials = Partials.decode(self._contents(name))
        return partials.where((partials.ends > after) & (partials.ends <= until))

    def _contents(self, name: bytes) -> bytes:
        contents = self.context.copy.segment(name)
        assert contents is not None, "it is in the list of names"
        return contents

    def _drop(self, name: bytes) -> None:
        self.context.drop(name)
        del self._names[name]

    def add(self, partials: Partials, held: list[Held]) -> None:
        """Keep what is open, and make one of many segments if it is time for that."""
        if len(partials):
            self._write(partials)
        if held:
            self._put_objects(held)
        by_tier: dict[int, list[bytes]] = defaultdict(list)
        for name, told in self._names.items():
            by_tier[told.tier].append(name)
        for tier, names in by_tier.items():
            if len(names) >= _MANY and tier == _OBJECTS:
                self._compact_objects(names)
            elif len(names) >= _MANY:
                self._compact(names)

    def _write(self, partials: Partials) -> None:
        """As segments, cut where another window begins once they are large enough."""
        partials = partials.by_end()
        rows = max(_SMALL, len(partials) // _GROWTH)
        edges = np.flatnonzero(np.diff(partials.ends)) + 1
        begin = 0
        for edge in [*edges.tolist(), len(partials)]:
            if edge - begin >= rows or edge == len(partials):
                self._put(partials.taken(np.arange(begin, edge)))
                begin = edge

    def _put(self, partials: Partials) -> None:
        tier, size = 0, len(partials) // _SMALL
        while size:
            tier, size = tier + 1, size // _GROWTH
        self.context.put(self._name(int(partials.ends[0]), int(partials.ends[-1]), tier), partials.encode())

    def _put_objects(self, held: list[Held]) -> None:
        ends = [one.end for one in held]
        self.context.put(self._name(min(ends), max(ends), _OBJECTS), objects.encode(held))

    def _name(self, least: int, greatest: int, tier: int) -> bytes:
        name = Name(least, greatest, tier, self.context.epoch, self.context.interval, self._written)
        self._written += 1
        return name.encode()

    def _compact(self, names: list[bytes]) -> None:
        """One segment, or a few, instead of many; what was due is left out."""
        now = self.context.watermark
        parts = [self._read(name, now, _SHIFT) for name in names]
        for name in names:
            self._drop(name)
        partials = Partials.joined(parts, len(self.reducers.kept))
        if len(partials) and self.reducers.bound(partials.kept) < _SHIFT // 2:
            partials = partials.reduced(self.reducers)
        if len(partials):
            self._write(partials)

    def _compact_objects(self, names: list[bytes]) -> None:
        now = self.context.watermark
        held = [one for name in names for one in objects.decode(self._contents(name), now, _SHIFT)]
        for name in names:
            self._drop(name)
        if held:
            self._put_objects(objects.merged(held, self.combine))
