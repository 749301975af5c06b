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
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import takewhile
from typing import NamedTuple

import numpy as np

from headrace.lowlevel.columnkeys import Numbers
from headrace.lowlevel.intervalcomputation import IntervalContext
from headrace.sdk.columns import objects
from headrace.sdk.columns.objects import Held
from headrace.sdk.columns.partials import Partials
from headrace.sdk.columns.reducers import LARGEST_SUM, Reducers
from headrace.sdk.contents import Combiner

_NAME = struct.Struct(">QQBQIH")
_SHIFT = 1 << 63
"""Makes signed microseconds unsigned, so that bytes are ordered as times are."""
_SMALL = 4096
"""Rows of a segment that takes up windows of other ends, too."""
_GROWTH = 8
_MANY = 16
"""Segments of about the same size that become one."""
WAKES = 64
"""Tiers from here on are of segments that say when windows are to be looked at; see `wakeshelf`."""
_OBJECTS = 128
"""Tiers from here on are of segments whose accumulators are Python values."""


class Name(NamedTuple):
    """What the name of a segment says; intervals that merge must not have the same name twice."""

    least: int
    """Least end of a window in it, microseconds UTC."""
    greatest: int
    tier: int
    """How large it is: the logarithm of its size; `WAKES` or `_OBJECTS` more if it is of that kind."""
    epoch: int
    interval: int
    number: int

    @property
    def age(self) -> tuple[int, int]:
        """Orders the segments of a key as they were written."""
        return self.epoch, self.number

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

    context: IntervalContext
    reducers: Reducers
    combine: Combiner
    size: int | None
    """Microseconds of a window; None for the global one."""
    _names: dict[bytes, Name] = field(init=False)
    _written: int = 0

    def __post_init__(self) -> None:
        self._names = {name: Name.decode(name) for name in self.context.copy.segment_names()}

    def due(self) -> tuple[list[Partials], list[Held]]:
        """What is stored of windows whose end the watermark has reached just now."""
        before, now = self.context.watermark_before, self.context.watermark
        begun = list(takewhile(lambda name: self._names[name].least <= now, self._names))
        found = self._read([name for name in begun if self._names[name].greatest > before], before, now)
        for name in begun:
            if self._names[name].greatest <= now:
                self._drop(name)
        return found

    def _read(self, names: list[bytes], after: int, until: int) -> tuple[list[Partials], list[Held]]:
        """What of segments is of windows that end after one time, and until another; in the order in which it came."""
        partials: list[Partials] = []
        held: list[Held] = []
        for name in sorted(names, key=lambda name: self._names[name].age):
            if self._names[name].tier >= _OBJECTS:
                held += objects.decode(self._contents(name), after, until)
                continue
            part, size = Partials.decode(self._contents(name))
            part = part.where((part.ends > after) & (part.ends <= until))
            if size == self.size:
                partials.append(part)
            else:
                # Of a program whose windows were longer or shorter: they must not be mixed.
                held += objects.of_partials(part, self.reducers, size)
        return partials, held

    def _contents(self, name: bytes) -> bytes:
        contents = self.context.copy.segment(name)
        assert contents is not None, "it is in the list of names"
        return contents

    def _drop(self, name: bytes) -> None:
        self.context.drop(name)
        del self._names[name]

    def add(self, partials: Partials, held: list[Held]) -> None:
        """Keep what is open; before that, make one of many segments if it is time for that."""
        for names in crowded(self._names):
            self._compact(names)
        if len(partials):
            self._write(partials)
        if held:
            self._write_objects(held)

    def _write(self, partials: Partials) -> None:
        partials = partials.by_end()
        for begin, end in cuts(partials.ends):
            part = partials.taken(np.arange(begin, end))
            self.context.put(self._name(part.ends, 0), part.encode(self.size))

    def _write_objects(self, held: list[Held]) -> None:
        held = sorted(held, key=lambda one: one.end)
        ends = np.array([one.end for one in held], np.int64)
        for begin, end in cuts(ends):
            self.context.put(self._name(ends[begin:end], _OBJECTS), objects.encode(held[begin:end]))

    def _name(self, ends: Numbers, kind: int) -> bytes:
        """A new name for a segment of windows with these ends, in order."""
        tier = kind + tier_of(len(ends))
        name = Name(int(ends[0]), int(ends[-1]), tier, self.context.epoch, self.context.interval, self._written)
        self._written += 1
        return name.encode()

    def _compact(self, names: list[bytes]) -> None:
        """One segment, or a few, instead of many; what was due is left out."""
        parts, held = self._read(names, self.context.watermark, _SHIFT)
        for name in names:
            self._drop(name)
        partials = Partials.joined(parts, len(self.reducers.kept))
        if len(partials) and self.reducers.bound(partials.kept) < LARGEST_SUM:
            partials = partials.reduced(self.reducers)
        if len(partials):
            self._write(partials)
        if held:
            self._write_objects(objects.merged(held, self.combine, self.context))


def tier_of(size: int) -> int:
    """The tier of a segment of so many rows."""
    tier, size = 0, size // _SMALL
    while size:
        tier, size = tier + 1, size // _GROWTH
    return tier


def crowded(names: Mapping[bytes, Name]) -> list[list[bytes]]:
    """The segments of each tier that has many."""
    by_tier: dict[int, list[bytes]] = defaultdict(list)
    for name, told in names.items():
        by_tier[told.tier].append(name)
    return [its for its in by_tier.values() if len(its) >= _MANY]


def cuts(ends: Numbers) -> Iterator[tuple[int, int]]:
    """Where segments begin and end: where another window begins once they are large enough; `ends` are in order."""
    rows = max(_SMALL, len(ends) // _GROWTH)
    begin = 0
    for edge in [*(np.flatnonzero(np.diff(ends)) + 1).tolist(), len(ends)]:
        if edge - begin >= rows or edge == len(ends):
            yield begin, edge
            begin = edge
