"""Segments in a state store: entries of many keys under one name, see `lowlevel.state.segment` (paper §4.4)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from headrace.runners.spark.statestore import key_layout

if TYPE_CHECKING:
    from headrace.runners.spark.statestore.lmdb_private import Database, Transaction


class SegmentTable:
    """A table of LMDB from names to contents of some megabytes, which are read one by one."""

    def __init__(self, table: Database) -> None:
        self.table = table

    def names(self, view: Transaction) -> list[bytes]:
        """All names in order; the contents are not read."""
        cursor = view.cursor(self.table)
        keys = cursor.iternext(keys=True, values=False)
        # Keys are in order except for those that stand for longer names.
        return sorted(key_layout.unnamed(key, cursor.value())[0] if key_layout.is_cut(key) else key for key in keys)

    def get(self, view: Transaction, name: bytes) -> bytes | None:
        """The contents of a segment, which stay valid after the view ends; None if there is no such segment."""
        key = key_layout.fit(name)
        value = view.get(key, None, self.table)
        return None if value is None else key_layout.unnamed(key, value)[1]

    def all(self, view: Transaction) -> Iterator[tuple[bytes, bytes]]:
        """Names and contents."""
        return (key_layout.unnamed(key, value) for key, value in view.cursor(self.table))

    def change(self, transaction: Transaction, segments: Mapping[bytes, bytes | None]) -> None:
        """Put each segment that has contents, and delete each that has None."""
        for name, contents in segments.items():
            if contents is None:
                transaction.delete(key_layout.fit(name), db=self.table)
            else:
                transaction.put(*key_layout.named(name, contents), db=self.table)
