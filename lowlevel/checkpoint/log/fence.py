"""Fencing: leases and seals, by which drivers exclude each other (MillWheel paper §6.2, figure 12).

The log has numbered positions. A driver commits by a conditional write to the position after its own last entry, which
fails if there is an entry. That alone keeps two drivers from both committing at a position. It is not sufficient for a
new driver: a delayed write of the old driver may arrive after the new driver has read the log. So a new driver

1. takes a *lease* with the next generation: `leases/<generation>`, written if absent;
2. finds the last entry and writes a *seal* to the position after it, if that position is still free. The old driver's
   next commit can only go to that position, so it fails from now on, however late it arrives. If the position has an
   entry by then, the old driver was faster, and this step is repeated;
3. checks that there is no later entry and no newer lease, and only then continues from the commit that the seal names.
   If there is a later entry, step 2 is repeated; if there is a newer lease, the driver stops.

A driver that was suspended after step 1 may seal out a driver with a *newer* lease in step 2, and then stops in step 3.
So a driver that finds a seal of a smaller generation at its position uses the next one: the writer of that seal has
seen the newer lease, and stops. Generations thus never decrease from commit to commit.

Garbage collection deletes old commits, but never seals. So every position to which a replaced driver may still try to
write has an entry: its successor's seal. (A delayed seal may arrive at a position whose entry was deleted as garbage;
step 3 detects that.)

An entry is committed once it is on the disk: a store writes the bytes first, then the name, and then returns. An empty
entry was therefore acknowledged to no driver, if the disk works correctly. A driver nevertheless refuses it, and a
person must delete it: the entry blocks its position for a replaced driver that may still try to write, and only a
person can know whether there is one.

Before each commit a driver also checks for a newer lease. Safety does not need this check; it stops a driver as soon as
it has a successor, before both write to the same position.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from headrace.lowlevel.errors import CheckpointError, FencedError
from headrace.lowlevel.storage import envelope, object_names
from headrace.lowlevel.storage.object_store import ObjectStorage

LEASE_KIND, SEAL_KIND = "lease", "seal"
FORMAT_VERSION = 1
"""Format version of leases and seals."""


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to drive a checkpoint, until another driver takes the next generation. Persisted: every field."""

    generation: int
    owner: str
    """The driver's description of itself."""
    taken: int
    """Time by the driver's clock when it took the lease, microseconds UTC."""

    def __str__(self) -> str:
        return f"generation {self.generation} ({self.owner})"


@dataclass(frozen=True, slots=True)
class Seal:
    """A log entry that commits nothing, by which a driver takes over. Persisted: every field."""

    lease: Lease
    base: int
    """Place of the commit from which the sealing driver continues; 0 if there is none."""

    def encode(self) -> bytes:
        """Encode the seal as a log entry."""
        head = json.dumps({"lease": _fields(self.lease), "base": self.base}).encode()
        return envelope.wrap(SEAL_KIND, FORMAT_VERSION, [head])

    @classmethod
    def decode(cls, parts: list[memoryview]) -> Seal:
        """Decode a seal from the unwrapped parts of a log entry."""
        content = json.loads(bytes(parts[0]))
        generation, owner, taken = content["lease"]
        return cls(Lease(int(generation), str(owner), int(taken)), int(content["base"]))


def take_lease(store: ObjectStorage, owner: str, now_us: int) -> Lease:
    """Take a lease with a generation above all others."""
    while True:
        lease = Lease(newest(store, object_names.LEASES) + 1, owner, now_us)
        data = envelope.wrap(LEASE_KIND, FORMAT_VERSION, [json.dumps(_fields(lease)).encode()])
        # A delayed write may have succeeded because the lease of that number was deleted as garbage, so check again.
        if (
            store.put_if_absent(object_names.lease(lease.generation), data)
            and newest(store, object_names.LEASES) == lease.generation
        ):
            return lease


def read_lease(store: ObjectStorage, generation: int) -> Lease | None:
    """The lease of a generation; None if it was not taken or was deleted as garbage."""
    path = object_names.lease(generation)
    try:
        if (data := store.get(path)) is None:
            return None
        head, *_ = envelope.unwrap(LEASE_KIND, FORMAT_VERSION, data, path)
        with envelope.understood(path):
            number, owner, taken = json.loads(bytes(head))
            return Lease(int(number), str(owner), int(taken))
    except CheckpointError:
        # A damaged lease counts, because only its generation matters.
        return Lease(generation, "unknown: its lease is damaged", 0)


def newest(store: ObjectStorage, folder: str) -> int:
    """The highest generation in `LEASES`, or the last position in `LOG`; 0 if there is none."""
    numbers = [number for number in map(object_names.number_of, store.list(folder)) if number is not None]
    return max(numbers, default=0)


def refuse_replaced(store: ObjectStorage, own: Lease, loss: str) -> None:
    """Raise `FencedError` if there is a newer lease; `loss` is the part of the message about what is not committed."""
    latest = newest(store, object_names.LEASES)
    if latest > own.generation and (winner := read_lease(store, latest)) is not None:
        raise fenced(store, own, winner, loss)


def fenced(store: ObjectStorage, own: Lease, winner: Lease, loss: str) -> FencedError:
    """The error of a driver that was replaced; `loss` is the part of the message about what is not committed."""
    return FencedError(
        f"{own} on {store.describe()} was replaced by {winner} and stops; {loss}. "
        "Run one driver on a checkpoint: stop the other one if it is not meant to go on from here"
    )


def _fields(lease: Lease) -> list[object]:
    return [lease.generation, lease.owner, lease.taken]
