"""A recording that lies in the checkpoint of its run, so that it outlives drivers (MillWheel paper §6.2).

After each committed epoch a small object is added, and from time to time all are joined into one. Each names its
epochs, which are committed once, so whoever writes an epoch writes the same: a driver that was replaced does no harm.
Objects are JSON, so nothing of them runs when somebody reads them.
"""

from __future__ import annotations

import os
from typing import Final

from headrace.lowlevel.checkpoint import envelope, paths
from headrace.lowlevel.checkpoint.signature import KEY_VARIABLE, signed
from headrace.lowlevel.errors import CheckpointError
from headrace.lowlevel.store import ObjectStore, Store
from headrace.sdk.options import PipelineOptions
from headrace.sdk.recording import Recording
from headrace.sdk.running import checkpoint_of

KIND: Final = "recording"
FORMAT_VERSION: Final = 1
"""Of the objects. Change it with their contents."""
JOIN_AT: Final = 64
"""Objects that are joined into one."""
_TRIES: Final = 5

Epochs = tuple[int, int]
"""First and last."""


def store_of(place: str) -> Store:
    """The store of a checkpoint, with the key in the environment if there is one."""
    return signed(ObjectStore(place), os.environ.get(KEY_VARIABLE))


def log_of(options: PipelineOptions) -> RecordLog | None:
    """That of the checkpoint that a run is to have; None for none, or for one that only its own process can read."""
    place = checkpoint_of(options)
    return None if place is None or place.startswith("memory:") else RecordLog(store_of(place))


class RecordLog:
    """The recording in one checkpoint.

    >>> from headrace.sdk.recording import Arrival, StepRecording
    >>> log = RecordLog(ObjectStore("memory://"))
    >>> for epoch in (1, 2):
    ...     seen = StepRecording("Sum", (Arrival(epoch, epoch, "a", epoch),), epochs=((epoch, epoch),))
    ...     log.add((epoch, epoch), Recording((seen,)))
    >>> step = log.read().step()
    >>> step.epochs, [arrival.value for arrival in step.arrivals]
    (((1, 2),), [1, 2])
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        """Of the checkpoint."""

    def add(self, epochs: Epochs, seen: Recording) -> None:
        """Write what was seen in some epochs, unless it is there. Raises `StoreError`."""
        data = envelope.wrap(KIND, FORMAT_VERSION, [seen.to_json().encode()])
        self.store.put_if_absent(paths.recording(*epochs), data)

    def read(self) -> Recording:
        """All of it; empty if nothing was recorded. Raises `CheckpointError` naming an object that is damaged."""
        for _ in range(_TRIES):
            if (found := self._try_to_read()) is not None:
                return found
        raise CheckpointError(
            f"the recording in {self.store.describe()} changes faster than it can be read; read it again later"
        )

    def _try_to_read(self) -> Recording | None:
        """None if something was joined meanwhile."""
        whole = Recording()
        for epochs in self.objects():
            name = paths.recording(*epochs)
            if (data := self.store.get(name)) is None:
                return None
            (text,) = envelope.unwrap(KIND, FORMAT_VERSION, data, f"{name} in {self.store.describe()}")
            with envelope.understood(f"{name} in {self.store.describe()}"):
                whole = whole.followed_by(Recording.of_json(bytes(text), name))
        return whole

    def objects(self) -> list[Epochs]:
        """The epochs of every object that counts, in order: what a joined one has is left out."""
        names = filter(None, map(paths.recorded_epochs, self.store.list(paths.RECORDINGS)))
        found: list[Epochs] = []
        for first, last in sorted(names, key=lambda epochs: (epochs[0], -epochs[1])):
            if not found or last > found[-1][1]:
                found.append((first, last))
        return found

    def join(self) -> None:
        """Make one object of all, and take those away. Raises `StoreError`, `CheckpointError`."""
        objects = self.objects()
        if len(objects) < 2:
            return
        whole = objects[0][0], objects[-1][1]
        self.add(whole, self.read())
        for path in self.store.list(paths.RECORDINGS):
            epochs = paths.recorded_epochs(path)
            if epochs is not None and epochs != whole and whole[0] <= epochs[0] and epochs[1] <= whole[1]:
                self.store.delete(path)
