"""A host's copy of committed state in LMDB (paper §6.2: hard state in a store, a soft copy near the work).

One environment holds one computation's interval. Several processes of a host may open it, read it and bring it forward
at the same time: readers see the snapshot that they began with, one writer at a time goes on, and the *position* (the
name of the last committed change that is in) moves in the transaction that makes the change. So a change goes in once,
whoever tries, and whoever dies in the middle leaves the copy as it was.

Nothing is synced to the disk: a copy outlives its processes but must not be trusted after the machine went down
(see `headrace.runners.spark.copies`), and is always made again from the checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, cast

import lmdb

from headrace.lowlevel.state import FEW_BYTES, FEW_CELLS, Delta, Mark, MarkColumns, pieces_of
from headrace.runners.spark import layout
from headrace.runners.spark.allocator import give_back
from headrace.runners.spark.copyfilter import CopyFilter
from headrace.runners.spark.idtable import IdTable
from headrace.runners.spark.marktable import MarkTable
from headrace.runners.spark.pages import PAGES
from headrace.runners.spark.room import MAX_READERS, reserve_lock, told
from headrace.runners.spark.segmenttable import SegmentTable

DAMAGE: tuple[type[Exception], ...] = (lmdb.Error,)
"""What LMDB raises for a file that is not, or no longer, a database: almost anything. Make the copy again, once."""

_TABLES = (b"keys", b"cells", b"marks", b"order", b"ids", b"ages", b"segments", b"meta")
_LAYOUT = b"%d" % layout.LAYOUT_VERSION
_MANY_CHANGES = 20_000
"""Entries that a transaction changes, each on a page of 4 KiB in the worst case."""
_PIECE_ENTRIES = 20_000
_PIECE_BYTES = 8 << 20
_ENTRY_BYTES = 64
"""About what a timer takes up."""

if TYPE_CHECKING:
    Transaction = lmdb.Transaction[bytes]
Pairs = list[tuple[bytes, bytes]]


class _Released:
    def __init__(self, path: Path) -> None:
        self._path = path

    def __getattr__(self, name: str) -> NoReturn:
        raise RuntimeError(f"copy {self._path} was released; call refresh() before reading")


class LmdbCopy:
    """A `Copy` on disk. It is used by one thread; every process opens it once (LMDB's rule).

    Reads see the state as of the last `refresh`; `release` ends that view, so that LMDB can use the space of older
    state again. `map_size` (bytes) is what the environment can hold before it is opened again with twice that.
    """

    def __init__(self, path: Path, map_size: int = 1 << 30) -> None:
        self.path = path
        # In place of a view that ended: reads need no test whether there is one.
        self._no_view = cast("Transaction", _Released(path))
        self._view = self._no_view
        self._filter = CopyFilter()
        self._changed = 0
        """Entries that the last transaction changed."""
        with told(path):
            self._open(map_size)

    # --- opening and views -------------------------------------------------------------------------------------------

    def _open(self, map_size: int) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        reserve_lock(self.path)
        used = self.path / "data.mdb"
        # Room for the file to double: another process may have grown it.
        while used.exists() and map_size < 2 * used.stat().st_size:
            map_size *= 2
        self._map_size = map_size
        self._env = lmdb.open(
            str(self.path),
            map_size=map_size,
            max_dbs=len(_TABLES),
            max_readers=MAX_READERS,
            sync=False,
            metasync=False,
            meminit=False,
            readahead=False,
        )
        PAGES.opened(self.path)
        self._page_size = self._env.stat()["psize"]
        self._open_tables()
        self.refresh()

    def _open_tables(self) -> None:
        with self._env.begin(write=True) as transaction:
            tables = [self._env.open_db(name, transaction) for name in _TABLES]
            *self._content, self._meta = tables
            self._keys, self._cells, marks, order, ids, ages, segments = self._content
            self._marks, self._ids, self._segments = MarkTable(marks, order), IdTable(ids, ages), SegmentTable(segments)
            if transaction.get(b"layout", _LAYOUT, self._meta) != _LAYOUT:
                raise lmdb.VersionMismatchError(f"copy {self.path} has another layout than {_LAYOUT.decode()}")
            transaction.put(b"layout", _LAYOUT, db=self._meta)

    def refresh(self) -> str:
        """Let reads see the newest state; returns its position."""
        self.release()
        try:
            self._view = self._env.begin()
        except lmdb.MapResizedError:
            self._reopen(self._map_size)
        return self.position

    def release(self) -> None:
        """End the view that reads have; the next read needs a `refresh`."""
        self._filter.view_ends()
        if self._view is not self._no_view:
            self._view.abort()
            self._view = self._no_view

    def _reopen(self, map_size: int) -> None:
        # Closing and opening instead of `set_mapsize`: that one is unsafe next to other processes.
        self.close()
        self._open(map_size)

    def close(self) -> None:
        """Let go of the files."""
        self.release()
        self._env.close()
        PAGES.closed(self.path)

    @property
    def position(self) -> str:
        """Name of the last change that is in, `""` for an empty copy."""
        return self._position_in(self._view)

    def _position_in(self, transaction: Transaction) -> str:
        return transaction.get(b"position", b"", self._meta).decode()

    # --- reading -----------------------------------------------------------------------------------------------------

    def key(self, row: bytes) -> bytes | None:
        """See `Copy`."""
        return self._view.get(row, None, self._keys)

    def keys_of(self, rows: Sequence[bytes]) -> dict[bytes, bytes]:
        """See `Copy`."""
        # In order of the rows, neighbours in the tree are found without a way from its root.
        return dict(self._view.cursor(self._keys).getmulti(sorted(rows)))

    def states_of(self, rows: Sequence[bytes]) -> dict[bytes, bytes]:
        """See `Copy`."""
        return dict(self._view.cursor(self._cells).getmulti(sorted(rows)))

    def cells_of(self, rows: Sequence[bytes]) -> dict[bytes, dict[bytes, bytes]]:
        """See `Copy`."""
        cursor = self._view.cursor(self._cells)
        read = ((row, _few_cells(row, cursor)) for row in sorted(rows))
        return {row: cells for row, cells in read if cells is not None}

    def get(self, row: bytes, cell: bytes) -> bytes | None:
        """See `Copy`."""
        name = row + cell
        if len(name) <= layout.LONGEST_PLAIN:
            return self._view.get(name, None, self._cells)
        key = layout.fit(name)
        value = self._view.get(key, None, self._cells)
        return None if value is None else layout.unnamed(key, value)[1]

    def scan(self, row: bytes, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """See `Copy`."""
        start, size = row + prefix, len(row)
        for name, contents in self._entries(self._cells, start[: layout.ORDER_DOUBTFUL_FROM], start):
            yield name[size:], contents

    def mark(self, row: bytes, domain: int, tag: str) -> int | None:
        """See `Copy`."""
        return self._marks.get(self._view, row, domain, tag)

    def marks(self, row: bytes) -> Iterator[tuple[int, str, int]]:
        """See `Copy`."""
        for name, time in self._entries(self._marks.by_row, row, row):
            (_, domain, tag), timestamp = layout.entry_of(name, time)
            yield domain, tag, timestamp

    def until(self, domain: int, limit: int) -> Iterator[Mark]:
        """See `Copy`."""
        return self._marks.until(self._view, domain, limit)

    def due(self, domain: int, limit: int) -> MarkColumns:
        """See `Copy`."""
        found = self._marks.due(self._view, domain, limit)
        PAGES.were_read(len(found.rows) * _ENTRY_BYTES)
        return found

    def _entries(self, table: lmdb._Database, start: bytes, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Entries whose names begin with `prefix`, by name; `start` is the part of it that every key has."""
        cursor = self._view.cursor(table)
        pairs = cursor.iternext() if cursor.set_range(start) else iter(())
        for key, value in pairs:
            if not key.startswith(start):
                return
            if len(key) >= layout.ORDER_DOUBTFUL_FROM:
                rest = [(key, value), *_while_prefix(pairs, start)]
                names = sorted(layout.unnamed(*pair) for pair in rest)
                yield from (entry for entry in names if entry[0].startswith(prefix))
                return
            if key.startswith(prefix):
                yield key, value

    def may_know_id(self, record_id: bytes) -> bool:
        """See `Copy`."""
        return record_id in (self._filter.current or self._filter.bring_to(self.position, self._all_ids))

    def remember_chain(self, chain: Sequence[str], read: Callable[[str], Iterable[Delta]]) -> None:
        """Say what the state is made of, see `advance`: what other processes added can be read there."""
        self._filter.chain, self._filter.read = chain, read

    def _all_ids(self) -> Iterator[tuple[bytes, int]]:
        for pairs in self._pieces(self._ids.ids):
            yield from ((record_id, layout.timestamp_of(time)) for record_id, time in pairs)

    def knows_id(self, record_id: bytes) -> bool:
        """See `Copy`."""
        return self._ids.has(self._view, record_id)

    def segment_names(self) -> list[bytes]:
        """See `Copy`."""
        return self._segments.names(self._view)

    def segment(self, name: bytes) -> bytes | None:
        """See `Copy`."""
        contents = self._segments.get(self._view, name)
        PAGES.were_read(len(contents or b""))
        return contents

    def count(self) -> dict[str, int]:
        """See `Copy`."""
        tables = {"keys": self._keys, "cells": self._cells, "marks": self._marks.by_row}
        tables |= {"ids": self._ids.ids, "segments": self._segments.table}
        return {name: self._view.stat(table)["entries"] for name, table in tables.items()}

    def size(self) -> int:
        """Bytes of the pages in use."""
        pages = 0
        for table in self._content:
            stat = self._view.stat(table)
            pages += stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"]
        return pages * self._page_size

    def dump(self) -> Iterator[Delta]:
        """See `Copy`. Ends with the view: do not refresh or release meanwhile."""
        for pairs in self._pieces(self._cells):
            cells = {(name[:16], name[16:]): contents for name, contents in pairs}
            yield Delta(keys=self.keys_of(list({row for row, _ in cells})), cells=dict(cells))
        for pairs in self._pieces(self._marks.by_row):
            marks = dict(layout.entry_of(name, time) for name, time in pairs)
            yield Delta(keys=self.keys_of(list({row for row, _, _ in marks})), marks=dict(marks))
        for pairs in self._pieces(self._ids.ids):
            yield Delta(ids={record_id: layout.timestamp_of(time) for record_id, time in pairs})
        for segments in pieces_of(self._segments.all(self._view)):
            yield Delta(segments=dict(segments))
            PAGES.were_read(_PIECE_BYTES)

    def _pieces(self, table: lmdb._Database) -> Iterator[Pairs]:
        piece, size = [], 0
        for key, value in self._view.cursor(table):
            piece.append(layout.unnamed(key, value))
            size += len(value)
            if len(piece) >= _PIECE_ENTRIES or size >= _PIECE_BYTES:
                yield piece
                PAGES.were_read(_PIECE_BYTES)
                piece, size = [], 0
        if piece:
            yield piece

    # --- writing -----------------------------------------------------------------------------------------------------

    def apply(self, delta: Delta) -> None:
        """See `Copy`."""
        self._write(lambda transaction: self._change(transaction, delta))

    def extend(self, after: str, to: str, read: Callable[[], Iterable[Delta]], clear: bool = False) -> bool:
        """Bring the copy from position `after` to position `to` in one transaction; the view becomes the newest one.

        With `clear` the deltas are all there is. False if the copy is not (or no longer) at `after`: nothing is
        changed then. `read` may be called again if the environment has to grow.
        """
        return self._write(lambda transaction: self._advance(transaction, after, to, read, clear))

    def _advance(
        self, transaction: Transaction, after: str, to: str, read: Callable[[], Iterable[Delta]], clear: bool
    ) -> bool:
        if self._position_in(transaction) != after:
            return False
        if clear:
            for table in self._content:
                transaction.drop(table, delete=False)
        for delta in read():
            self._change(transaction, delta)
        transaction.put(b"position", to.encode(), db=self._meta)
        return True

    def _write(self, change: Callable[[Transaction], bool]) -> bool:
        self.release()
        # A process that was killed while it read would keep old pages from being used again.
        self._env.reader_check()
        while True:
            self._changed = 0
            try:
                with told(self.path), self._env.begin(write=True) as transaction:
                    done = change(transaction)
            except lmdb.MapFullError:
                self._reopen(2 * self._map_size)
            except lmdb.MapResizedError:
                self._reopen(self._map_size)
            else:
                if self._changed > _MANY_CHANGES:
                    # LMDB keeps the pages that a transaction has changed, for the next one, until it is closed.
                    self._reopen(self._map_size)
                    give_back()
                self.refresh()
                return done

    def _change(self, transaction: Transaction, delta: Delta) -> bool:
        self._changed += len(delta.cells) + len(delta.marks) + len(delta.ids)
        self._put(transaction, self._keys, list(delta.keys.items()))
        self._change_cells(transaction, delta)
        self._marks.change(transaction, delta.marks)
        self._ids.change(transaction, delta)
        self._segments.change(transaction, delta.segments)
        self._forget_empty(transaction, delta)
        return True

    @staticmethod
    def _put(transaction: Transaction, table: lmdb._Database, pairs: Pairs) -> None:
        transaction.cursor(table).putmulti(layout.nearly_sorted(pairs))

    def _change_cells(self, transaction: Transaction, delta: Delta) -> None:
        pairs = []
        for (row, cell), contents in delta.cells.items():
            name = row + cell
            if contents is None:
                transaction.delete(layout.fit(name), db=self._cells)
            elif len(name) <= layout.LONGEST_PLAIN:
                pairs.append((name, contents))
            else:
                pairs.append(layout.named(name, contents))
        self._put(transaction, self._cells, pairs)

    def _forget_empty(self, transaction: Transaction, delta: Delta) -> None:
        """Forget the keys of rows that have neither cells nor marks left."""
        doubtful = {mark[0] for mark, timestamp in delta.marks.items() if timestamp is None}
        doubtful.update([cell[0] for cell, contents in delta.cells.items() if contents is None])
        doubtful.update(delta.keys)
        # Rows that the delta gives something need no look into the tables.
        if doubtful:
            doubtful.difference_update([cell[0] for cell, contents in delta.cells.items() if contents is not None])
        if doubtful:
            doubtful.difference_update([mark[0] for mark, timestamp in delta.marks.items() if timestamp is not None])
        if not doubtful:
            return
        cells, marks = transaction.cursor(self._cells), transaction.cursor(self._marks.by_row)
        for row in doubtful:
            in_use = any(table.set_range(row) and table.key().startswith(row) for table in (cells, marks))
            if not in_use:
                transaction.delete(row, db=self._keys)


def _few_cells(row: bytes, cursor: lmdb.Cursor[bytes]) -> dict[bytes, bytes] | None:
    """All cells of a row, by name; None if they are many, or have long names."""
    cells: dict[bytes, bytes] = {}
    size = 0
    for key, value in cursor if cursor.set_range(row) else ():
        if not key.startswith(row):
            break
        size += len(value)
        if len(cells) >= FEW_CELLS or size > FEW_BYTES or len(key) > layout.LONGEST_PLAIN:
            return None
        cells[key[16:]] = value
    return cells


def _while_prefix(pairs: Iterator[tuple[bytes, bytes]], prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
    for key, value in pairs:
        if not key.startswith(prefix):
            return
        yield key, value
