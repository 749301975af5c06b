"""File chains: the snapshot and deltas, in order, that make up the committed state of an interval.

An interval with new bounds has no files of its own. Its chain has *origins*: the chains of the intervals that had its
keys before, of which it reads the keys within its bounds. Its first snapshot replaces them. So a
change of intervals, or of a computation's level, only adds a few names to a commit, whatever the size of the state.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

from headrace.lowlevel.checkpoint.files.delta_file import DeltaFile, DeltaHeader, read_carried, read_deltas
from headrace.lowlevel.checkpoint.files.snapshot import MOST_DELTAS, SnapshotOrder, SnapshotParts, is_worth_snapshot
from headrace.lowlevel.intervals.interval_map import SPACE, Interval, key_position
from headrace.lowlevel.state.memory_store import MemoryStateStore
from headrace.lowlevel.state.segment import restricted
from headrace.lowlevel.state.state_store import Delta, StateStore
from headrace.lowlevel.storage import envelope, object_names
from headrace.lowlevel.storage.object_store import ObjectStorage

Bounds = tuple[int, int]
"""Start (inclusive) and stop (exclusive) of an interval of the key space."""


@dataclass(frozen=True)
class FileChain:
    """The files with the committed state of one level and interval, oldest first.

    It is small and quick to pickle, because every task of every epoch gets one: a file is one short string. A name is
    unique to the attempt that wrote the file. A state store whose last applied file is in `names` lacks exactly the
    files behind it; any other state store must be rebuilt from the first file on.
    """

    level: int
    interval: int
    start: int = 0
    stop: int = SPACE
    """Bounds of the interval in the key space; keys of the origins outside of them are ignored."""
    snapshot: SnapshotParts | None = None
    deltas: tuple[str, ...] = ()
    """Name of each delta file: `<epoch>-<token>-<size>`, and `-<place>` if the commit at this place of the log carries
    it."""
    replay_bytes: int = 0
    """Total size of the deltas that the snapshot does not cover."""
    origins: tuple[Origin, ...] = ()
    """The chains with the state before the first own file; empty once there is a snapshot."""

    @classmethod
    def of(cls, level: int, interval: Interval, origins: Iterable[Origin] = ()) -> FileChain:
        """The chain of an interval without files of its own."""
        return cls(level, interval.number, interval.start, interval.stop, origins=tuple(origins))

    @property
    def names(self) -> tuple[str, ...]:
        """Name of each file, oldest first: the snapshot if there is one, else files of origins; then the deltas."""
        if self.snapshot is not None:
            return (self.snapshot.name, *self.deltas)
        if not self.origins:
            return self.deltas
        inherited = (f"{n}/{name}" for n, origin in enumerate(self.origins) for name in origin.chain.names)
        return (*inherited, *self.deltas)

    @property
    def last(self) -> str:
        """Name of the last file; empty if there is none. A state store that has applied it is up to date."""
        return self.deltas[-1] if self.deltas else next(reversed(self.names), "")

    @property
    def size(self) -> int:
        """Size of all files in bytes, without those of the origins."""
        return self.replay_bytes + (0 if self.snapshot is None else self.snapshot.size)

    def objects(self) -> Iterator[str]:
        """Names of all objects that the chain needs."""
        for origin in self.origins:
            yield from origin.chain.objects()
        if self.snapshot is not None:
            yield from self.snapshot.objects()
        for name in self.deltas:
            yield self._delta(name)[0]

    def with_delta(self, file: DeltaFile, place: int = 0) -> FileChain:
        """The chain with another delta file at its end; `place` is that of the commit in the log."""
        name = file_name(file) + (f"-{place}" if file.contents else "")
        place_in_space = (self.level, self.interval, self.start, self.stop)
        size = self.replay_bytes + file.size
        return FileChain(*place_in_space, self.snapshot, (*self.deltas, name), size, self.origins)

    def on(self, snapshot: SnapshotParts) -> FileChain:
        """The chain that begins with a snapshot; this chain itself if the snapshot does not end at one of its files.

        The last delta that the snapshot covers stays in the chain. Applying it again changes nothing, and state stores
        whose last file it is need not be rebuilt.
        """
        names = self.names
        if snapshot.order.last not in names:
            return self
        covered, *rest = names[names.index(snapshot.order.last) :]
        deltas = tuple(name for name in (covered, *rest) if name in self.deltas)
        uncovered = sum(int(name.split("-")[2]) for name in deltas if name != covered)
        return replace(self, snapshot=snapshot, deltas=deltas, replay_bytes=uncovered, origins=())

    def needs_snapshot(self, chains: int = 1, growth: float = 1.0) -> bool:
        """Whether a snapshot is worthwhile: for many deltas to replay, and for a chain with origins.

        With `growth`, whether it will be when there are so many times as many deltas. A commit has so many `chains`.
        """
        if self.snapshot is None and self.origins:
            return True
        is_covered = self.snapshot is not None and self.snapshot.order.last in self.deltas[:1]
        size = 0 if self.snapshot is None else self.snapshot.size
        uncovered, carried = growth * (len(self.deltas) - is_covered), growth * self._carried()
        return is_worth_snapshot(int(uncovered), int(growth * self.replay_bytes), size, int(carried), chains)

    def _carried(self) -> int:
        """How many deltas commits carry; 0 if there are too few deltas for that to matter."""
        # The name of one that a commit carries has three hyphens, others have two.
        return "".join(self.deltas).count("-") - 2 * len(self.deltas) if len(self.deltas) >= MOST_DELTAS else 0

    def read(self, store: ObjectStorage, name: str, computation: str) -> Iterator[Delta]:
        """The deltas of one computation in the file with this name. Raises `CheckpointError` for a damaged file."""
        return (delta for _, delta in self._read(store, name, computation))

    def load(self, store: ObjectStorage, only: str | None = None) -> dict[str, MemoryStateStore]:
        """Load the whole state into memory: computation -> its state.

        `only` selects one computation. Raises `CheckpointError` for a damaged file.
        """
        stores: dict[str, MemoryStateStore] = {}
        for name in self.names:
            for computation, delta in self._read(store, name, only):
                stores.setdefault(computation, MemoryStateStore()).apply(delta)
        return stores

    def _read(self, store: ObjectStorage, name: str, only: str | None) -> Iterator[tuple[str, Delta]]:
        number, separator, rest = name.partition("/")
        if separator:
            origin = self.origins[int(number)]
            for computation, delta in origin.read(store, rest, only):
                with envelope.understood(f"{name} in {store.describe()}"):
                    inherited = within(delta, (origin.chain.start, origin.chain.stop), (self.start, self.stop))
                yield computation, inherited
            return
        for path, header in self._headers(name, only):
            read = read_deltas if object_names.number_of(path) is None else read_carried
            yield from read(store, path, header, only).items()

    def _headers(self, name: str, only: str | None = None) -> Iterator[tuple[str, DeltaHeader]]:
        if self.snapshot is not None and name == self.snapshot.name:
            return self.snapshot.headers(only)
        return iter([self._delta(name)])

    def _delta(self, name: str) -> tuple[str, DeltaHeader]:
        epoch, token, _, *place = name.split("-")
        header = DeltaHeader(int(epoch), self.level, self.interval, token)
        if place:
            return object_names.log_entry(int(place[0])), header
        return object_names.delta(header.epoch, self.level, self.interval, token), header


@dataclass(frozen=True)
class Origin:
    """A chain with which another chain begins. There, the prefix of its files' names is its index and a slash."""

    chain: FileChain
    computations: frozenset[str] | None = None
    """The computations that are read from it; None for all."""

    def read(self, store: ObjectStorage, name: str, only: str | None) -> Iterator[tuple[str, Delta]]:
        """(computation, delta) in the file with this name, for the origin's computations, or for `only` one."""
        if only is not None and not self._has(only):
            return
        deltas = self.chain._read(store, name, only)
        yield from ((computation, delta) for computation, delta in deltas if self._has(computation))

    def _has(self, computation: str) -> bool:
        return self.computations is None or computation in self.computations


