"""Snapshots: the whole state of a level and interval, so that what must be replayed stays bounded.

A snapshot is made away from the hot path, from a copy that is brought up to a plan, and counts from the commit that
names it. It is written in parts, as a copy dumps itself, so that a large state is never in memory whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from headrace.lowlevel.checkpoint import paths
from headrace.lowlevel.checkpoint.delta_file import DeltaHeader, encode_deltas
from headrace.lowlevel.state import Copy
from headrace.lowlevel.store import Store

MOST_DELTAS = 32
"""A plan this long is worth a snapshot, unless the state is so large that writing it would cost more than it saves."""
_LONGEST = 16 * MOST_DELTAS
_COST_RATIO = 4
_SMALL_BYTES = 16 << 20
"""Replay that is soon done, in a third of a second an interval, however little of it is left in the state in the end.

Where what is set in one epoch is gone a few epochs later, deltas are as large as the state, and snapshots cost as much.
"""


@dataclass(frozen=True, slots=True)
class SnapshotOrder:
    """What a snapshot is to hold; made by the driver, carried out wherever a copy is."""

    level: int
    interval: int
    epoch: int
    """Committed epoch whose state it holds."""
    last: str
    """Name of the last file of the plan that it replaces."""
    generation: int
    """Of the driver that ordered it."""
    token: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A snapshot as a commit names it."""

    order: SnapshotOrder
    parts: tuple[tuple[str, int], ...]
    """(computation, number of its parts), in order."""
    size: int
    """Bytes."""

    @property
    def name(self) -> str:
        """Its name within a plan."""
        return f"s{self.order.epoch}-{self.order.generation}-{self.order.token}"

    def objects(self) -> Iterator[str]:
        """Names of its parts in the store."""
        return (path for path, _ in self.headers())

    def headers(self, only: str | None = None) -> Iterator[tuple[str, DeltaHeader]]:
        """Name in the store and header of each part, in order; `only` leaves out all other computations."""
        part = 0
        for computation, count in self.parts:
            for number in range(part, part + count):
                if only is None or only == computation:
                    yield _part(self.order, number)
            part += count


def write_snapshot(store: Store, order: SnapshotOrder, copies: Mapping[str, Copy]) -> Snapshot:
    """Write the state in `copies` (by computation; brought up to the plan's `last` at least). Raises `StoreError`.

    It counts once it is given to a commit of the driver that ordered it.
    """
    parts = []
    written = size = 0
    for computation, copy in copies.items():
        before = written
        for delta in filter(None, copy.dump()):
            path, header = _part(order, written)
            data = encode_deltas(header, {computation: delta})
            store.put(path, data)
            written, size = written + 1, size + len(data)
        parts.append((computation, written - before))
    return Snapshot(order, tuple(parts), size)


def _part(order: SnapshotOrder, number: int) -> tuple[str, DeltaHeader]:
    at = paths.SnapshotName(order.level, order.interval, order.epoch, order.generation)
    header = DeltaHeader(order.epoch, order.level, order.interval, order.token, number)
    return paths.snapshot_part(at, order.token, number), header


def is_worth_snapshot(deltas: int, delta_bytes: int, snapshot_bytes: int) -> bool:
    """Whether a plan of so many deltas after a snapshot of that size should start from a new one.

    Each byte of change is written again only a few times, whatever the size of the state: small changes to a large
    state wait for more company.

    >>> [is_worth_snapshot(deltas, 3_000, size) for deltas, size in ((32, 4_000), (32, 10**9), (3, 4_000))]
    [True, False, False]
    >>> [is_worth_snapshot(10, size, 2_000_000) for size in (10_000_000, 20_000_000)]
    [False, True]
    """
    if deltas <= 1:
        return False
    if delta_bytes > max(snapshot_bytes, _SMALL_BYTES) or deltas >= _LONGEST:
        return True
    return deltas >= MOST_DELTAS and delta_bytes * _COST_RATIO >= snapshot_bytes
