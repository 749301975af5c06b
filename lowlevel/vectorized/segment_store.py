"""A log-structured store: tables of many keys that outlive a bundle, as segments of one interval's state.

A bundle appends its lines as one segment or a few, and reads only the segments with lines that are due or looked up, so
that the cost of an epoch does not depend on the size of the state. The name of a segment has the range of times in it,
so that due segments are found by their names. A segment is kept until its last line is done. Which of its lines were
due earlier follows from the watermark before the bundle, so that a segment is not written again when some of its lines
are done. When there are many segments of about one size, they are compacted into one: each line is written again a few
times for every eightfold growth. The contents of a table, the times by which its lines are looked up, their compaction
and the names of their segments are defined by a format: timers of column computations have one, see `timer_rows`, and
groupings have several.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, Self, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headrace.lowlevel.columnar.key_columns import Numbers
from headrace.lowlevel.state import segment
from headrace.lowlevel.state.segment import KeyPositions
from headrace.lowlevel.topology.computation import IntervalContext

_TIMES = struct.Struct(">QQQ")
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


class Name(NamedTuple):
    """The decoded name of a segment; times are microseconds UTC."""

    least: int
    """Least of the times by which the segment's lines are looked up."""
    greatest: int
    """Greatest of these times."""
    bound: int
    """See `Format.bound`."""
    tier: int
    """Size class of the segment: see `tier_of`."""
    epoch: int
    """The epoch that wrote the segment."""
    interval: int
    """The interval for which the segment was written; it keeps names distinct when intervals merge."""
    number: int
    """Number of the segment among those of its format that an epoch writes for an interval."""

    @property
    def age(self) -> tuple[int, int]:
        """Sort key: the order in which segments of a key were written."""
        return self.epoch, self.number


@dataclass(frozen=True, slots=True)
class Naming:
    """Encoding of the names of one format's segments; checkpoints have them, so that none of it can change.

    >>> naming, name = Naming(b"k", ">BQIH"), Name(-5, 10, 12, 0, 3, 1, 0)
    >>> naming.decode(naming.encode(name) + b"/1") == name
    True
    """

    kind: bytes
    """What tells the segments of one format from those of a computation's others; empty if there are no others."""
    origin: str
    """The layout of tier, epoch, interval and number, as in `struct`."""

    def encode(self, name: Name) -> bytes:
        """The name as bytes, ordered by the least time."""
        times = _TIMES.pack(name.least + _SHIFT, name.greatest + _SHIFT, name.bound + _SHIFT)
        return times + self.kind + struct.pack(self.origin, *name[3:])

    def decode(self, name: bytes) -> Name | None:
        """Decode a name; None if it has another kind. A suffix, as merging intervals append it, is ignored."""
        if not name.startswith(self.kind, _TIMES.size):
            return None
        least, greatest, bound = _TIMES.unpack_from(name)
        origin = struct.unpack_from(self.origin, name, _TIMES.size + len(self.kind))
        return Name(least - _SHIFT, greatest - _SHIFT, bound - _SHIFT, *origin)


class Table(ABC):
    """Lines of many keys as columns."""

    __slots__ = ()
    key_hashes: pa.Array
    """The 16-byte hash of each line's key: binary(16), without nulls."""

    def __len__(self) -> int:
        return len(self.key_hashes)

    @abstractmethod
    def taken(self, indices: Numbers) -> Self:
        """A copy of the lines at these indices."""

    def where(self, chosen: NDArray[np.bool_]) -> Self:
        """The lines where `chosen` is True; the same object if it is True for all."""
        return self if chosen.all() else self.taken(np.flatnonzero(chosen))


def segment_lines(
    key_hashes: pa.Array, keys: pa.Array, columns: Mapping[str, pa.Array], metadata: Mapping[bytes, bytes] | None = None
) -> pa.RecordBatch:
    """The lines of a segment.

    Args:
        key_hashes: The 16-byte hash of each line's key.
        keys: The encoding of each line's key.
        columns: Name -> column.
        metadata: Metadata of the Arrow schema.
    """
    fields = [pa.field(segment.ROW, key_hashes.type), pa.field(segment.KEY, keys.type, metadata=segment.ENCODED)]
    fields += [pa.field(name, column.type) for name, column in columns.items()]
    return pa.record_batch([key_hashes, keys, *columns.values()], schema=pa.schema(fields, metadata))


T = TypeVar("T", bound=Table)


class Format(ABC, Generic[T]):
    """Encoding, names, lookup times and compaction of one kind of tables.

    Arrays have one entry for each line; times are microseconds UTC: int64.
    """

    naming: Naming
    """Encoding of the names of segments."""
    largest_tier = ANY_TIER
    """The largest tier that is compacted; its segments must fit into memory `MANY` at a time."""
    by_key = False
    """Whether lines are looked up by their keys: a segment then has them in the order of their key hashes."""

    @abstractmethod
    def times(self, table: T) -> Numbers:
        """The times by which lines are looked up."""

    def ends(self, table: T) -> Numbers:
        """The times at which lines are done: by default those by which they are looked up."""
        return self.times(table)

    def bound(self, table: T) -> int:
        """A time that a segment's name states besides the range of its times: by default the greatest of `ends`."""
        return int(self.ends(table).max())

    def end(self, name: Name) -> int:
        """The time at which all lines of a segment are done, so that it is deleted: by default its `bound`."""
        return name.bound

    @abstractmethod
    def joined(self, tables: Sequence[T]) -> T:
        """Concatenate tables in their order; `tables` may be empty."""

    def compacted(self, table: T) -> T:
        """Equivalent lines, as few as possible: by default the same lines.

        The lines of `table` are in the order in which they were written.
        """
        return table

    @abstractmethod
    def encode(self, table: T) -> pa.RecordBatch:
        """The lines in their order as a segment has them, see `lowlevel.state.segment`; there is at least one line."""

    @abstractmethod
    def decode(self, batch: pa.RecordBatch) -> T:
        """The lines that `encode` has encoded; arrays may be read-only."""


