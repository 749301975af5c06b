"""What: tables of many keys that outlive a bundle, as segments of one interval's state (a log-structured store).

A bundle appends its lines as one segment or a few, and reads only the segments with lines that are due or looked up, so
that the cost of an epoch does not depend on the size of the state. The name of a segment has the range of times in it,
so that due segments are found by their names. A segment is kept until all its windows are closed. Which of its lines
were due earlier follows from the watermark before the bundle, so that a segment is not written again when some of its
lines are done. When there are many segments of about one size, they are compacted into one: each line is written again
a few times for every eightfold growth. The contents of a table, the times by which its lines are looked up, and their
compaction are defined by a format; see `segment_formats`.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Generic, NamedTuple, Protocol, Self, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headrace.lowlevel.columnar.arrow_arrays import of_numbers
from headrace.lowlevel.columnar.key_columns import Numbers
from headrace.lowlevel.state import segment
from headrace.lowlevel.topology.computation import IntervalContext
from headrace.sdk.operators.combining.session_runs import Flags

_NAME = struct.Struct(">QQQBBQIH")
_SHIFT = 1 << 63
"""Offset that makes signed microseconds unsigned, so that encoded names have the order of their times."""
SMALL = 4096
"""Number of lines up to which a table is written as one segment, whatever its times."""
GROWTH = 8
"""Ratio of the sizes of segments in successive tiers."""
MANY = 16
"""Number of segments in one tier from which on they are compacted into one."""
ANY_TIER = 255
"""The largest tier that a name can have."""

KeyPositions = NDArray[np.uint64]
"""First eight bytes of keys' hashes as numbers (`segment.key_positions`): distinct and ascending."""


class Kind(IntEnum):
    """Kinds of lines in a segment."""

    PARTS = 0
    """Parts of windows that have one pane: the parts of a key and window are combined."""
    WINDOWS = 1
    """Windows that have several panes: of the lines of a key and window, the one of the latest epoch is valid."""
    WAKES = 2
    """Windows whose triggers must be evaluated when the wall clock reaches a time."""
    SESSIONS = 3
    """Parts of sessions: the parts of a key that overlap are combined."""
    ELEMENTS = 4
    """Values that windows with one pane hold."""


class Name(NamedTuple):
    """The decoded name of a segment; times are microseconds UTC."""

    least: int
    """Least of the times by which the segment's lines are looked up."""
    greatest: int
    """Greatest of these times."""
    end: int
    """Greatest end of a window in the segment; the segment is deleted when this window is closed."""
    kind: int
    """See `Kind`."""
    tier: int
    """Size class of the segment: see `tier_of`."""
    epoch: int
    """The epoch that wrote the segment."""
    interval: int
    """The interval for which the segment was written; it keeps names distinct when intervals merge."""
    number: int
    """Number of the segment among those of its kind that an epoch writes for an interval."""

    @property
    def age(self) -> tuple[int, int]:
        """Sort key: the order in which segments of a key were written."""
        return self.epoch, self.number

    def encode(self) -> bytes:
        """The name as bytes, ordered by the least time."""
        return _NAME.pack(self.least + _SHIFT, self.greatest + _SHIFT, self.end + _SHIFT, *self[3:])

    @classmethod
    def decode(cls, name: bytes) -> Name:
        """Decode a name; a suffix, as merging intervals append it, is ignored.

        >>> name = Name(-5, 10, 12, Kind.PARTS, 0, 3, 1, 0)
        >>> Name.decode(name.encode() + b"/1") == name
        True
        """
        least, greatest, end, *rest = _NAME.unpack_from(name)
        return cls(least - _SHIFT, greatest - _SHIFT, end - _SHIFT, *rest)


class Table(Protocol):
    """Lines of many keys as columns."""

    def __len__(self) -> int: ...

    def taken(self, indices: Numbers) -> Self:
        """A copy of the lines at these indices."""

    def where(self, chosen: Flags) -> Self:
        """The lines where `chosen` is True; the same object if it is True for all."""


T = TypeVar("T", bound=Table)