def file_name(file: DeltaFile) -> str:
    """The name of a delta file in a chain, without the place of a commit that carries it.

    >>> file_name(DeltaFile(7, "t", 100))
    '7-t-100'
    """
    return f"{file.epoch}-{object_names.checked(file.token)}-{file.size}"


def epoch_of(name: str) -> int:
    """The epoch in the name of a chain's file; -1 for an empty name.

    >>> [epoch_of(name) for name in ("", "7-t-100", "s7-1-t", "1/0/7-t-100")]
    [-1, 7, 7, 7]
    """
    return int(name.rpartition("/")[2].lstrip("s").split("-")[0]) if name else -1


def within(delta: Delta, old: Bounds, new: Bounds) -> Delta:
    """The part of a delta about keys in another interval. All record ids stay, as they do not name their key."""
    start, stop = new
    segments = {_inherited(name, old): _piece(contents, new) for name, contents in delta.segments.items()}
    if new == (0, SPACE):
        return replace(delta, segments=segments)

    def is_inside(key_hash: bytes) -> bool:
        return start <= key_position(key_hash) < stop

    return Delta(
        {key_hash: key for key_hash, key in delta.keys.items() if is_inside(key_hash)},
        {cell: contents for cell, contents in delta.cells.items() if is_inside(cell[0])},
        {mark: timestamp for mark, timestamp in delta.marks.items() if is_inside(mark[0])},
        delta.ids,
        delta.forget_ids_before,
        segments,
    )