@dataclass(slots=True)
class SegmentStore(Generic[T]):
    """The segments of one format of one interval, during one bundle.

    Methods read the state that the previous epoch has committed, until `keep` is called, once.
    """

    context: IntervalContext
    format: Format[T]
    names: dict[bytes, Name] = field(init=False)
    """Encoded name -> name of each segment."""
    _written: int = 0

    def __post_init__(self) -> None:
        decoded = ((name, self.format.naming.decode(name)) for name in self.context.store.segment_names())
        self.names = {name: parts for name, parts in decoded if parts is not None}

    @property
    def least(self) -> int | None:
        """The least time that is stored, microseconds UTC; None if nothing is."""
        return min((parts.least for parts in self.names.values()), default=None)

    def between(self, after: int, until: int) -> Iterator[T]:
        """The lines whose time is in (after, until], microseconds UTC: a table for each segment, the oldest first."""
        for name in self._between(after, until):
            table = self.read(name)
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

        The format must be `by_key`.

        Args:
            key_hashes: 16-byte hashes of keys: binary(16), without nulls, in any order.
            times: Microseconds UTC: int64, in any order; its length need not be that of `key_hashes`.
        """
        if not len(key_hashes) or not self.names:
            return
        times, wanted = np.unique(times), np.unique(segment.key_positions(key_hashes))
        for name in self._chosen(lambda parts: bool(_count_between(times, parts.least, parts.greatest))):
            table = self.read(name, wanted)
            yield table.where(np.isin(self.format.times(table), times))

    def of_keys_after(self, key_hashes: pa.Array, after: int) -> Iterator[T]:
        """Lines of some keys, and possibly of others, at times later than `after`; see `of_keys`."""
        wanted = np.unique(segment.key_positions(key_hashes))
        for name in self._chosen(lambda parts: parts.greatest > after):
            table = self.read(name, wanted)
            yield table.where(self.format.times(table) > after)

    def pop(self, until: int) -> T:
        """All lines of the segments that have a time up to `until`, microseconds UTC; these segments are deleted."""
        return self._taken(self._chosen(lambda parts: parts.least <= until))

    def keep(self, *tables: T, done_until: int) -> None:
        """Write lines; before that, delete segments that are done, and compact tiers that have `MANY` segments.

        `done_until` is the latest time at which lines are done, microseconds UTC. The lines are in any order.
        """
        for name in self._chosen(lambda parts: self.format.end(parts) <= done_until):
            self._drop(name)
        for names in self._crowded():
            lines = self._taken(names)
            self._write(self.format.compacted(lines.where(self.format.ends(lines) > done_until)))
        for table in tables:
            self._write(table)

    def read(self, name: bytes, wanted: KeyPositions | None = None) -> T:
        """The lines of a segment; if `wanted` is given, those of these keys and possibly of others."""
        batch = segment.decode(self._contents(name))
        if wanted is not None:
            assert self.format.by_key, "the lines are in the order of their keys"
            batch = segment.lines_of_keys(batch, wanted)
        return self.format.decode(batch)

    def _chosen(self, is_chosen: Callable[[Name], bool]) -> list[bytes]:
        """Names of the segments for which `is_chosen` is true, the oldest first."""
        names = [name for name, parts in self.names.items() if is_chosen(parts)]
        return sorted(names, key=lambda name: self.names[name].age)

    def _crowded(self) -> list[list[bytes]]:
        """Names of the segments of each tier that has `MANY` or more, the oldest first."""
        by_tier: dict[int, list[bytes]] = defaultdict(list)
        for name in self._chosen(lambda parts: parts.tier <= self.format.largest_tier):
            by_tier[self.names[name].tier].append(name)
        return [names for names in by_tier.values() if len(names) >= MANY]

    def _taken(self, names: Sequence[bytes]) -> T:
        """All lines of the named segments, which are deleted."""
        tables = [self.read(name) for name in names]
        for name in names:
            self._drop(name)
        return self.format.joined(tables)

    def _contents(self, name: bytes) -> bytes:
        contents = self.context.delta.segments.get(name) or self.context.store.segment(name)
        assert contents is not None, "it is in the list of names"
        return contents

    def _drop(self, name: bytes) -> None:
        self.context.drop(name)
        del self.names[name]

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
        bounds = int(times.min()), int(times.max()), self.format.bound(table)
        parts = Name(*bounds, tier_of(len(table)), self.context.epoch, self.context.interval, self._written)
        name = self.format.naming.encode(parts)
        self._written += 1
        self.names[name] = parts
        if self.format.by_key:
            table = table.taken(np.argsort(segment.key_positions(table.key_hashes), kind="stable"))
        self.context.put(name, segment.encode(self.format.encode(table)))


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


def _count_between(times: Numbers, least: int, greatest: int) -> int:
    """Number of `times`, which are ascending, from `least` to `greatest`, both included."""
    return int(np.searchsorted(times, greatest, "right") - np.searchsorted(times, least))
