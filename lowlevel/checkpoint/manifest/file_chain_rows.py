"""The encoding of file chains as JSON, for commits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.lowlevel.checkpoint.files.file_chain import FileChain, Origin
from headrace.lowlevel.checkpoint.files.snapshot import Snapshot, SnapshotOrder


def chain_row(chain: FileChain) -> list[object]:
    """Convert a file chain to JSON values."""
    return [
        *(chain.level, chain.interval, chain.start, chain.stop, _snapshot_row(chain.snapshot)),
        # One string for all names is faster, as there may be thousands and most are only copied.
        *(" ".join(chain.deltas), chain.replay_bytes),
        [(chain_row(origin.chain), origin.computations and sorted(origin.computations)) for origin in chain.origins],
    ]


def _snapshot_row(snapshot: Snapshot | None) -> dict[str, object] | None:
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


def _snapshot(level: int, interval: int, row: dict[str, Any]) -> Snapshot:
    order = SnapshotOrder(level, interval, row["epoch"], row["last"], row["generation"], row["token"])
    return Snapshot(order, tuple((computation, count) for computation, count in row["parts"]), row["size"])
