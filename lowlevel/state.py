"""Persistent state of one computation and key interval: committed copy, uncommitted overlay, delta (paper §4.4, §6.2).

A *row* is the 16-byte hash of a key; everything of a key lies under its row. Five tables make up the state:

- keys: row -> the encoded key;
- cells: (row, cell) -> bytes. The paper's one byte string per key is the cell `b""`; other cells let a computation
  change a part without rewriting the whole;
- marks: (row, domain, tag) -> timestamp, also ordered by (domain, timestamp): timers on the low watermark, timers on
  wall time, and holds;
- ids: ids of records already processed -> their timestamps;
- segments: name -> lines of many keys, each with its row, see `headrace.lowlevel.segment`: for computations that work
  on a whole interval by columns, and read nothing before it is due.

A `Copy` holds committed state only. A bundle reads through it and collects what it changes in a `Delta`; the delta
becomes part of the copy once the epoch that names it is committed.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import NamedTuple, Protocol

from headrace.lowlevel.record import new_tuple

FORMAT_VERSION = 2
"""Of everything that this module's tables persist. Change it with the layout. Version 1 had no segments."""


FEW_CELLS = 32
"""Cells of a row that may be read all at once, when some of them are asked for,"""
FEW_BYTES = 8_192
"""and the bytes that they may have together."""
_MANY = 1_000
_PIECE_BYTES = 8 << 20


class Mark(NamedTuple):
    """A timestamp attached to a row: a timer or a hold."""

    timestamp: int
    row: bytes
    tag: str


class MarkColumns(NamedTuple):
    """Marks as columns."""

    timestamps: list[int]
    rows: list[bytes]
    tags: list[str]

    def marks(self) -> Iterator[Mark]:
        """Each as one."""
        return map(new_tuple, repeat(Mark), zip(*self, strict=True))


@dataclass(slots=True)
class Delta:
    """What one bundle changes in one computation's interval. Persisted: every field.

    None as a value takes the entry away.
    """

    keys: dict[bytes, bytes] = field(default_factory=dict)
    """row -> encoded key, for rows that may be new to the copy."""
    cells: dict[tuple[bytes, bytes], bytes | None] = field(default_factory=dict)
    """(row, cell) -> contents."""
    marks: dict[tuple[bytes, int, str], int | None] = field(default_factory=dict)
    """(row, domain, tag) -> timestamp in microseconds."""
    ids: dict[bytes, int] = field(default_factory=dict)
    """record id -> timestamp after which it may be forgotten, in microseconds of event time."""
    forget_ids_before: int | None = None
    """Ids with a smaller timestamp than this are forgotten."""
    segments: dict[bytes, bytes | None] = field(default_factory=dict)
    """name (not empty) -> contents, see `headrace.lowlevel.segment`."""

    def __bool__(self) -> bool:
        tables = self.keys or self.cells or self.marks or self.ids or self.segments
        return bool(tables or self.forget_ids_before is not None)

    def take(
        self,
        row: bytes,
        encoded: bytes,
        cells: Mapping[bytes, bytes | None],
        marks: Mapping[tuple[bytes, int, str], int | None],
        known: bool,
        few: Mapping[bytes, bytes] | None,
    ) -> None:
        """Take a key's changes.

        A key that has nothing stored (not `known`) needs no entries that take away, nor does a cell that is not among
        its `few` stored ones, where these were read.
        """
        if not known:
            size = len(self.cells) + len(self.marks)
            for cell, data in cells.items():
                if data is not None:
                    self.cells[row, cell] = data
            for mark, timestamp in marks.items():
                if timestamp is not None:
                    self.marks[mark] = timestamp
            if len(self.cells) + len(self.marks) > size:
                self.keys[row] = encoded
            return
        for cell, data in cells.items():
            if data is not None or few is None or cell in few:
                self.cells[row, cell] = data
        self.marks.update(marks)


