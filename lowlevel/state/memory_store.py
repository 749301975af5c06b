"""Committed state in memory: for the local runner, as a reference for tests of other stores, and for migrated state.

Migrated state is layered on top of the committed state in the bundle that migrates it (MillWheel paper §4.4).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping, Sequence
from heapq import merge

from headrace.lowlevel.state.state_store import Delta, Mark, MarkColumns, StateStore, are_few, pieces_of

_MANY = 1_000
"""For a delta of more marks, sorting all marks is faster than inserting each."""


class MemoryStateStore:
    """A `StateStore` in memory; ordered tables are sorted lists."""

    def __init__(self) -> None:
        self._keys: dict[bytes, bytes] = {}
        self._cells: dict[bytes, dict[bytes, bytes]] = {}
        self._marks: dict[bytes, dict[tuple[int, str], int]] = {}
        self._ordered: dict[int, list[Mark]] = {}
        self._ids: dict[bytes, int] = {}
        self._segments: dict[bytes, bytes] = {}
        self._size = 0

    def key(self, key_hash: bytes) -> bytes | None:
        """See `StateStore`."""
        return self._keys.get(key_hash)

    def keys_of(self, key_hashes: Sequence[bytes]) -> dict[bytes, bytes]:
        """See `StateStore`."""
        return {key_hash: self._keys[key_hash] for key_hash in key_hashes if key_hash in self._keys}

    def states_of(self, key_hashes: Sequence[bytes]) -> dict[bytes, bytes]:
        """See `StateStore`."""
        found = ((key_hash, self.get(key_hash, b"")) for key_hash in key_hashes)
        return {key_hash: contents for key_hash, contents in found if contents is not None}

    def cells_of(self, key_hashes: Sequence[bytes]) -> dict[bytes, dict[bytes, bytes]]:
        """See `StateStore`."""
        found = {key_hash: self._cells.get(key_hash, {}) for key_hash in key_hashes}
        return {key_hash: dict(cells) for key_hash, cells in found.items() if are_few(cells)}

    def get(self, key_hash: bytes, cell: bytes) -> bytes | None:
        """See `StateStore`."""
        cells = self._cells.get(key_hash)
        return None if cells is None else cells.get(cell)

    def scan(self, key_hash: bytes, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """See `StateStore`."""
        cells = self._cells.get(key_hash, {})
        return iter([(cell, cells[cell]) for cell in sorted(cells) if cell.startswith(prefix)])

    def mark(self, key_hash: bytes, domain: int, tag: str) -> int | None:
        """See `StateStore`."""
        return self._marks.get(key_hash, {}).get((domain, tag))

    def marks(self, key_hash: bytes) -> Iterator[tuple[int, str, int]]:
        """See `StateStore`."""
        return iter([(domain, tag, timestamp) for (domain, tag), timestamp in self._marks.get(key_hash, {}).items()])

    def until(self, domain: int, limit: int) -> Iterator[Mark]:
        """See `StateStore`."""
        ordered = self._ordered.get(domain, [])
        return iter(ordered[: bisect_left(ordered, Mark(limit + 1, b"", ""))])

    def due(self, domain: int, limit: int) -> MarkColumns:
        """See `StateStore`."""
        return MarkColumns.of(self.until(domain, limit))

    def may_know_id(self, record_id: bytes) -> bool:
        """See `StateStore`."""
        return record_id in self._ids

    def knows_id(self, record_id: bytes) -> bool:
        """See `StateStore`."""
        return record_id in self._ids

    def segment_names(self) -> list[bytes]:
        """See `StateStore`."""
        return sorted(self._segments)

    def segment(self, name: bytes) -> bytes | None:
        """See `StateStore`."""
        return self._segments.get(name)

    def apply(self, delta: Delta) -> None:
        """See `StateStore`."""
        self._keys.update(delta.keys)
        for (key_hash, cell), contents in delta.cells.items():
            cells = self._cells.setdefault(key_hash, {})
            if (old := cells.pop(cell, None)) is not None:
                self._size -= len(cell) + len(old)
            if contents is not None:
                cells[cell] = contents
                self._size += len(cell) + len(contents)
        if len(delta.marks) > _MANY:
            self._set_marks(delta.marks)
        else:
            for (key_hash, domain, tag), timestamp in delta.marks.items():
                self._set_mark(key_hash, domain, tag, timestamp)
        self._ids.update(delta.ids)
        if (limit := delta.forget_ids_before) is not None:
            self._ids = {record_id: timestamp for record_id, timestamp in self._ids.items() if timestamp >= limit}
        # Only keys that lose something can be empty, and those that come without anything.
        lessened = {key_hash for (key_hash, _), contents in delta.cells.items() if contents is None}
        lessened.update([key_hash for (key_hash, _, _), timestamp in delta.marks.items() if timestamp is None])
        for key_hash in lessened | (delta.keys.keys() - self._cells.keys()):
            self._forget_if_empty(key_hash)
        for name, contents in delta.segments.items():
            self._set_segment(name, contents)

    def _set_segment(self, name: bytes, contents: bytes | None) -> None:
        if (old := self._segments.pop(name, None)) is not None:
            self._size -= len(name) + len(old)
        if contents is not None:
            self._segments[name] = contents
            self._size += len(name) + len(contents)

    def _set_mark(self, key_hash: bytes, domain: int, tag: str, timestamp: int | None) -> None:
        marks = self._marks.setdefault(key_hash, {})
        ordered = self._ordered.setdefault(domain, [])
        if (old := marks.pop((domain, tag), None)) is not None:
            del ordered[bisect_left(ordered, Mark(old, key_hash, tag))]
        if timestamp is not None:
            marks[domain, tag] = timestamp
            insort(ordered, Mark(timestamp, key_hash, tag))

    def _set_marks(self, changed: Mapping[tuple[bytes, int, str], int | None]) -> None:
        """Set many marks by sorting, which is fast for a list that is nearly sorted."""
        removed: set[tuple[int, Mark]] = set()
        for (key_hash, domain, tag), timestamp in changed.items():
            marks = self._marks.setdefault(key_hash, {})
            if (old := marks.pop((domain, tag), None)) is not None:
                removed.add((domain, Mark(old, key_hash, tag)))
            if timestamp is not None:
                marks[domain, tag] = timestamp
        for domain in {domain for _, domain, _ in changed}:
            unchanged = [mark for mark in self._ordered.get(domain, ()) if (domain, mark) not in removed]
            new = (
                Mark(timestamp, key_hash, tag)
                for (key_hash, mark_domain, tag), timestamp in changed.items()
                if mark_domain == domain and timestamp is not None
            )
            self._ordered[domain] = sorted([*unchanged, *new])

    def _forget_if_empty(self, key_hash: bytes) -> None:
        if not self._cells.get(key_hash) and not self._marks.get(key_hash):
            self._cells.pop(key_hash, None)
            self._marks.pop(key_hash, None)
            self._keys.pop(key_hash, None)

    def dump(self) -> Iterator[Delta]:
        """See `StateStore`."""
        yield Delta(
            keys=dict(self._keys),
            cells={
                (key_hash, cell): contents
                for key_hash, cells in self._cells.items()
                for cell, contents in cells.items()
            },
            marks={
                (key_hash, *mark): timestamp
                for key_hash, marks in self._marks.items()
                for mark, timestamp in marks.items()
            },
            ids=dict(self._ids),
        )
        for segments in pieces_of((name, self._segments[name]) for name in self.segment_names()):
            yield Delta(segments=dict(segments))

    def count(self) -> dict[str, int]:
        """See `StateStore`."""
        return {
            "keys": len(self._keys),
            "cells": sum(map(len, self._cells.values())),
            "marks": sum(map(len, self._marks.values())),
            "ids": len(self._ids),
            "segments": len(self._segments),
        }

    def size(self) -> int:
        """See `StateStore`; the bytes of cells and segments with their names."""
        return self._size


class Layered:
    """A `StateStore` that contains uncommitted migrated state: the delta that `Computation.take_over` writes.

    Args:
        below: The committed state.
        above: The migrated state: keys that `below` does not have, with their cells and marks, and removed segments.
    """

    def __init__(self, below: StateStore, above: Delta) -> None:
        self._below, self._migrated = below, above
        self._above = MemoryStateStore()
        self._above.apply(Delta(above.keys, above.cells, above.marks))

    def key(self, key_hash: bytes) -> bytes | None:
        """See `StateStore`."""
        return self._above.key(key_hash) or self._below.key(key_hash)

    def keys_of(self, key_hashes: Sequence[bytes]) -> dict[bytes, bytes]:
        """See `StateStore`."""
        return self._below.keys_of(key_hashes) | self._above.keys_of(key_hashes)

    def get(self, key_hash: bytes, cell: bytes) -> bytes | None:
        """See `StateStore`."""
        return self._of(key_hash).get(key_hash, cell)

    def states_of(self, key_hashes: Sequence[bytes]) -> dict[bytes, bytes]:
        """See `StateStore`."""
        return self._below.states_of(key_hashes) | self._above.states_of(key_hashes)

    def cells_of(self, key_hashes: Sequence[bytes]) -> dict[bytes, dict[bytes, bytes]]:
        """See `StateStore`."""
        above = self._above.keys_of(key_hashes)
        return self._below.cells_of(
            [key_hash for key_hash in key_hashes if key_hash not in above]
        ) | self._above.cells_of(list(above))

    def scan(self, key_hash: bytes, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """See `StateStore`."""
        return self._of(key_hash).scan(key_hash, prefix)

    def mark(self, key_hash: bytes, domain: int, tag: str) -> int | None:
        """See `StateStore`."""
        return self._of(key_hash).mark(key_hash, domain, tag)

    def marks(self, key_hash: bytes) -> Iterator[tuple[int, str, int]]:
        """See `StateStore`."""
        return self._of(key_hash).marks(key_hash)

    def until(self, domain: int, limit: int) -> Iterator[Mark]:
        """See `StateStore`."""
        return merge(self._below.until(domain, limit), self._above.until(domain, limit))

    def due(self, domain: int, limit: int) -> MarkColumns:
        """See `StateStore`."""
        return MarkColumns.of(self.until(domain, limit))

    def may_know_id(self, record_id: bytes) -> bool:
        """See `StateStore`."""
        return self._below.may_know_id(record_id)

    def knows_id(self, record_id: bytes) -> bool:
        """See `StateStore`."""
        return self._below.knows_id(record_id)

    def segment_names(self) -> list[bytes]:
        """See `StateStore`."""
        return [name for name in self._below.segment_names() if name not in self._migrated.segments]

    def segment(self, name: bytes) -> bytes | None:
        """See `StateStore`."""
        return None if name in self._migrated.segments else self._below.segment(name)

    def apply(self, delta: Delta) -> None:
        """Raise TypeError, as a layered store is read only; `committed` makes the delta for the store below."""
        raise TypeError("a layered store lasts for one bundle; apply its committed() delta to the store below")

    def dump(self) -> Iterator[Delta]:
        """See `StateStore`."""
        yield self._migrated
        yield from (Delta(part.keys, part.cells, part.marks, part.ids) for part in self._below.dump())

    def count(self) -> dict[str, int]:
        """See `StateStore`."""
        above = self._above.count()
        return {table: number + above[table] for table, number in self._below.count().items()}

    def size(self) -> int:
        """See `StateStore`."""
        return self._below.size() + self._above.size()

    def committed(self, delta: Delta) -> Delta:
        """The migrated state and the changes of the bundle as one delta, for the store below."""
        migrated = self._migrated
        cells, marks = migrated.cells | delta.cells, migrated.marks | delta.marks
        # Entries that were migrated and then removed need not be removed from the store below.
        cells = {cell: data for cell, data in cells.items() if data is not None or cell not in migrated.cells}
        marks = {mark: time for mark, time in marks.items() if time is not None or mark not in migrated.marks}
        key_hashes = {key_hash for key_hash, _ in cells} | {key_hash for key_hash, _, _ in marks}
        keys = {key_hash: key for key_hash, key in (migrated.keys | delta.keys).items() if key_hash in key_hashes}
        segments = migrated.segments | delta.segments
        return Delta(keys, cells, marks, delta.ids, delta.forget_ids_before, segments)

    def _of(self, key_hash: bytes) -> StateStore:
        return self._below if self._above.key(key_hash) is None else self._above
