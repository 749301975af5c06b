"""Committed state with migrated state on top, for the bundle that migrates it (MillWheel paper §4.4)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import merge

from headrace.lowlevel.state.memory_store import MemoryStateStore
from headrace.lowlevel.state.state_store import Delta, Mark, MarkColumns, StateStore


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