def _inherited(name: bytes, old: Bounds) -> bytes:
    """The name of a segment from another interval, extended by a hash of that interval's bounds.

    The origins of an interval have different bounds, so equal names of different segments become different names, which
    also differ from the names that the interval itself gives.
    """
    return name + blake2b(b"%d-%d" % old, digest_size=8).digest()


def _piece(contents: bytes | None, new: Bounds) -> bytes | None:
    """The part of a segment within an interval; None, which removes the segment, if it has no rows there."""
    return contents if contents is None or new == (0, SPACE) else restricted(contents, *new)


def merged(stores: Iterable[StateStore]) -> MemoryStateStore:
    """Merge the states of different intervals; the index of the interval is appended to names of segments."""
    total = MemoryStateStore()
    for number, store in enumerate(stores):
        for delta in store.dump():
            segments = {b"%b/%d" % (name, number): contents for name, contents in delta.segments.items()}
            total.apply(replace(delta, segments=segments))
    return total


def chain_row(chain: FileChain) -> list[object]:
    """Convert a file chain to JSON values."""
    return [
        *(chain.level, chain.interval, chain.start, chain.stop, _snapshot_row(chain.snapshot)),
        # One string for all names is faster, as there may be thousands and most are only copied.
        *(" ".join(chain.deltas), chain.replay_bytes),
        [(chain_row(origin.chain), origin.computations and sorted(origin.computations)) for origin in chain.origins],
    ]


def _snapshot_row(snapshot: SnapshotParts | None) -> dict[str, object] | None:
    if snapshot is None:
        return None
    order = snapshot.order
    return {
        **{name: getattr(order, name) for name in ("epoch", "last", "generation", "token")},
        "parts": snapshot.parts,
        "size": snapshot.size,
    }


def chain_of_row(row: Sequence[Any]) -> FileChain:
    """Convert the result of `chain_row` back to a file chain."""
    level, interval, start, stop, snapshot, deltas, replay_bytes, origins = row
    return FileChain(
        *(level, interval, start, stop),
        None if snapshot is None else _snapshot(level, interval, snapshot),
        tuple(deltas.split()),
        replay_bytes,
        tuple(Origin(chain_of_row(origin), None if names is None else frozenset(names)) for origin, names in origins),
    )


def _snapshot(level: int, interval: int, row: dict[str, Any]) -> SnapshotParts:
    order = SnapshotOrder(level, interval, row["epoch"], row["last"], row["generation"], row["token"])
    return SnapshotParts(order, tuple((computation, count) for computation, count in row["parts"]), row["size"])