class Format(Protocol[T]):
    """Encoding, lookup times and compaction of one kind of tables; arrays have one entry for each line, int64."""

    @property
    def kind(self) -> Kind:
        """The kind of the lines."""

    @property
    def largest_tier(self) -> int:
        """The largest tier that is compacted; its segments must fit into memory `MANY` at a time."""

    def times(self, table: T) -> Numbers:
        """The times by which lines are looked up, microseconds UTC."""

    def ends(self, table: T) -> Numbers:
        """The ends of the lines' windows, microseconds UTC."""

    def joined(self, tables: Sequence[T]) -> T:
        """Concatenate tables in their order; `tables` may be empty."""

    def compacted(self, table: T) -> T:
        """Equivalent lines, as few as possible; the lines of `table` are in the order in which they were written."""

    def encode(self, table: T) -> bytes:
        """Encode the lines as the contents of a segment; there is at least one line."""

    def decode(self, contents: bytes, wanted: KeyPositions | None) -> T:
        """Decode the lines of a segment; if `wanted` is given, those of these keys and possibly of others."""


@dataclass(slots=True)
class SegmentStore(Generic[T]):
    """The segments of one kind of one interval, during one bundle.

    Methods read the state that the previous epoch has committed. `keep` is called once, after all reads.
    """

    context: IntervalContext
    format: Format[T]
    _names: dict[bytes, Name] = field(init=False)
    _written: int = 0

    def __post_init__(self) -> None:
        named = ((name, Name.decode(name)) for name in self.context.store.segment_names())
        self._names = {name: parts for name, parts in named if parts.kind == self.format.kind}

    @property
    def least(self) -> int | None:
        """The least time that is stored, microseconds UTC; None if nothing is."""
        return min((parts.least for parts in self._names.values()), default=None)

    def between(self, after: int, until: int) -> Iterator[T]:
        """The lines whose time is in (after, until], microseconds UTC: a table for each segment, the oldest first."""
        for name in self._between(after, until):
            table = self._read(name)
            times = self.format.times(table)
            yield table.where((times > after) & (times <= until))

    def size_between(self, after: int, until: int) -> int:
        """Number of bytes of the segments that `between` reads."""
        return sum(len(self._contents(name)) for name in self._between(after, until))

    def _between(self, after: int, until: int) -> list[bytes]:
        """Names of the segments that may have a line whose time is in (after, until], the oldest first."""
        if after >= until:
            return []
        return self._chosen(lambda parts: parts.least <= until and parts.greatest > after)

    def of_keys(self, key_hashes: pa.Array, times: Numbers) -> Iterator[T]:
        """Lines of some keys, and possibly of others, at some times: a table for each segment, the oldest first.

        Args:
            key_hashes: 16-byte hashes of keys: binary(16), without nulls, in any order.
            times: Microseconds UTC: int64, in any order; its length need not be that of `key_hashes`.
        """
        if not len(key_hashes) or not self._names:
            return
        times, wanted = np.unique(times), np.unique(segment.key_positions(key_hashes))
        for name in self._chosen(lambda parts: bool(_count_between(times, parts.least, parts.greatest))):
            table = self._read(name, wanted)
            yield table.where(np.isin(self.format.times(table), times))

    def of_keys_after(self, key_hashes: pa.Array, after: int) -> Iterator[T]:
        """Lines of some keys, and possibly of others, at times later than `after`; see `of_keys`."""
        wanted = np.unique(segment.key_positions(key_hashes))
        for name in self._chosen(lambda parts: parts.greatest > after):
            table = self._read(name, wanted)
            yield table.where(self.format.times(table) > after)

    def pop(self, until: int) -> T:
        """All lines of the segments that have a time up to `until`, microseconds UTC; these segments are deleted."""
        return self._taken(self._chosen(lambda parts: parts.least <= until))

    def keep(self, *tables: T, closed_until: int) -> None:
        """Write lines; before that, delete closed segments, and compact tiers that have `MANY` segments.

        `closed_until` is the latest end of a window that is closed, microseconds UTC. The lines are in any order.
        """
        for name in self._chosen(lambda parts: parts.end <= closed_until):
            self._drop(name)
        for names in self._crowded():
            lines = self._taken(names)
            self._write(self.format.compacted(lines.where(self.format.ends(lines) > closed_until)))
        for table in tables:
            self._write(table)

    def _chosen(self, is_chosen: Callable[[Name], bool]) -> list[bytes]:
        """Names of the segments for which `is_chosen` is true, the oldest first."""
        names = [name for name, parts in self._names.items() if is_chosen(parts)]
        return sorted(names, key=lambda name: self._names[name].age)

    def _crowded(self) -> list[list[bytes]]:
        """Names of the segments of each tier that has `MANY` or more, the oldest first."""
        by_tier: dict[int, list[bytes]] = defaultdict(list)
        for name in self._chosen(lambda parts: parts.tier <= self.format.largest_tier):
            by_tier[self._names[name].tier].append(name)
        return [names for names in by_tier.values() if len(names) >= MANY]

    def _taken(self, names: Sequence[bytes]) -> T:
        """All lines of the named segments, which are deleted."""
        tables = [self._read(name) for name in names]
        for name in names:
            self._drop(name)
        return self.format.joined(tables)

    def _read(self, name: bytes, wanted: KeyPositions | None = None) -> T:
        return self.format.decode(self._contents(name), wanted)

    def _contents(self, name: bytes) -> bytes:
        contents = self.context.store.segment(name)
        assert contents is not None, "it is in the list of names"
        return contents

    def _drop(self, name: bytes) -> None:
        self.context.drop(name)
        del self._names[name]

    def _write(self, table: T) -> None:
        """Write lines as one segment, or as a few segments of successive times if there are more than `SMALL` lines."""
        if not len(table):
            return
        times = self.format.times(table)
        if len(table) <= SMALL:
            self._put(table, times)
            return
        order = np.argsort(times, kind="stable")
        for begin, end in cuts(times[order]):
            self._put(table.taken(order[begin:end]), times[order[begin:end]])

    def _put(self, table: T, times: Numbers) -> None:
        bounds = int(times.min()), int(times.max()), int(self.format.ends(table).max())
        origin = self.context.epoch, self.context.interval, self._written
        parts = Name(*bounds, self.format.kind, tier_of(len(table)), *origin)
        self._written += 1
        self._names[parts.encode()] = parts
        self.context.put(parts.encode(), self.format.encode(table))


