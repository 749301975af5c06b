"""Marks in a host's copy: timers and holds by row, and in order of time (paper §4.6, §6.2)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from itertools import islice, takewhile
from typing import TYPE_CHECKING

import numpy as np

from headrace.lowlevel.state import Mark, MarkColumns
from headrace.runners.spark import layout

if TYPE_CHECKING:
    import lmdb

    Transaction = lmdb.Transaction[bytes]

_READ_AT_ONCE = 4_096
_FIRST_LOOK = 64
Changes = Mapping[tuple[bytes, int, str], int | None]


class MarkTable:
    """Two tables of LMDB that change together: what a mark's timestamp is, and which mark comes first."""

    def __init__(self, by_row: lmdb._Database, by_time: lmdb._Database) -> None:
        self.by_row, self._by_time = by_row, by_time

    def get(self, view: Transaction, row: bytes, domain: int, tag: str) -> int | None:
        """The timestamp of a mark."""
        name = layout.mark_name(row, domain, tag)
        key = name if len(name) <= layout.LONGEST_PLAIN else layout.fit(name)
        if (value := view.get(key, None, self.by_row)) is None:
            return None
        return layout.timestamp_of(value if key is name else layout.unnamed(key, value)[1])

    def until(self, view: Transaction, domain: int, limit: int) -> Iterator[Mark]:
        """Marks of a domain up to a timestamp, in order; hardly more are read than are asked for."""
        for names in self._names_until(view, domain, limit, 1):
            yield from layout.columns_of(names).marks()

    def due(self, view: Transaction, domain: int, limit: int) -> MarkColumns:
        """The same, all at once."""
        found = MarkColumns([], [], [])
        # Names go part by part: they take more room than what is made of them.
        for names in self._names_until(view, domain, limit, _FIRST_LOOK):
            timestamps, rows, tags = layout.columns_of(names)
            found.timestamps.extend(timestamps)
            found.rows.extend(rows)
            found.tags.extend(tags)
        return found

    def _names_until(self, view: Transaction, domain: int, limit: int, size: int) -> Iterator[list[bytes]]:
        """Their `order_name`s, first a few of them, then more."""
        end = layout.order_end(domain, limit)
        cursor = view.cursor(self._by_time)
        found = cursor.iternext(keys=True, values=False) if cursor.set_range(bytes([domain])) else iter(())
        while keys := list(islice(found, size)):
            stop = bisect_left(keys, end)
            longest = max(map(len, keys[:stop]), default=0)
            if longest >= layout.ORDER_DOUBTFUL_FROM:
                names = [self._whole_name(view, key) for key in [*keys[:stop], *_before(found, end)]]
                yield sorted(names, key=layout.mark_of)
                return
            yield keys[:stop]
            if stop < len(keys):
                return
            size = min(8 * size, _READ_AT_ONCE)

    def _whole_name(self, view: Transaction, key: bytes) -> bytes:
        return layout.unnamed(key, view.get(key, b"", self._by_time))[0] if layout.is_cut(key) else key

    def change(self, transaction: Transaction, changes: Changes) -> None:
        """Set and take away what a delta says."""
        if not changes:
            return
        names = layout.mark_names(changes)
        timestamps = list(changes.values())
        if max(map(len, names)) > layout.LONGEST_PLAIN:
            for name, timestamp in zip(names, timestamps, strict=True):
                self._change_one(transaction, name, timestamp)
            return
        # Neighbours share a page of the tree, so order saves more than it costs.
        places = layout.places_by_head(names)
        self._take_away(transaction, [names[place] for place in places if timestamps[place] is None])
        kept = [(names[place], time) for place in places if (time := timestamps[place]) is not None]
        if kept:
            self._set(transaction, [name for name, _ in kept], np.array([time for _, time in kept], np.int64))

    def _take_away(self, transaction: Transaction, names: list[bytes]) -> None:
        pop, by_row = transaction.pop, self.by_row
        times = [pop(name, by_row) for name in names]
        found = [layout.order_name(name, time) for name, time in zip(names, times, strict=True) if time is not None]
        for key in sorted(found):
            transaction.delete(key, b"", self._by_time)

    def _set(self, transaction: Transaction, names: list[bytes], timestamps: layout.Times) -> None:
        pairs = list(zip(names, layout.times_bytes(timestamps), strict=True))
        consumed, added = transaction.cursor(self.by_row).putmulti(pairs, overwrite=False)
        if added < consumed:
            self._move(transaction, pairs)
        order = [(name[16:17] + time + name, b"") for name, time in pairs]
        transaction.cursor(self._by_time).putmulti([order[place] for place in timestamps.argsort(kind="stable")])

    def _move(self, transaction: Transaction, pairs: list[tuple[bytes, bytes]]) -> None:
        """Give marks that were there already their new times; the others have them."""
        before = dict(transaction.cursor(self.by_row).getmulti([name for name, _ in pairs]))
        moved = [(name, time) for name, time in pairs if before[name] != time]
        for key in sorted(layout.order_name(name, before[name]) for name, _ in moved):
            transaction.delete(key, b"", self._by_time)
        transaction.cursor(self.by_row).putmulti(moved)

    def _change_one(self, transaction: Transaction, name: bytes, timestamp: int | None) -> None:
        key = layout.fit(name)
        if (old := transaction.pop(key, self.by_row)) is not None:
            before = layout.unnamed(key, old)[1]
            transaction.delete(layout.fit(layout.order_name(name, before)), db=self._by_time)
        if timestamp is not None:
            time = layout.time_bytes(timestamp)
            transaction.put(*layout.named(name, time), db=self.by_row)
            transaction.put(*layout.named(layout.order_name(name, time), b""), db=self._by_time)


def _before(keys: Iterator[bytes], end: bytes) -> Iterator[bytes]:
    return takewhile(end.__gt__, keys)
