"""Segments in a host's copy of state: lines of many keys under a name, see `headrace.lowlevel.segment` (paper §4.4)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from headrace.runners.spark import layout

if TYPE_CHECKING:
    import lmdb

    Transaction = lmdb.Transaction[bytes]


class SegmentTable:
    """A table of LMDB from names to contents, which are megabytes and are read one at a time."""

    def __init__(self, table: lmdb._Database) -> None:
        self.table = table

    def names(self, view: Transaction) -> list[bytes]:
        """All names in order, without a look at the contents."""
        cursor = view.cursor(self.table)
        keys = cursor.iternext(keys=True, values=False)
        # Those that were cut are almost in order.
        return sorted(layout.unnamed(key, cursor.value())[0] if layout.is_cut(key) else key for key in keys)

    def get(self, view: Transaction, name: bytes) -> bytes | None:
        """Contents of a segment; a copy, as LMDB's own bytes are only there until the view ends."""
        key = layout.fit(name)
        value = view.get(key, None, self.table)
        return None if value is None else layout.unnamed(key, value)[1]

    def all(self, view: Transaction) -> Iterator[tuple[bytes, bytes]]:
        """Names and contents."""
        return (layout.unnamed(key, value) for key, value in view.cursor(self.table))

    def change(self, transaction: Transaction, segments: Mapping[bytes, bytes | None]) -> None:
        """Put those that have contents, take away the others."""
        for name, contents in segments.items():
            if contents is None:
                transaction.delete(layout.fit(name), db=self.table)
            else:
                transaction.put(*layout.named(name, contents), db=self.table)
