"""Duplicates: the ids of processed records in a host's copy, by id and by time (paper §6.1.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.lowlevel.state import Delta
from headrace.runners.spark import layout

if TYPE_CHECKING:
    import lmdb

    Transaction = lmdb.Transaction[bytes]


class IdTable:
    """Two tables of LMDB that change together: those to be forgotten are found by their time."""

    def __init__(self, ids: lmdb._Database, ages: lmdb._Database) -> None:
        self.ids, self._ages = ids, ages

    def has(self, view: Transaction, record_id: bytes) -> bool:
        """Whether a record of this id was processed."""
        return view.get(layout.fit(record_id), None, self.ids) is not None

    def change(self, transaction: Transaction, delta: Delta) -> None:
        """Add and forget what a delta says."""
        if delta.ids:
            ids = [layout.named(record_id, layout.time_bytes(timestamp)) for record_id, timestamp in delta.ids.items()]
            ages = [layout.named(layout.age_name(*entry), b"") for entry in delta.ids.items()]
            transaction.cursor(self.ids).putmulti(layout.nearly_sorted(ids))
            transaction.cursor(self._ages).putmulti(layout.nearly_sorted(ages))
        if delta.forget_ids_before is not None:
            self._forget(transaction, delta.forget_ids_before)

    def _forget(self, transaction: Transaction, limit: int) -> None:
        cursor = transaction.cursor(self._ages)
        while cursor.first():
            key, value = cursor.item()
            timestamp, record_id = layout.age_of(layout.unnamed(key, value)[0])
            if timestamp >= limit:
                return
            id_key = layout.fit(record_id)
            time = transaction.get(id_key, None, self.ids)
            # An id that came again at another time has an older entry here, which counts for nothing.
            if time is not None and layout.timestamp_of(layout.unnamed(id_key, time)[1]) < limit:
                transaction.delete(id_key, db=self.ids)
            cursor.delete()
