"""Committed state in memory, for the local runner and as a reference for tests of other stores."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping, Sequence

from headrace.lowlevel.state.state_store import Delta, Mark, MarkColumns, are_few, pieces_of

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
