"""The tables of a state store: marks (timers and holds), record ids and segments (paper §4.6, §6.2)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice, starmap, takewhile
from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np

from headrace.lowlevel.state.state_store import Delta, Mark, MarkColumns
from headrace.runners.spark.statestore import key_layout

if TYPE_CHECKING:
    from headrace.runners.spark.statestore.lmdb_private import Database, Transaction

_READ_AT_ONCE = 4_096
_FIRST_READ = 64
"""Number of names that `due` reads at first; `_READ_AT_ONCE` is the most that are read at once."""
Changes = Mapping[tuple[bytes, int, str], int | None]


def put_all(transaction: Transaction, table: Database, pairs: Iterable[tuple[bytes, bytes]]) -> None:
    """Put entries in the order of the tree: neighbours share a page, so that halves the time."""
    transaction.cursor(table).putmulti(sorted(pairs, key=itemgetter(0)))


class MarkTable:
    """Two tables of LMDB that change together: the timestamp of each mark, and marks in order of time."""

    def __init__(self, by_key_hash: Database, by_time: Database) -> None:
        self.by_key_hash, self._by_time = by_key_hash, by_time

    def get(self, view: Transaction, key_hash: bytes, domain: int, tag: str) -> int | None:
        """The timestamp of a mark; None if there is no such mark."""
        name = key_layout.mark_name(key_hash, domain, tag)
        key = name if len(name) <= key_layout.LONGEST_PLAIN else key_layout.key_of_name(name)
        if (value := view.get(key, None, self.by_key_hash)) is None:
            return None
        return key_layout.timestamp_of(value if key is name else key_layout.content_of(key, value)[1])

    def until(self, view: Transaction, domain: int, limit: int) -> Iterator[Mark]:
        """Marks of a domain up to a timestamp, in order; few are read in advance."""
        for names in self._names_until(view, domain, limit, 1):
            yield from key_layout.columns_of(names).marks()

    def due(self, view: Transaction, domain: int, limit: int) -> MarkColumns:
        """The marks of `until`, as columns of equal length."""
        marks = MarkColumns([], [], [])
        # Converted in parts: names take more memory than columns.
        for names in self._names_until(view, domain, limit, _FIRST_READ):
            timestamps, key_hashes, tags = key_layout.columns_of(names)
            marks.timestamps.extend(timestamps)
            marks.key_hashes.extend(key_hashes)
            marks.tags.extend(tags)
        return marks

    def _names_until(self, view: Transaction, domain: int, limit: int, size: int) -> Iterator[list[bytes]]:
        """The `order_name`s of marks up to a timestamp, in lists of growing size."""
        end = key_layout.order_end(domain, limit)
        cursor = view.cursor(self._by_time)
        remaining = cursor.iternext(keys=True, values=False) if cursor.set_range(bytes([domain])) else iter(())
        while keys := list(islice(remaining, size)):
            stop = bisect_left(keys, end)
            longest = max(map(len, keys[:stop]), default=0)
            if longest >= key_layout.ORDER_DOUBTFUL_FROM:
                names = [self._whole_name(view, key) for key in [*keys[:stop], *takewhile(end.__gt__, remaining)]]
                yield sorted(names, key=key_layout.mark_of)
                return
            yield keys[:stop]
            if stop < len(keys):
                return
            size = min(8 * size, _READ_AT_ONCE)

    def _whole_name(self, view: Transaction, key: bytes) -> bytes:
        return key_layout.content_of(key, view.get(key, b"", self._by_time))[0] if key_layout.is_cut(key) else key

    def change(self, transaction: Transaction, changes: Changes) -> None:
        """Apply the marks of a delta."""
        if not changes:
            return
        names = list(starmap(key_layout.mark_name, changes))
        timestamps = list(changes.values())
        if max(map(len, names)) > key_layout.LONGEST_PLAIN:
            for name, timestamp in zip(names, timestamps, strict=True):
                self._change_one(transaction, name, timestamp)
            return
        marks = sorted(zip(names, timestamps, strict=True), key=itemgetter(0))
        if removed := [name for name, time in marks if time is None]:
            self._delete(transaction, removed)
        if present := [(name, time) for name, time in marks if time is not None]:
            self._set(transaction, present)

    def _delete(self, transaction: Transaction, names: list[bytes]) -> None:
        pop = transaction.cursor(self.by_key_hash).pop
        # The `order_name` of each mark, without a call.
        keys = [name[16:17] + time + name for name in names if (time := pop(name)) is not None]
        delete, by_time = transaction.delete, self._by_time
        for key in sorted(keys):
            delete(key, b"", by_time)

    def _set(self, transaction: Transaction, marks: list[tuple[bytes, int]]) -> None:
        timestamps = np.array([time for _, time in marks], np.int64)
        pairs = list(zip([name for name, _ in marks], key_layout.times_bytes(timestamps), strict=True))
        consumed, added = transaction.cursor(self.by_key_hash).putmulti(pairs, overwrite=False)
        if added < consumed:
            self._move(transaction, pairs)
        order = [(name[16:17] + time + name, b"") for name, time in pairs]
        transaction.cursor(self._by_time).putmulti([order[index] for index in timestamps.argsort(kind="stable")])

    def _move(self, transaction: Transaction, pairs: list[tuple[bytes, bytes]]) -> None:
        """Move marks that the tables have already to their new times."""
        before = dict(transaction.cursor(self.by_key_hash).getmulti([name for name, _ in pairs]))
        moved = [(name, time) for name, time in pairs if before[name] != time]
        for key in sorted(key_layout.order_name(name, before[name]) for name, _ in moved):
            transaction.delete(key, b"", self._by_time)
        transaction.cursor(self.by_key_hash).putmulti(moved)

    def _change_one(self, transaction: Transaction, name: bytes, timestamp: int | None) -> None:
        key = key_layout.key_of_name(name)
        if (old := transaction.pop(key, self.by_key_hash)) is not None:
            before = key_layout.content_of(key, old)[1]
            transaction.delete(key_layout.key_of_name(key_layout.order_name(name, before)), db=self._by_time)
        if timestamp is not None:
            time = key_layout.time_bytes(timestamp)
            transaction.put(*key_layout.key_and_value(name, time), db=self.by_key_hash)
            transaction.put(*key_layout.key_and_value(key_layout.order_name(name, time), b""), db=self._by_time)


class IdTable:
    """Two tables of LMDB that change together: ids by name, and ids by time, to find those that are to be forgotten."""

    def __init__(self, ids: Database, ages: Database) -> None:
        self.ids, self._ages = ids, ages

    def has(self, view: Transaction, record_id: bytes) -> bool:
        """Whether a record with this id was processed."""
        return view.get(key_layout.key_of_name(record_id), None, self.ids) is not None

    def change(self, transaction: Transaction, delta: Delta) -> None:
        """Apply the ids of a delta."""
        if delta.ids:
            ids = [
                key_layout.key_and_value(record_id, key_layout.time_bytes(timestamp))
                for record_id, timestamp in delta.ids.items()
            ]
            ages = [key_layout.key_and_value(key_layout.age_name(*entry), b"") for entry in delta.ids.items()]
            put_all(transaction, self.ids, ids)
            put_all(transaction, self._ages, ages)
        if delta.forget_ids_before is not None:
            self._forget(transaction, delta.forget_ids_before)

    def _forget(self, transaction: Transaction, limit: int) -> None:
        cursor = transaction.cursor(self._ages)
        while cursor.first():
            key, value = cursor.item()
            timestamp, record_id = key_layout.age_of(key_layout.content_of(key, value)[0])
            if timestamp >= limit:
                return
            id_key = key_layout.key_of_name(record_id)
            time = transaction.get(id_key, None, self.ids)
            # If the id was added again with another time, this entry is obsolete.
            if time is not None and key_layout.timestamp_of(key_layout.content_of(id_key, time)[1]) < limit:
                transaction.delete(id_key, db=self.ids)
            cursor.delete()


class SegmentTable:
    """A table of LMDB from names to contents of some megabytes, which are read one by one."""

    def __init__(self, table: Database) -> None:
        self.table = table

    def names(self, view: Transaction) -> list[bytes]:
        """All names in order; the contents are not read."""
        cursor = view.cursor(self.table)
        keys = cursor.iternext(keys=True, values=False)
        # Keys are in order except for those that stand for longer names.
        return sorted(key_layout.content_of(key, cursor.value())[0] if key_layout.is_cut(key) else key for key in keys)

    def get(self, view: Transaction, name: bytes) -> bytes | None:
        """The contents of a segment, which stay valid after the view ends; None if there is no such segment."""
        key = key_layout.key_of_name(name)
        value = view.get(key, None, self.table)
        return None if value is None else key_layout.content_of(key, value)[1]

    def all(self, view: Transaction) -> Iterator[tuple[bytes, bytes]]:
        """Names and contents."""
        return (key_layout.content_of(key, value) for key, value in view.cursor(self.table))

    def change(self, transaction: Transaction, segments: Mapping[bytes, bytes | None]) -> None:
        """Put each segment that has contents, and delete each that has None."""
        for name, contents in segments.items():
            if contents is None:
                transaction.delete(key_layout.key_of_name(name), db=self.table)
            else:
                transaction.put(*key_layout.key_and_value(name, contents), db=self.table)