class Copy(Protocol):
    """Committed state of one computation and interval, as one process sees it."""

    def key(self, row: bytes) -> bytes | None:
        """The encoded key of a row; None for a row never seen."""

    def keys_of(self, rows: Sequence[bytes]) -> dict[bytes, bytes]:
        """The encoded keys of those of the rows that were seen."""

    def get(self, row: bytes, cell: bytes) -> bytes | None:
        """Contents of a cell."""

    def states_of(self, rows: Sequence[bytes]) -> dict[bytes, bytes]:
        """Contents of the cell `b""` of those of the rows that have it."""

    def cells_of(self, rows: Sequence[bytes]) -> dict[bytes, dict[bytes, bytes]]:
        """All cells, by name, of those of the rows that have few, see `FEW_CELLS`; a copy may leave out others."""

    def scan(self, row: bytes, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Cells of a row whose names begin with `prefix`, by name."""

    def mark(self, row: bytes, domain: int, tag: str) -> int | None:
        """The timestamp of one mark."""

    def marks(self, row: bytes) -> Iterator[tuple[int, str, int]]:
        """All marks of a row as (domain, tag, timestamp)."""

    def until(self, domain: int, limit: int) -> Iterator[Mark]:
        """Marks of a domain with timestamp <= limit, in order of timestamp, then row, then tag."""

    def due(self, domain: int, limit: int) -> MarkColumns:
        """The same, all at once."""

    def may_know_id(self, record_id: bytes) -> bool:
        """Whether a record of this id may have been processed; False is certain, and costs little to know."""

    def knows_id(self, record_id: bytes) -> bool:
        """Whether a record of this id was processed."""

    def segment_names(self) -> list[bytes]:
        """Names of all segments, in order."""

    def segment(self, name: bytes) -> bytes | None:
        """Contents of a segment."""

    def apply(self, delta: Delta) -> None:
        """Make a committed delta part of the copy."""

    def dump(self) -> Iterator[Delta]:
        """Everything, as deltas of bounded size: for snapshots and for moving keys to other intervals."""

    def count(self) -> dict[str, int]:
        """Number of entries by table: keys, cells, marks, ids, segments."""

    def size(self) -> int:
        """About how many bytes it takes up, without looking through it."""


class MemoryCopy:
    """A `Copy` in memory, ordered tables as sorted lists; for the local runner and as the reference in tests."""

    def __init__(self) -> None:
        self._keys: dict[bytes, bytes] = {}
        self._cells: dict[bytes, dict[bytes, bytes]] = {}
        self._marks: dict[bytes, dict[tuple[int, str], int]] = {}
        self._ordered: dict[int, list[Mark]] = {}
        self._ids: dict[bytes, int] = {}
        self._segments: dict[bytes, bytes] = {}
        self._size = 0

    def key(self, row: bytes) -> bytes | None:
        """See `Copy`."""
        return self._keys.get(row)

    def keys_of(self, rows: Sequence[bytes]) -> dict[bytes, bytes]:
        """See `Copy`."""
        return {row: self._keys[row] for row in rows if row in self._keys}

    def states_of(self, rows: Sequence[bytes]) -> dict[bytes, bytes]:
        """See `Copy`."""
        found = ((row, self.get(row, b"")) for row in rows)
        return {row: contents for row, contents in found if contents is not None}

    def cells_of(self, rows: Sequence[bytes]) -> dict[bytes, dict[bytes, bytes]]:
        """See `Copy`."""
        found = {row: self._cells.get(row, {}) for row in rows}
        return {row: dict(cells) for row, cells in found.items() if are_few(cells)}

    def get(self, row: bytes, cell: bytes) -> bytes | None:
        """See `Copy`."""
        cells = self._cells.get(row)
        return None if cells is None else cells.get(cell)

    def scan(self, row: bytes, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """See `Copy`."""
        cells = self._cells.get(row, {})
        return iter([(cell, cells[cell]) for cell in sorted(cells) if cell.startswith(prefix)])

    def mark(self, row: bytes, domain: int, tag: str) -> int | None:
        """See `Copy`."""
        return self._marks.get(row, {}).get((domain, tag))

    def marks(self, row: bytes) -> Iterator[tuple[int, str, int]]:
        """See `Copy`."""
        return iter([(domain, tag, timestamp) for (domain, tag), timestamp in self._marks.get(row, {}).items()])

    def until(self, domain: int, limit: int) -> Iterator[Mark]:
        """See `Copy`."""
        ordered = self._ordered.get(domain, [])
        return iter(ordered[: bisect_left(ordered, Mark(limit + 1, b"", ""))])

    def due(self, domain: int, limit: int) -> MarkColumns:
        """See `Copy`."""
        found = list(self.until(domain, limit))
        return MarkColumns(*map(list, zip(*found, strict=True))) if found else MarkColumns([], [], [])

    def may_know_id(self, record_id: bytes) -> bool:
        """See `Copy`."""
        return record_id in self._ids

    def knows_id(self, record_id: bytes) -> bool:
        """See `Copy`."""
        return record_id in self._ids

    def segment_names(self) -> list[bytes]:
        """See `Copy`."""
        return sorted(self._segments)

    def segment(self, name: bytes) -> bytes | None:
        """See `Copy`."""
        return self._segments.get(name)

    def apply(self, delta: Delta) -> None:
        """See `Copy`."""
        self._keys.update(delta.keys)
        for (row, cell), contents in delta.cells.items():
            cells = self._cells.setdefault(row, {})
            if (old := cells.pop(cell, None)) is not None:
                self._size -= len(cell) + len(old)
            if contents is not None:
                cells[cell] = contents
                self._size += len(cell) + len(contents)
        if len(delta.marks) > _MANY:
            self._set_marks(delta.marks)
        else:
            for (row, domain, tag), timestamp in delta.marks.items():
                self._set_mark(row, domain, tag, timestamp)
        self._ids.update(delta.ids)
        if (limit := delta.forget_ids_before) is not None:
            self._ids = {record_id: timestamp for record_id, timestamp in self._ids.items() if timestamp >= limit}
        for row in {row for row, _ in delta.cells} | {row for row, _, _ in delta.marks} | set(delta.keys):
            self._forget_if_empty(row)
        for name, contents in delta.segments.items():
            self._set_segment(name, contents)

    def _set_segment(self, name: bytes, contents: bytes | None) -> None:
        if (old := self._segments.pop(name, None)) is not None:
            self._size -= len(name) + len(old)
        if contents is not None:
            self._segments[name] = contents
            self._size += len(name) + len(contents)

    def _set_mark(self, row: bytes, domain: int, tag: str, timestamp: int | None) -> None:
        marks = self._marks.setdefault(row, {})
        ordered = self._ordered.setdefault(domain, [])
        if (old := marks.pop((domain, tag), None)) is not None:
            del ordered[bisect_left(ordered, Mark(old, row, tag))]
        if timestamp is not None:
            marks[domain, tag] = timestamp
            insort(ordered, Mark(timestamp, row, tag))

    def _set_marks(self, changed: Mapping[tuple[bytes, int, str], int | None]) -> None:
        """Many at once: sorting what is nearly sorted is quicker than finding a place for each."""
        gone: set[tuple[int, Mark]] = set()
        for (row, domain, tag), timestamp in changed.items():
            marks = self._marks.setdefault(row, {})
            if (old := marks.pop((domain, tag), None)) is not None:
                gone.add((domain, Mark(old, row, tag)))
            if timestamp is not None:
                marks[domain, tag] = timestamp
        for domain in {domain for _, domain, _ in changed}:
            kept = [mark for mark in self._ordered.get(domain, ()) if (domain, mark) not in gone]
            new = (
                Mark(timestamp, row, tag)
                for (row, its, tag), timestamp in changed.items()
                if its == domain and timestamp is not None
            )
            self._ordered[domain] = sorted([*kept, *new])

    def _forget_if_empty(self, row: bytes) -> None:
        if not self._cells.get(row) and not self._marks.get(row):
            self._cells.pop(row, None)
            self._marks.pop(row, None)
            self._keys.pop(row, None)

    def dump(self) -> Iterator[Delta]:
        """See `Copy`."""
        yield Delta(
            keys=dict(self._keys),
            cells={(row, cell): contents for row, cells in self._cells.items() for cell, contents in cells.items()},
            marks={(row, *mark): timestamp for row, marks in self._marks.items() for mark, timestamp in marks.items()},
            ids=dict(self._ids),
        )
        for segments in pieces_of((name, self._segments[name]) for name in self.segment_names()):
            yield Delta(segments=dict(segments))

    def count(self) -> dict[str, int]:
        """See `Copy`."""
        return {
            "keys": len(self._keys),
            "cells": sum(map(len, self._cells.values())),
            "marks": sum(map(len, self._marks.values())),
            "ids": len(self._ids),
            "segments": len(self._segments),
        }

    def size(self) -> int:
        """Bytes of its cells and segments with their names."""
        return self._size


def are_few(cells: Mapping[bytes, bytes]) -> bool:
    """Whether these, of one row, may be read all at once.

    >>> are_few({b"a": b"data"}), are_few({b"a": bytes(10_000)})
    (True, False)
    """
    return len(cells) <= FEW_CELLS and sum(map(len, cells.values())) <= FEW_BYTES


def pieces_of(segments: Iterable[tuple[bytes, bytes]]) -> Iterator[list[tuple[bytes, bytes]]]:
    """The segments in lists that exceed 8 MiB by less than their last entry.

    >>> [len(piece) for piece in pieces_of((b"%d" % n, bytes(3 << 20)) for n in range(5))]
    [3, 2]
    """
    piece, size = [], 0
    for name, contents in segments:
        piece.append((name, contents))
        size += len(contents)
        if size >= _PIECE_BYTES:
            yield piece
            piece, size = [], 0
    if piece:
        yield piece
