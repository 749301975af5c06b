"""Committed state of an interval in LMDB on the host that works on it (paper §6.2: soft state).

One environment holds one interval of one computation. Several processes of a host may open, read and advance it at the
same time: readers see the state as of the start of their view, one writer at a time makes a change, and the *position*
(the name of the last change in the store) moves in the transaction that makes the change. So a change is applied once,
even if several processes try, and a process that dies in a transaction leaves the store as it was.

Nothing is synced to the disk: a store outlives its processes but must not be trusted after the machine went down
(see `headrace.runners.spark.statestore.store_cache`), and is always made again from the checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, cast

import lmdb

from headrace.lowlevel.state.state_store import FEW_BYTES, FEW_CELLS, Delta, Mark, MarkColumns, pieces_of
from headrace.runners.spark.memory import give_back
from headrace.runners.spark.statestore import key_layout
from headrace.runners.spark.statestore.disk_full import MAX_READERS, naming_full_disk, reserve_lock
from headrace.runners.spark.statestore.id_filter import StoredIdFilter
from headrace.runners.spark.statestore.tables import IdTable, MarkTable, SegmentTable, put_all

if TYPE_CHECKING:
    from headrace.runners.spark.statestore.lmdb_private import Database, Transaction

_TABLES = (b"keys", b"cells", b"marks", b"order", b"ids", b"ages", b"segments", b"meta")
_LAYOUT = b"%d" % key_layout.LAYOUT_VERSION
_MANY_CHANGES = 20_000
"""Number of entries changed by a transaction, each on a page of 4 KiB in the worst case, after which the environment is
opened again."""
_FIRST_BYTES = 32 << 20
"""First capacity of an environment, all of which is mapped: a process may have many open, and a limit of its address
space (`spark.executor.pyspark.memory`)."""
_PIECE_ENTRIES = 20_000
_PIECE_BYTES = 8 << 20
"""Entries and bytes of one piece of a `dump`."""

Pairs = list[tuple[bytes, bytes]]


class _Released:
    """Takes the place of a view after `release`: every use raises `RuntimeError`."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __getattr__(self, name: str) -> NoReturn:
        raise RuntimeError(f"store {self._path} was released; call refresh() before reading")