def tier_of(size: int) -> int:
    """The tier of a segment with `size` lines.

    >>> tier_of(SMALL - 1), tier_of(SMALL), tier_of(GROWTH * SMALL)
    (0, 1, 2)
    """
    tier, size = 0, size // SMALL
    while size:
        tier, size = tier + 1, size // GROWTH
    return tier


def cuts(times: Numbers) -> Iterator[tuple[int, int]]:
    """Bounds of segments, as half-open index ranges that do not split lines of one time; `times` are ascending.

    >>> list(cuts(np.repeat([5, 7, 9], [SMALL, 10, SMALL])))
    [(0, 4096), (4096, 8202)]
    """
    lines = max(SMALL, len(times) // GROWTH)
    edges = np.append(np.flatnonzero(np.diff(times)) + 1, len(times))
    begin = 0
    while begin < len(times):
        end = int(edges[min(int(np.searchsorted(edges, begin + lines)), len(edges) - 1)])
        yield begin, end
        begin = end


def lines_of_keys(batch: pa.RecordBatch, wanted: KeyPositions) -> pa.RecordBatch:
    """The lines of some keys, and possibly of a few others, from a segment whose lines are ordered by key hash."""
    positions = segment.key_positions(batch.column(0))
    begins, stops = (np.searchsorted(positions, wanted, side) for side in ("left", "right"))
    sizes = stops - begins
    offsets = np.repeat(begins - (np.cumsum(sizes) - sizes), sizes)
    return batch.take(of_numbers(np.arange(int(sizes.sum())) + offsets))


def _count_between(times: Numbers, least: int, greatest: int) -> int:
    """Number of `times`, which are ascending, from `least` to `greatest`, both included."""
    return int(np.searchsorted(times, greatest, "right") - np.searchsorted(times, least))
