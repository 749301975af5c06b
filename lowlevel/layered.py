"""A committed copy below what a bundle has taken over from another implementation of its computation (paper §4.4)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import merge

from headrace.lowlevel.state import Copy, Delta, Mark, MarkColumns, MemoryCopy


class Layered:
    """A `Copy` that has the keys of a delta, too: the bundle that brings the delta finds them as if committed before.

    Args:
        below: What is committed.
        above: Keys that `below` has nothing of, with their cells and marks, and segments that are gone.
    """

    def __init__(self, below: Copy, above: Delta) -> None:
        self._below, self._taken = below, above
        self._above = MemoryCopy()
        self._above.apply(Delta(above.keys, above.cells, above.marks))

    def key(self, row: bytes) -> bytes | None:
        """See `Copy`."""
        return self._above.key(row) or self._below.key(row)

    def keys_of(self, rows: Sequence[bytes]) -> dict[bytes, bytes]:
        """See `Copy`."""
        return self._below.keys_of(rows) | self._above.keys_of(rows)

    def get(self, row: bytes, cell: bytes) -> bytes | None:
        """See `Copy`."""
        return self._of(row).get(row, cell)

    def states_of(self, rows: Sequence[bytes]) -> dict[bytes, bytes]:
        """See `Copy`."""
        return self._below.states_of(rows) | self._above.states_of(rows)

    def cells_of(self, rows: Sequence[bytes]) -> dict[bytes, dict[bytes, bytes]]:
        """See `Copy`."""
        taken = self._above.keys_of(rows)
        return self._below.cells_of([row for row in rows if row not in taken]) | self._above.cells_of(list(taken))

    def scan(self, row: bytes, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """See `Copy`."""
        return self._of(row).scan(row, prefix)

    def mark(self, row: bytes, domain: int, tag: str) -> int | None:
        """See `Copy`."""
        return self._of(row).mark(row, domain, tag)

    def marks(self, row: bytes) -> Iterator[tuple[int, str, int]]:
        """See `Copy`."""
        return self._of(row).marks(row)

    def until(self, domain: int, limit: int) -> Iterator[Mark]:
        """See `Copy`."""
        return merge(self._below.until(domain, limit), self._above.until(domain, limit))

    def due(self, domain: int, limit: int) -> MarkColumns:
        """See `Copy`."""
        found = list(self.until(domain, limit))
        return MarkColumns(*map(list, zip(*found, strict=True))) if found else MarkColumns([], [], [])

    def may_know_id(self, record_id: bytes) -> bool:
        """See `Copy`."""
        return self._below.may_know_id(record_id)

    def knows_id(self, record_id: bytes) -> bool:
        """See `Copy`."""
        return self._below.knows_id(record_id)

    def segment_names(self) -> list[bytes]:
        """See `Copy`."""
        return [name for name in self._below.segment_names() if name not in self._taken.segments]

    def segment(self, name: bytes) -> bytes | None:
        """See `Copy`."""
        return None if name in self._taken.segments else self._below.segment(name)

    def apply(self, delta: Delta) -> None:
        """Not for this one: what a bundle changes is added to what it has taken over, see `committed`."""
        raise TypeError("a layered copy lasts for one bundle; apply its committed() delta to the copy below")

    def dump(self) -> Iterator[Delta]:
        """See `Copy`."""
        yield self._taken
        yield from (Delta(part.keys, part.cells, part.marks, part.ids) for part in self._below.dump())

    def count(self) -> dict[str, int]:
        """See `Copy`."""
        above = self._above.count()
        return {table: number + above[table] for table, number in self._below.count().items()}

    def size(self) -> int:
        """See `Copy`."""
        return self._below.size() + self._above.size()

    def committed(self, delta: Delta) -> Delta:
        """What was taken over and what the bundle changed then, for the copy below."""
        taken = self._taken
        cells, marks = taken.cells | delta.cells, taken.marks | delta.marks
        # What came and went again was never there.
        cells = {place: data for place, data in cells.items() if data is not None or place not in taken.cells}
        marks = {mark: time for mark, time in marks.items() if time is not None or mark not in taken.marks}
        stays = {row for row, _ in cells} | {row for row, _, _ in marks}
        keys = {row: key for row, key in (taken.keys | delta.keys).items() if row in stays}
        segments = taken.segments | delta.segments
        return Delta(keys, cells, marks, delta.ids, delta.forget_ids_before, segments)

    def _of(self, row: bytes) -> Copy:
        return self._below if self._above.key(row) is None else self._above
