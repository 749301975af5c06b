"""State read directly from a checkpoint's files, newest first, without a state store (MillWheel paper §6.2).

The newest entry counts, so all entries of the deltas are kept in memory, while a snapshot is read part by part. Memory
thus depends on the changes since the last snapshot and on the largest file, not on the size of the state.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Set

import pyarrow as pa

from headrace.lowlevel.checkpoint.files.file_chain import FileChain
from headrace.lowlevel.checkpoint.log.commit_log import look
from headrace.lowlevel.errors import CheckpointError, CollectedError
from headrace.lowlevel.state.segment import ENCODED, KEY, decode
from headrace.lowlevel.state.state_store import Delta
from headrace.lowlevel.storage import envelope
from headrace.lowlevel.storage.object_store import ObjectStorage

MarkName = tuple[bytes, int, str]
"""Row, domain, tag."""


class StoredTables:
    """The state tables of one computation in one key interval, read from the files of a file chain."""

    def __init__(self, store: ObjectStorage, chain: FileChain, computation: str, epoch: int) -> None:
        self._store, self._chain, self._computation = store, chain, computation
        self._epoch = epoch
        """Epoch of the commit that names the file chain."""

    def _deltas(self) -> Iterator[Delta]:
        """The deltas, newest first."""
        return self._read(name for name in reversed(self._chain.names) if not _is_snapshot(name))

    def _snapshots(self, keys: dict[bytes, bytes], key_hashes: Set[bytes]) -> Iterator[Delta]:
        """Parts of snapshots, which have no entry in common; the keys of `key_hashes` are added to `keys`."""
        unknown = key_hashes - keys.keys()
        for part in self._read(filter(_is_snapshot, self._chain.names)):
            keys.update((key_hash, part.keys[key_hash]) for key_hash in unknown & part.keys.keys())
            yield part

    def _read(self, names: Iterable[str]) -> Iterator[Delta]:
        for name in names:
            try:
                yield from self._chain.read(self._store, name, self._computation)
            except CheckpointError as error:
                refuse_collected(self._store, self._epoch, error)
                raise

    def marks(self, domains: frozenset[int]) -> Iterator[tuple[bytes, MarkName, int]]:
        """(encoded key, mark, timestamp) of the domains' timers and holds, in no order."""
        changed: dict[MarkName, int | None] = {}
        keys: dict[bytes, bytes] = {}
        for delta in self._deltas():
            keys.update(delta.keys)
            for mark, timestamp in delta.marks.items():
                if mark[1] in domains:
                    changed.setdefault(mark, timestamp)
        for part in self._snapshots(keys, {key_hash for key_hash, _, _ in changed}):
            for mark, timestamp in part.marks.items():
                if mark[1] in domains and mark not in changed and timestamp is not None:
                    yield part.keys[mark[0]], mark, timestamp
        for mark, timestamp in changed.items():
            if timestamp is not None:
                yield keys[mark[0]], mark, timestamp

    def cells(self) -> Iterator[tuple[bytes, dict[bytes, bytes]]]:
        """(encoded key, cells by name) of each key with cells, in no order."""
        changed: dict[bytes, dict[bytes, bytes | None]] = {}
        keys: dict[bytes, bytes] = {}
        for delta in self._deltas():
            keys.update(delta.keys)
            for (key_hash, cell), contents in delta.cells.items():
                changed.setdefault(key_hash, {}).setdefault(cell, contents)
        for key_hash, key, cells in _by_key_hash(self._snapshots(keys, set(changed))):
            cells.update(changed.pop(key_hash, {}))
            if stored := _stored(cells):
                yield key, stored
        for key_hash, cells in changed.items():
            if stored := _stored(cells):
                yield keys[key_hash], stored

    def cells_of(self, key_hash: bytes) -> dict[bytes, bytes]:
        """The cells of one key by name."""
        cells: dict[bytes, bytes | None] = {}
        for delta in itertools.chain(self._deltas(), self._snapshots({}, set())):
            for (owner, cell), contents in delta.cells.items():
                if owner == key_hash:
                    cells.setdefault(cell, contents)
        return _stored(cells)

    def segments(self) -> Iterator[pa.RecordBatch]:
        """All segments, in no order; see `headrace.lowlevel.state.segment`."""
        newer: set[bytes] = set()
        for delta in itertools.chain(self._deltas(), self._snapshots({}, set())):
            for name, contents in delta.segments.items():
                if name not in newer and contents is not None:
                    with envelope.understood(f"segment {name!r} of {self._computation!r} in {self._store.describe()}"):
                        batch = decode(contents)
                    yield batch
                newer.add(name)

    def keys(self) -> Iterator[bytes]:
        """The encoded keys in all files, in no order, some of them several times; those of deleted entries, too."""
        for delta in itertools.chain(self._deltas(), self._snapshots({}, set())):
            yield from delta.keys.values()
        for batch in self.segments():
            index = batch.schema.get_field_index(KEY)
            if index >= 0 and ENCODED.items() <= (batch.schema.field(index).metadata or {}).items():
                yield from batch.column(index).to_pylist()

    def count_ids(self) -> int:
        """Number of stored ids of processed records."""
        changed: set[bytes] = set()
        count, limit = 0, None
        for delta in self._deltas():
            if delta.forget_ids_before is not None:
                limit = delta.forget_ids_before if limit is None else max(limit, delta.forget_ids_before)
            for record_id, timestamp in delta.ids.items():
                if record_id not in changed:
                    changed.add(record_id)
                    count += limit is None or timestamp >= limit
        for part in self._snapshots({}, set()):
            count += sum(
                record_id not in changed and (limit is None or timestamp >= limit)
                for record_id, timestamp in part.ids.items()
            )
        return count


def refuse_collected(store: ObjectStorage, epoch: int, error: Exception) -> None:
    """Raise `CollectedError` if the run has gone on since the commit of an epoch, which explains a missing file."""
    newest = look(store).manifest
    if newest is not None and newest.epoch > epoch:
        raise CollectedError(
            f"the run on {store.describe()} has gone on from epoch {epoch} to {newest.epoch}, and files that only the "
            "older one needed were deleted; read the checkpoint again"
        ) from error


def _by_key_hash(parts: Iterable[Delta]) -> Iterator[tuple[bytes, bytes, dict[bytes, bytes | None]]]:
    """(key hash, key, cells) of each key. The cells of a key are adjacent, but may be in two parts."""
    entries = (
        (key_hash, part.keys[key_hash], cell, contents)
        for part in parts
        for (key_hash, cell), contents in part.cells.items()
    )
    for key_hash, group in itertools.groupby(entries, lambda entry: entry[0]):
        cells = list(group)
        yield key_hash, cells[0][1], {cell: contents for _, _, cell, contents in cells}


def _is_snapshot(name: str) -> bool:
    return name.rpartition("/")[2].startswith("s")


def _stored(cells: dict[bytes, bytes | None]) -> dict[bytes, bytes]:
    return {cell: contents for cell, contents in cells.items() if contents is not None}