class LmdbStateStore:
    """A `StateStore` on disk, for one thread. A process may open an environment only once (LMDB's rule).

    Reads see the state as of the last `refresh`; `release` ends that view, so that LMDB can reuse the space of older
    state. `map_size` is the first capacity of the environment in bytes; it doubles when the environment is full.
    """

    def __init__(self, path: Path, map_size: int = _FIRST_BYTES) -> None:
        self.path = path
        # Instead of None, so that reads need no test.
        self._no_view = cast("Transaction", _Released(path))
        self._view = self._no_view
        self._filter = StoredIdFilter()
        self._changed = 0
        """Entries that the last transaction changed."""
        with naming_full_disk(path):
            self._open(map_size)

    # --- opening and views -------------------------------------------------------------------------------------------

    def _open(self, map_size: int) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        reserve_lock(self.path)
        file = self.path / "data.mdb"
        # The file, which another process may have extended, needs room to double.
        while file.exists() and map_size < 2 * file.stat().st_size:
            map_size *= 2
        self._map_size = map_size
        self._env = self._mapped(map_size)
        self._page_size = self._env.stat()["psize"]
        try:
            self._open_tables()
        except lmdb.MapResizedError:
            # Another process has extended the file since its size was looked at.
            self._reopen(2 * map_size)
        else:
            self.refresh()

    def _mapped(self, map_size: int) -> lmdb.Environment:
        try:
            return lmdb.open(
                str(self.path),
                map_size=map_size,
                max_dbs=len(_TABLES),
                max_readers=MAX_READERS,
                sync=False,
                metasync=False,
                meminit=False,
                readahead=False,
            )
        except lmdb.MemoryError as error:
            raise MemoryError(
                f"no address space is left for the {map_size >> 20} MiB of the state store {self.path}; raise "
                "spark.executor.pyspark.memory, or leave it unset, and start again; nothing of this epoch is committed"
            ) from error

    def _open_tables(self) -> None:
        with self._env.begin(write=True) as transaction:
            tables = [self._env.open_db(name, transaction) for name in _TABLES]
            *self._content, self._meta = tables
            self._keys, self._cells, marks, order, ids, ages, segments = self._content
            self._marks, self._ids, self._segments = MarkTable(marks, order), IdTable(ids, ages), SegmentTable(segments)
            if transaction.get(b"layout", _LAYOUT, self._meta) != _LAYOUT:
                raise lmdb.VersionMismatchError(f"store {self.path} has another layout than {_LAYOUT.decode()}")
            transaction.put(b"layout", _LAYOUT, db=self._meta)

    def refresh(self) -> str:
        """Begin a view of the newest state; returns the position."""
        self.release()
        try:
            self._view = self._env.begin()
        except lmdb.MapResizedError:
            self._reopen(self._map_size)
        return self.position

    def release(self) -> None:
        """End the view; the next read needs a `refresh`."""
        self._filter.view_ends()
        if self._view is not self._no_view:
            self._view.abort()
            self._view = self._no_view

    def _reopen(self, map_size: int) -> None:
        # Not by `set_mapsize`, which is unsafe next to other processes.
        self.close()
        self._open(map_size)

    def close(self) -> None:
        """Close the files."""
        self.release()
        self._env.close()

    @property
    def position(self) -> str:
        """Name of the last change in the store, `""` for an empty store."""
        return self._position_in(self._view)

    def _position_in(self, transaction: Transaction) -> str:
        return transaction.get(b"position", b"", self._meta).decode()

    # --- reading -----------------------------------------------------------------------------------------------------

    def key(self, key_hash: bytes) -> bytes | None:
        """See `StateStore`."""
        return self._view.get(key_hash, None, self._keys)

    def keys_of(self, key_hashes: Sequence[bytes]) -> dict[bytes, bytes]:
        """See `StateStore`."""
        # Sorted: LMDB finds neighbours in the tree without a search from the root.
        return dict(self._view.cursor(self._keys).getmulti(sorted(key_hashes)))

    def states_of(self, key_hashes: Sequence[bytes]) -> dict[bytes, bytes]:
        """See `StateStore`."""
        return dict(self._view.cursor(self._cells).getmulti(sorted(key_hashes)))

    def cells_of(self, key_hashes: Sequence[bytes]) -> dict[bytes, dict[bytes, bytes]]:
        """See `StateStore`."""
        cursor = self._view.cursor(self._cells)
        cells_by_key_hash = ((key_hash, _few_cells(key_hash, cursor)) for key_hash in sorted(key_hashes))
        return {key_hash: cells for key_hash, cells in cells_by_key_hash if cells is not None}

    def get(self, key_hash: bytes, cell: bytes) -> bytes | None:
        """See `StateStore`."""
        name = key_hash + cell
        if len(name) <= key_layout.LONGEST_PLAIN:
            return self._view.get(name, None, self._cells)
        key = key_layout.key_of_name(name)
        value = self._view.get(key, None, self._cells)
        return None if value is None else key_layout.content_of(key, value)[1]

    def scan(self, key_hash: bytes, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """See `StateStore`."""
        start, size = key_hash + prefix, len(key_hash)
        for name, contents in self._entries(self._cells, start[: key_layout.ORDER_DOUBTFUL_FROM], start):
            yield name[size:], contents

    def mark(self, key_hash: bytes, domain: int, tag: str) -> int | None:
        """See `StateStore`."""
        return self._marks.get(self._view, key_hash, domain, tag)

    def marks(self, key_hash: bytes) -> Iterator[tuple[int, str, int]]:
        """See `StateStore`."""
        for name, time in self._entries(self._marks.by_key_hash, key_hash, key_hash):
            (_, domain, tag), timestamp = key_layout.entry_of(name, time)
            yield domain, tag, timestamp

    def until(self, domain: int, limit: int) -> Iterator[Mark]:
        """See `StateStore`."""
        return self._marks.until(self._view, domain, limit)

    def due(self, domain: int, limit: int) -> MarkColumns:
        """See `StateStore`."""
        return self._marks.due(self._view, domain, limit)

    def _entries(self, table: Database, start: bytes, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Entries whose names begin with `prefix`, by name; `start` is the part of the prefix that all keys share."""
        cursor = self._view.cursor(table)
        pairs = cursor.iternext() if cursor.set_range(start) else iter(())
        for key, value in pairs:
            if not key.startswith(start):
                return
            if len(key) >= key_layout.ORDER_DOUBTFUL_FROM:
                remaining = [(key, value), *_while_prefix(pairs, start)]
                entries = sorted(key_layout.content_of(*pair) for pair in remaining)
                yield from (entry for entry in entries if entry[0].startswith(prefix))
                return
            if key.startswith(prefix):
                yield key, value

    def may_know_id(self, record_id: bytes) -> bool:
        """See `StateStore`."""
        return record_id in (self._filter.current or self._filter.bring_to(self.position, self._all_ids))

    def remember_chain(self, chain: Sequence[str], read: Callable[[str], Iterable[Delta]]) -> None:
        """Set the files of the state, see `advance`; the id filter reads changes by other processes from them."""
        self._filter.chain, self._filter.read = chain, read

    def note_applied(self, after: str, to: str, deltas: Iterable[Delta]) -> None:
        """Tell the id filter of an `extend` that has brought the store from `after` to `to` by these deltas."""
        self._filter.applied(after, to, deltas)

    def _all_ids(self) -> Iterator[tuple[bytes, int]]:
        for pairs in self._pieces(self._ids.ids):
            yield from ((record_id, key_layout.timestamp_of(time)) for record_id, time in pairs)

    def knows_id(self, record_id: bytes) -> bool:
        """See `StateStore`."""
        return self._ids.has(self._view, record_id)

    def segment_names(self) -> list[bytes]:
        """See `StateStore`."""
        return self._segments.names(self._view)

    def segment(self, name: bytes) -> bytes | None:
        """See `StateStore`."""
        return self._segments.get(self._view, name)

    def count(self) -> dict[str, int]:
        """See `StateStore`."""
        tables = {"keys": self._keys, "cells": self._cells, "marks": self._marks.by_key_hash}
        tables |= {"ids": self._ids.ids, "segments": self._segments.table}
        return {name: self._view.stat(table)["entries"] for name, table in tables.items()}

    def size(self) -> int:
        """Size of the pages in use, in bytes."""
        pages = 0
        for table in self._content:
            stat = self._view.stat(table)
            pages += stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"]
        return pages * self._page_size

    def dump(self) -> Iterator[Delta]:
        """See `StateStore`. Do not refresh or release the store before the last piece."""
        for pairs in self._pieces(self._cells):
            cells = {(name[:16], name[16:]): contents for name, contents in pairs}
            yield Delta(keys=self.keys_of(list({key_hash for key_hash, _ in cells})), cells=dict(cells))
        for pairs in self._pieces(self._marks.by_key_hash):
            marks = dict(key_layout.entry_of(name, time) for name, time in pairs)
            yield Delta(keys=self.keys_of(list({key_hash for key_hash, _, _ in marks})), marks=dict(marks))
        for pairs in self._pieces(self._ids.ids):
            yield Delta(ids={record_id: key_layout.timestamp_of(time) for record_id, time in pairs})
        for segments in pieces_of(self._segments.all(self._view)):
            yield Delta(segments=dict(segments))

    def _pieces(self, table: Database) -> Iterator[Pairs]:
        piece, size = [], 0
        for key, value in self._view.cursor(table):
            piece.append(key_layout.content_of(key, value))
            size += len(value)
            if len(piece) >= _PIECE_ENTRIES or size >= _PIECE_BYTES:
                yield piece
                piece, size = [], 0
        if piece:
            yield piece

    # --- writing -----------------------------------------------------------------------------------------------------

    def apply(self, delta: Delta) -> None:
        """See `StateStore`."""
        self._write(lambda transaction: self._change(transaction, delta))

    def extend(self, after: str, to: str, read: Callable[[], Iterable[Delta]], clear: bool = False) -> bool:
        """Bring the store from position `after` to position `to` in one transaction, then refresh the view.

        With `clear`, the deltas replace all contents. Returns False, and changes nothing, if the store is not at
        `after`. `read` may be called again if the environment has to grow.
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
        # Frees the slots of readers that were killed, which keep LMDB from reusing old pages.
        self._env.reader_check()
        while True:
            self._changed = 0
            try:
                with naming_full_disk(self.path), self._env.begin(write=True) as transaction:
                    result = change(transaction)
            except lmdb.MapFullError:
                self._reopen(2 * self._map_size)
            except lmdb.MapResizedError:
                self._reopen(self._map_size)
            else:
                if self._changed > _MANY_CHANGES:
                    # Until it is closed, LMDB keeps the pages of this transaction in memory for the next one.
                    self._reopen(self._map_size)
                    give_back()
                self.refresh()
                return result

    def _change(self, transaction: Transaction, delta: Delta) -> bool:
        self._changed += len(delta.cells) + len(delta.marks) + len(delta.ids)
        put_all(transaction, self._keys, delta.keys.items())
        self._change_cells(transaction, delta)
        self._marks.change(transaction, delta.marks)
        self._ids.change(transaction, delta)
        self._segments.change(transaction, delta.segments)
        self._forget_empty(transaction, delta)
        return True

    def _change_cells(self, transaction: Transaction, delta: Delta) -> None:
        pairs = [(key_hash + cell, data) for (key_hash, cell), data in delta.cells.items() if data is not None]
        if len(pairs) < len(delta.cells):
            for name in sorted(key_hash + cell for (key_hash, cell), data in delta.cells.items() if data is None):
                transaction.delete(key_layout.key_of_name(name), b"", self._cells)
        if any(len(name) > key_layout.LONGEST_PLAIN for name, _ in pairs):
            pairs = [key_layout.key_and_value(name, data) for name, data in pairs]
        put_all(transaction, self._cells, pairs)

    def _forget_empty(self, transaction: Transaction, delta: Delta) -> None:
        """Delete the keys that have neither cells nor marks left."""
        doubtful = {mark[0] for mark, timestamp in delta.marks.items() if timestamp is None}
        doubtful.update([cell[0] for cell, contents in delta.cells.items() if contents is None])
        doubtful.update(delta.keys)
        # Keys to which the delta adds something need no search in the tables.
        if doubtful:
            doubtful.difference_update([cell[0] for cell, contents in delta.cells.items() if contents is not None])
        if doubtful:
            doubtful.difference_update([mark[0] for mark, timestamp in delta.marks.items() if timestamp is not None])
        if not doubtful:
            return
        cells, marks = transaction.cursor(self._cells), transaction.cursor(self._marks.by_key_hash)
        for key_hash in doubtful:
            in_use = any(table.set_range(key_hash) and table.key().startswith(key_hash) for table in (cells, marks))
            if not in_use:
                transaction.delete(key_hash, db=self._keys)


def _few_cells(key_hash: bytes, cursor: lmdb.Cursor[bytes]) -> dict[bytes, bytes] | None:
    """All cells of a key hash, by name; None if there are many, or names are long."""
    cells: dict[bytes, bytes] = {}
    size = 0
    for key, value in cursor if cursor.set_range(key_hash) else ():
        if not key.startswith(key_hash):
            break
        size += len(value)
        if len(cells) >= FEW_CELLS or size > FEW_BYTES or len(key) > key_layout.LONGEST_PLAIN:
            return None
        cells[key[16:]] = value
    return cells


def _while_prefix(pairs: Iterator[tuple[bytes, bytes]], prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
    for key, value in pairs:
        if not key.startswith(prefix):
            return
        yield key, value
