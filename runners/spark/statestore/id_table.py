"""Duplicates: the ids of processed records in a state store, by id and by time (paper §6.1.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.lowlevel.state.state_store import Delta
from headrace.runners.spark.statestore import key_layout

if TYPE_CHECKING:
    from headrace.runners.spark.statestore.lmdb_private import Database, Transaction


class IdTable:
    """Two tables of LMDB that change together: ids by name, and ids by time, to find those that are to be forgotten."""

    def __init__(self, ids: Database, ages: Database) -> None:
        self.ids, self._ages = ids, ages

    def has(self, view: Transaction, record_id: bytes) -> bool:
        """Whether a record with this id was processed."""
        return view.get(key_layout.fit(record_id), None, self.ids) is not None

    def change(self, transaction: Transaction, delta: Delta) -> None:
        """Apply the ids of a delta."""
        if delta.ids:
            ids = [
                key_layout.named(record_id, key_layout.time_bytes(timestamp))
                for record_id, timestamp in delta.ids.items()
            ]
            ages = [key_layout.named(key_layout.age_name(*entry), b"") for entry in delta.ids.items()]
            transaction.cursor(self.ids).putmulti(key_layout.nearly_sorted(ids))
            transaction.cursor(self._ages).putmulti(key_layout.nearly_sorted(ages))
        if delta.forget_ids_before is not None:
            self._forget(transaction, delta.forget_ids_before)

    def _forget(self, transaction: Transaction, limit: int) -> None:
        cursor = transaction.cursor(self._ages)
        while cursor.first():
            key, value = cursor.item()
            timestamp, record_id = key_layout.age_of(key_layout.unnamed(key, value)[0])
            if timestamp >= limit:
                return
            id_key = key_layout.fit(record_id)
            time = transaction.get(id_key, None, self.ids)
            # If the id was added again with another time, this entry is obsolete.
            if time is not None and key_layout.timestamp_of(key_layout.unnamed(id_key, time)[1]) < limit:
                transaction.delete(id_key, db=self.ids)
            cursor.delete()
