"""State stores and deltas: the persistent state of one computation and key interval (MillWheel paper §4.4, §6.2).

A *key hash* is the 16-byte hash of a key, under which all state of the key is stored. State consists of five tables:

- keys: key hash -> the encoded key;
- cells: (key hash, cell) -> bytes. The paper's one byte string per key is the cell `b""`; with other cells a
  computation can change a part of a key's state without writing all of it;
- marks: (key hash, domain, tag) -> timestamp, also ordered by (domain, timestamp): timers on the low watermark, timers
  on wall time, and holds;
- ids: id of a processed record -> time after which it may be forgotten;
- segments: name -> lines of many keys, see `headrace.lowlevel.state.segment`; for computations over columns.

A `StateStore` holds committed state only. A bundle reads from it and collects changes in a `Delta`, which is applied to
the store after the commit of the epoch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import NamedTuple, Protocol

from headrace.lowlevel.records.record import new_tuple

FORMAT_VERSION = 4
"""Version of the layout of these tables; change it with the layout. Version 1 had no segments."""

FEW_CELLS = 32
"""Greatest number of cells of a key for `StateStore.cells_of`, which reads all cells of a key together."""
FEW_BYTES = 8_192
"""Greatest size of these cells' contents in bytes."""
_PIECE_BYTES = 8 << 20


class Mark(NamedTuple):
    """A timestamp attached to a key: a timer or a hold."""

    timestamp: int
    key_hash: bytes
    tag: str


class MarkColumns(NamedTuple):
    """Marks as columns of the same length."""

    timestamps: list[int]
    key_hashes: list[bytes]
    tags: list[str]

    @classmethod
    def of(cls, marks: Iterable[Mark]) -> MarkColumns:
        """The columns of some marks."""
        columns = [list(column) for column in zip(*marks, strict=True)]
        return cls(*columns) if columns else cls([], [], [])

    def marks(self) -> Iterator[Mark]:
        """The marks, one by one."""
        return map(new_tuple, repeat(Mark), zip(*self, strict=True))


@dataclass(slots=True)
class Delta:
    """The changes of one bundle to the state of one computation and interval. Persisted: every field.

    The value None removes an entry.
    """

    keys: dict[bytes, bytes] = field(default_factory=dict)
    """Key hash -> encoded key, for keys that may be new to the store."""
    cells: dict[tuple[bytes, bytes], bytes | None] = field(default_factory=dict)
    """(key hash, cell) -> contents."""
    marks: dict[tuple[bytes, int, str], int | None] = field(default_factory=dict)
    """(key hash, domain, tag) -> timestamp in microseconds."""
    ids: dict[bytes, int] = field(default_factory=dict)
    """record id -> time after which it may be forgotten, in microseconds of event time."""
    forget_ids_before: int | None = None
    """Ids with an earlier time are forgotten; None to forget none."""
    segments: dict[bytes, bytes | None] = field(default_factory=dict)
    """name (not empty) -> contents, see `headrace.lowlevel.state.segment`."""

    def __bool__(self) -> bool:
        tables = self.keys or self.cells or self.marks or self.ids or self.segments
        return bool(tables or self.forget_ids_before is not None)

    def take(
        self,
        key_hash: bytes,
        encoded: bytes,
        cells: Mapping[bytes, bytes | None],
        marks: Mapping[tuple[bytes, int, str], int | None],
        known: bool,
        few: Mapping[bytes, bytes] | None,
    ) -> None:
        """Add the changes of a key; removals of entries that are not stored are left out.

        Args:
            key_hash: The 16-byte hash of the key.
            encoded: The encoded key.
            cells: Cell -> new contents, None to remove it.
            marks: (key hash, domain, tag) -> new timestamp, None to remove it.
            known: Whether the key has stored state.
            few: The stored cells of the key, if all were read; else None.
        """
        if not known:
            size = len(self.cells) + len(self.marks)
            for cell, data in cells.items():
                if data is not None:
                    self.cells[key_hash, cell] = data
            for mark, timestamp in marks.items():
                if timestamp is not None:
                    self.marks[mark] = timestamp
            if len(self.cells) + len(self.marks) > size:
                self.keys[key_hash] = encoded
            return
        for cell, data in cells.items():
            if data is not None or few is None or cell in few:
                self.cells[key_hash, cell] = data
        self.marks.update(marks)


