"""When: which windows are to be looked at when the wall clock reaches a time, in segments (a log-structured store).

A bundle writes the windows that began to wait in it, nearly always for one time. A segment is read once that time has
come, and goes; of one with several times, the rest is written again. It only says where to look: whether a window still
waits, its own line tells, so that nothing need be changed here when a pane comes sooner.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from headrace.lowlevel import segment
from headrace.lowlevel.intervalcomputation import IntervalContext
from headrace.sdk.columns.lines import END, START, WAKE, Lines
from headrace.sdk.columns.shelf import WAKES, Name, crowded, cuts, tier_of

_END = struct.Struct(">Q")
_SHIFT = 1 << 63


class _Told(NamedTuple):
    """What the name of a segment says."""

    name: Name
    """Its least and greatest are wall times, microseconds UTC."""
    end: int
    """Greatest end of a window in it, microseconds UTC."""

    def encode(self) -> bytes:
        return self.name.encode() + _END.pack(self.end + _SHIFT)

    @classmethod
    def decode(cls, encoded: bytes, name: Name) -> _Told:
        """Whatever was appended to it."""
        return cls(name, _END.unpack_from(encoded, len(name.encode()))[0] - _SHIFT)


@dataclass(slots=True)
class WakeShelf:
    """The segments of one interval, during one bundle."""

    context: IntervalContext
    _names: dict[bytes, _Told] = field(init=False)
    _written: int = 0

    def __post_init__(self) -> None:
        told = ((name, Name.decode(name)) for name in self.context.copy.segment_names())
        self._names = {name: _Told.decode(name, its) for name, its in told if its.tier >= WAKES}

    def due(self, closed_until: int) -> Lines:
        """The keys and windows whose time has come, but for those that are closed; they are taken away."""
        now = self.context.wall_time
        begun = [name for name, told in self._names.items() if told.name.least <= now]
        lines = self._taken(begun)
        lines = lines.where(lines[END] > closed_until)
        self._write(lines.where(lines[WAKE] > now))
        return lines.where(lines[WAKE] <= now)

    def keep(self, lines: Lines, closed_until: int) -> None:
        """Write when lines are to be looked at; drop what is closed; say when something is due next."""
        for name in [name for name, told in self._names.items() if told.end <= closed_until]:
            self._drop(name)
        for names in crowded({name: told.name for name, told in self._names.items()}):
            self._write(self._taken(names))
        self._write(lines)
        self.context.next_wall_timer = min((told.name.least for told in self._names.values()), default=None)

    def _taken(self, names: Sequence[bytes]) -> Lines:
        """What segments say, which are dropped."""
        parts = list(map(self._read, names))
        for name in names:
            self._drop(name)
        return Lines.joined(parts, 0)

    def _read(self, name: bytes) -> Lines:
        # One may have been written in this bundle: it is not in the copy.
        contents = self.context.delta.segments.get(name) or self.context.copy.segment(name)
        assert contents is not None, "it is in the list of names"
        return Lines.decode(contents)

    def _drop(self, name: bytes) -> None:
        if self.context.delta.segments.pop(name, None) is None:
            self.context.drop(name)
        del self._names[name]

    def _write(self, lines: Lines) -> None:
        if not len(lines):
            return
        kept = Lines.new(lines.rows, lines.keys, 0)
        for column in (START, END, WAKE):
            kept[column] = lines[column]
        kept = kept.taken(np.argsort(kept[WAKE], kind="stable"))
        for begin, end in cuts(kept[WAKE]):
            self._put(kept.taken(np.arange(begin, end)))

    def _put(self, lines: Lines) -> None:
        """As a segment; their wall times are in order."""
        wakes = lines[WAKE]
        place = self.context.epoch, self.context.interval, self._written
        name = Name(int(wakes[0]), int(wakes[-1]), WAKES + tier_of(len(lines)), *place)
        self._written += 1
        told = _Told(name, int(lines[END].max()))
        self._names[told.encode()] = told
        self.context.put(told.encode(), lines.encode({segment.POINTS: b"1"}))
