"""Snapshots: the whole state of a level and interval, which bounds the number of deltas to replay.

A snapshot is written outside of the critical path, from a state store, and is used once a commit names it. It is
written in parts, so that a large state is never in memory as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from headrace.lowlevel.checkpoint.files.delta_file import DeltaHeader, encode_deltas
from headrace.lowlevel.state.state_store import StateStore
from headrace.lowlevel.storage import object_names
from headrace.lowlevel.storage.object_store import ObjectStorage

MOST_DELTAS = 32
"""From this many deltas on a snapshot is worthwhile, unless the state is large in comparison with the deltas."""
_LONGEST = 16 * MOST_DELTAS
"""From this many deltas on a snapshot is always worthwhile; there may be twice as many that commits carry."""
_CARRIED_FOR_ONE = 16
"""So many deltas that commits carry count as one: they are small, no objects of their own, and of short epochs."""
_MOST_NAMES = 2_048
"""Fewer count as one where all chains together would get more names: each commit has them all."""
_COST_RATIO = 4
"""Greatest size of the snapshot, as a multiple of the deltas' size, at which `MOST_DELTAS` deltas are enough."""
_SMALL_BYTES = 16 << 20
"""Deltas of fewer bytes need no snapshot; replaying this many takes a third of a second for each interval.

If state lasts only a few epochs, deltas are as large as the whole state, and snapshots cost as much as deltas.
"""
_SMALL_TOGETHER = 128 << 20
"""Bytes of all chains together that need no snapshot: otherwise a small state in many intervals would keep 16 MiB of
deltas for each of them."""


@dataclass(frozen=True)
class SnapshotOrder:
    """The driver's order to write a snapshot, which a process with the interval's state store executes."""

    level: int
    interval: int
    epoch: int
    """The committed epoch of the state."""
    last: str
    """Name of the last file that the snapshot covers."""
    generation: int
    """Generation of the driver that ordered it."""
    token: str


@dataclass(frozen=True)
class SnapshotParts:
    """A reference to a snapshot in a commit."""

    order: SnapshotOrder
    parts: tuple[tuple[str, int], ...]
    """(computation, number of its parts), in the order of parts."""
    size: int
    """Size in bytes."""

    @property
    def name(self) -> str:
        """Its name in a file chain."""
        return f"s{self.order.epoch}-{self.order.generation}-{self.order.token}"

    def objects(self) -> Iterator[str]:
        """Object names of its parts."""
        return (path for path, _ in self.headers())

    def headers(self, only: str | None = None) -> Iterator[tuple[str, DeltaHeader]]:
        """Object name and header of each part, in order; `only` selects one computation."""
        part = 0
        for computation, count in self.parts:
            for number in range(part, part + count):
                if only is None or only == computation:
                    yield _part(self.order, number)
            part += count


def write_snapshot(store: ObjectStorage, order: SnapshotOrder, stores: Mapping[str, StateStore]) -> SnapshotParts:
    """Write a snapshot. It is used once it is passed to a commit of the driver that ordered it.

    Args:
        store: The store of the checkpoint.
        order: The driver's order.
        stores: Computation -> its state store, which has applied `order.last`.

    Raises:
        StoreError: The store failed.
    """
    parts = []
    written = size = 0
    for computation, state in stores.items():
        before = written
        for delta in filter(None, state.dump()):
            path, header = _part(order, written)
            data = encode_deltas(header, {computation: delta})
            store.put(path, data)
            written, size = written + 1, size + len(data)
        parts.append((computation, written - before))
    return SnapshotParts(order, tuple(parts), size)


def _part(order: SnapshotOrder, number: int) -> tuple[str, DeltaHeader]:
    name = object_names.SnapshotName(order.level, order.interval, order.epoch, order.generation)
    header = DeltaHeader(order.epoch, order.level, order.interval, order.token, number)
    return object_names.snapshot_part(name, order.token, number), header


def is_worth_snapshot(deltas: int, delta_bytes: int, snapshot_bytes: int, carried: int = 0, chains: int = 1) -> bool:
    """Whether a file chain needs a new snapshot.

    Each changed byte is rewritten only a few times, whatever the size of the state, so small changes to a large state
    are collected for longer.

    Args:
        deltas: Number of deltas behind the last snapshot.
        delta_bytes: Their total size.
        snapshot_bytes: Size of the last snapshot; 0 if there is none.
        carried: How many of the deltas are carried by commits.
        chains: Number of chains in a commit.

    >>> [is_worth_snapshot(deltas, 3_000, size) for deltas, size in ((32, 4_000), (32, 10**9), (3, 4_000))]
    [True, False, False]
    >>> [is_worth_snapshot(10, size, 2_000_000) for size in (10_000_000, 20_000_000)]
    [False, True]
    >>> [is_worth_snapshot(10, 4 << 20, 2_000, chains=chains) for chains in (8, 64)]
    [False, True]
    >>> [is_worth_snapshot(500, 10, 1, carried=500, chains=chains) for chains in (4, 8)]
    [False, True]
    """
    if deltas <= 1:
        return False
    small = min(_SMALL_BYTES, _SMALL_TOGETHER // chains)
    if delta_bytes > max(snapshot_bytes, small) or deltas - carried // 2 >= _LONGEST:
        return True
    for_one = max(1, min(_CARRIED_FOR_ONE, _MOST_NAMES // (MOST_DELTAS * chains)))
    return deltas - carried + carried // for_one >= MOST_DELTAS and delta_bytes * _COST_RATIO >= snapshot_bytes