class StateStore(Protocol):
    """Committed state of one computation and interval, as one process sees it."""

    def key(self, key_hash: bytes) -> bytes | None:
        """The encoded key of a key hash; None if nothing is stored for it."""

    def keys_of(self, key_hashes: Sequence[bytes]) -> dict[bytes, bytes]:
        """Key hash -> encoded key, for those of the keys that have stored state."""

    def get(self, key_hash: bytes, cell: bytes) -> bytes | None:
        """The contents of a cell; None if it is not stored."""

    def states_of(self, key_hashes: Sequence[bytes]) -> dict[bytes, bytes]:
        """Key hash -> contents of the cell `b""`, for those of the keys that have it."""

    def cells_of(self, key_hashes: Sequence[bytes]) -> dict[bytes, dict[bytes, bytes]]:
        """Key hash -> all its cells by name, for keys with few cells (see `are_few`); a store may leave keys out."""

    def scan(self, key_hash: bytes, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Name and contents of the cells of a key whose names begin with `prefix`, in order of names."""

    def mark(self, key_hash: bytes, domain: int, tag: str) -> int | None:
        """The timestamp of a mark; None if it is not stored."""

    def marks(self, key_hash: bytes) -> Iterator[tuple[int, str, int]]:
        """(domain, tag, timestamp) of all marks of a key."""

    def until(self, domain: int, limit: int) -> Iterator[Mark]:
        """Marks of a domain with timestamp <= limit, in order of timestamp, then key hash, then tag."""

    def due(self, domain: int, limit: int) -> MarkColumns:
        """The marks of `until` as columns."""

    def may_know_id(self, record_id: bytes) -> bool:
        """Whether a record with this id may have been processed; False is certain. Costs little."""

    def knows_id(self, record_id: bytes) -> bool:
        """Whether a record with this id was processed."""

    def segment_names(self) -> list[bytes]:
        """Names of all segments, in order."""

    def segment(self, name: bytes) -> bytes | None:
        """The contents of a segment; None if it is not stored."""

    def apply(self, delta: Delta) -> None:
        """Apply a committed delta to the store."""

    def dump(self) -> Iterator[Delta]:
        """The whole state as deltas, for snapshots and for moving keys to other intervals."""

    def count(self) -> dict[str, int]:
        """Number of entries by table: keys, cells, marks, ids, segments."""

    def size(self) -> int:
        """Approximate size of the state in bytes, without reading it."""


def are_few(cells: Mapping[bytes, bytes]) -> bool:
    """Whether all cells of a key may be read together, see `FEW_CELLS` and `FEW_BYTES`.

    >>> are_few({b"a": b"data"}), are_few({b"a": bytes(10_000)})
    (True, False)
    """
    return len(cells) <= FEW_CELLS and sum(map(len, cells.values())) <= FEW_BYTES


def pieces_of(segments: Iterable[tuple[bytes, bytes]]) -> Iterator[list[tuple[bytes, bytes]]]:
    """Divide segments into lists, each of which ends with the segment that brings it to 8 MiB or more.

    >>> [len(piece) for piece in pieces_of((b"%d" % n, bytes(3 << 20)) for n in range(5))]
    [3, 2]
    """
    piece, size = [], 0
    for name, contents in segments:
        piece.append((name, contents))
        size += len(contents)
        if size >= _PIECE_BYTES:
            yield piece
            piece, size = [], 0
    if piece:
        yield piece
