"""How drivers exclude each other: leases, seals, and what the loser is told (paper §6.2, figure 12).

The log is a row of numbered places. A driver commits by writing the place after its own last entry, if it is still
empty: the write that wins decides, and nothing is read first and trusted later. That alone keeps two drivers from
both committing. It does not yet do what the paper asks of a new owner: a write of the old one may still be on its way
and land after the new one has looked. So a new driver

1. takes a *lease* with the next generation: `leases/<generation>`, written if absent;
2. finds the last entry and writes a *seal* into the place after it, if that is still empty. The old driver's next
   commit can only go to that place, so from now on it fails, however late it arrives. If the place was taken in the
   meantime, the old driver was faster: look again;
3. looks once more that no later entry and no newer lease is there, and only then works, on the commit that the seal
   names. With a later entry it looks again, with a newer lease it stops.

A driver that took its lease, was stopped and went on may by 2 seal out a driver with a *newer* lease, and stops by 3.
So a driver that finds a seal of a smaller generation in its place steps over it: who wrote it saw the newer lease, and
does nothing more. Generations thus never go back along the commits.

Garbage collection takes away old commits, never seals. Every place in which a driver that was replaced may still try
to write is thus taken for ever: it is the place of its successor's seal. (A seal that was itself late may land among
places whose entries have been collected; step 3 finds that out.)

An entry counts once it is on the disk: a store gives the name when the bytes are there, and says so when the name is.
An entry that is empty all the same has thus been acknowledged to nobody, if the disk keeps what it promised. A driver
refuses it nevertheless and leaves it to a person to delete it: while it is there, its place is taken for a driver that
was replaced and is still trying; whether there is one, only the person knows.

Before it commits a driver also looks whether a newer lease is there. That is not needed for safety; it stops a driver
as soon as a successor has arrived, instead of racing it for the next place.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from headrace.lowlevel.checkpoint import envelope, paths
from headrace.lowlevel.errors import CheckpointError, FencedError
from headrace.lowlevel.store import Store

LEASE_KIND, SEAL_KIND = "lease", "seal"
FORMAT_VERSION = 1
"""Of leases and seals."""


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to drive a checkpoint, until somebody takes the next generation. Persisted: every field."""

    generation: int
    owner: str
    """The driver as it describes itself."""
    taken: int
    """When, by its own clock: microseconds UTC."""

    def __str__(self) -> str:
        return f"generation {self.generation} ({self.owner})"


@dataclass(frozen=True, slots=True)
class Seal:
    """An entry of the log that commits nothing: its writer goes on from an earlier commit. Persisted: every field."""

    lease: Lease
    base: int
    """Place of the commit that the sealing driver goes on from; 0 if there is none."""

    def encode(self) -> bytes:
        """As bytes."""
        head = json.dumps({"lease": _fields(self.lease), "base": self.base}).encode()
        return envelope.wrap(SEAL_KIND, FORMAT_VERSION, [head])

    @classmethod
    def decode(cls, parts: list[memoryview]) -> Seal:
        """Back from the unwrapped parts of an entry."""
        content = json.loads(bytes(parts[0]))
        generation, owner, taken = content["lease"]
        return cls(Lease(int(generation), str(owner), int(taken)), int(content["base"]))


def take_lease(store: Store, owner: str, now_us: int) -> Lease:
    """A lease with a generation above all others."""
    while True:
        lease = Lease(newest(store, paths.LEASES) + 1, owner, now_us)
        data = envelope.wrap(LEASE_KIND, FORMAT_VERSION, [json.dumps(_fields(lease)).encode()])
        # The second look: this write may have been late, and have found its number free because it was collected.
        if store.put_if_absent(paths.lease(lease.generation), data) and newest(store, paths.LEASES) == lease.generation:
            return lease


def read_lease(store: Store, generation: int) -> Lease | None:
    """The lease of a generation; None if nobody took it, or it was collected."""
    path = paths.lease(generation)
    try:
        if (data := store.get(path)) is None:
            return None
        head, *_ = envelope.unwrap(LEASE_KIND, FORMAT_VERSION, data, path)
        with envelope.understood(path):
            number, owner, taken = json.loads(bytes(head))
            return Lease(int(number), str(owner), int(taken))
    except CheckpointError:
        # That it is there is what counts.
        return Lease(generation, "unknown: its lease is damaged", 0)


def newest(store: Store, folder: str) -> int:
    """The highest generation in `LEASES`, or the last place in `LOG`; 0 if there is none."""
    numbers = [number for number in map(paths.number_of, store.list(folder)) if number is not None]
    return max(numbers, default=0)


def refuse_replaced(store: Store, own: Lease, what: str) -> None:
    """Raise `FencedError` if there is a newer lease; `what` says what the driver was about to do."""
    latest = newest(store, paths.LEASES)
    if latest > own.generation and (winner := read_lease(store, latest)) is not None:
        raise fenced(store, own, winner, what)


def fenced(store: Store, own: Lease, winner: Lease, what: str) -> FencedError:
    """The error of a driver that another one has replaced; `what` says what it was about to do."""
    return FencedError(
        f"{own} on {store.describe()} was replaced by {winner} and stops; {what}. "
        "Run one driver on a checkpoint: stop the other one if it is not meant to go on from here"
    )


def _fields(lease: Lease) -> list[object]:
    return [lease.generation, lease.owner, lease.taken]
