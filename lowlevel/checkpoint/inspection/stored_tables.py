"""State read straight off a checkpoint's files, newest first, without a copy of it (MillWheel paper §6.2).

What a newer file says counts, so of the deltas everything is remembered that was met, but a snapshot is passed through
part by part: memory follows from what changed since the last snapshot and from the largest file, not from the state.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from itertools import chain, groupby

import pyarrow as pa

from headrace.lowlevel.checkpoint import envelope
from headrace.lowlevel.checkpoint.copy_plan import CopyPlan
from headrace.lowlevel.checkpoint.log import look
from headrace.lowlevel.errors import CheckpointError, CollectedError
from headrace.lowlevel.segment import decode
from headrace.lowlevel.state import Delta
from headrace.lowlevel.store import Store

MarkName = tuple[bytes, int, str]
"""Row, domain, tag."""


class StoredTables:
    """The tables of one computation in one key interval, as the files of a plan have them."""

    def __init__(self, store: Store, plan: CopyPlan, computation: str, epoch: int) -> None:
        self._store, self._plan, self._computation = store, plan, computation
        self._epoch = epoch
        """Of the commit that names the plan."""

    def _deltas(self) -> Iterator[Delta]:
        """Newest first."""
        return self._read(name for name in reversed(self._plan.names) if not _is_snapshot(name))

    def _snapshots(self, keys: dict[bytes, bytes], rows: Set[bytes]) -> Iterator[Delta]:
        """Parts of snapshots, which have no entry in common; `keys` gets those of the rows that it lacks."""
        unknown = rows - keys.keys()
        for part in self._read(filter(_is_snapshot, self._plan.names)):
            keys.update((row, part.keys[row]) for row in unknown & part.keys.keys())
            yield part

    def _read(self, names: Iterable[str]) -> Iterator[Delta]:
        for name in names:
            try:
                yield from self._plan.read(self._store, name, self._computation)
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
        for part in self._snapshots(keys, {row for row, _, _ in changed}):
            for mark, timestamp in part.marks.items():
                if mark[1] in domains and mark not in changed and timestamp is not None:
                    yield part.keys[mark[0]], mark, timestamp
        for mark, timestamp in changed.items():
            if timestamp is not None:
                yield keys[mark[0]], mark, timestamp

    def cells(self) -> Iterator[tuple[bytes, dict[bytes, bytes]]]:
        """(encoded key, its cells by name) of each key that has any, in no order."""
        changed: dict[bytes, dict[bytes, bytes | None]] = {}
        keys: dict[bytes, bytes] = {}
        for delta in self._deltas():
            keys.update(delta.keys)
            for (row, cell), contents in delta.cells.items():
                changed.setdefault(row, {}).setdefault(cell, contents)
        for row, key, cells in _by_row(self._snapshots(keys, set(changed))):
            cells.update(changed.pop(row, {}))
            if left := _there(cells):
                yield key, left
        for row, cells in changed.items():
            if left := _there(cells):
                yield keys[row], left

    def cells_of(self, row: bytes) -> dict[bytes, bytes]:
        """The cells of one key by name."""
        cells: dict[bytes, bytes | None] = {}
        for delta in self._deltas():
            for (of, cell), contents in delta.cells.items():
                if of == row:
                    cells.setdefault(cell, contents)
        for part in self._snapshots({}, set()):
            for (of, cell), contents in part.cells.items():
                if of == row:
                    cells.setdefault(cell, contents)
        return _there(cells)

    def segments(self) -> Iterator[pa.RecordBatch]:
        """All segments, in no order; see `headrace.lowlevel.segment`."""
        met: set[bytes] = set()
        for delta in chain(self._deltas(), self._snapshots({}, set())):
            for name, contents in delta.segments.items():
                if name not in met and contents is not None:
                    with envelope.understood(f"segment {name!r} of {self._computation!r} in {self._store.describe()}"):
                        batch = decode(contents)
                    yield batch
                met.add(name)

    def count_ids(self) -> int:
        """How many ids of processed records are remembered."""
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


def refuse_collected(store: Store, epoch: int, error: Exception) -> None:
    """Raise `CollectedError` if the run has gone on since the commit of an epoch, which tells why a file is missing."""
    newest = look(store).manifest
    if newest is not None and newest.epoch > epoch:
        raise CollectedError(
            f"the run on {store.describe()} has gone on from epoch {epoch} to {newest.epoch}, and files that only the "
            "older one needed were deleted; read the checkpoint again"
        ) from error


def _by_row(parts: Iterable[Delta]) -> Iterator[tuple[bytes, bytes, dict[bytes, bytes | None]]]:
    """(row, key, cells). The cells of a row lie side by side, though a part may end among them."""
    entries = ((row, part.keys[row], cell, contents) for part in parts for (row, cell), contents in part.cells.items())
    for row, its in groupby(entries, lambda entry: entry[0]):
        found = list(its)
        yield row, found[0][1], {cell: contents for _, _, cell, contents in found}


def _is_snapshot(name: str) -> bool:
    return name.rpartition("/")[2].startswith("s")


def _there(cells: dict[bytes, bytes | None]) -> dict[bytes, bytes]:
    return {cell: contents for cell, contents in cells.items() if contents is not None}
