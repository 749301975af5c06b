"""A recording in the checkpoint of its run, so that it outlives drivers (MillWheel paper §6.2).

After each committed epoch the driver adds a small object, and every `JOIN_AT` epochs it joins all of them into one.
The name of an object states its epochs. An epoch is committed once, so two drivers that write the same epoch write the
same contents. Objects are JSON, so reading them runs no code.
"""

from __future__ import annotations

from typing import Final

from headrace.lowlevel.errors import CheckpointError
from headrace.lowlevel.storage import envelope, object_names
from headrace.lowlevel.storage.object_store import ObjectStorage
from headrace.lowlevel.storage.signed_store import checkpoint_store
from headrace.options.pipeline_options import PipelineOptions, checkpoint_of
from headrace.sdk.recording.recording import Recording

KIND: Final = "recording"
FORMAT_VERSION: Final = 1
"""Version of the objects; it changes when their contents change."""
JOIN_AT: Final = 64
"""Number of objects after which they are joined."""
_TRIES: Final = 5

Epochs = tuple[int, int]
"""First and last epoch of an object."""


def log_of(options: PipelineOptions) -> RecordLog | None:
    """The log in the checkpoint of a run; None if it has no checkpoint, or one in memory."""
    location = checkpoint_of(options)
    return None if location is None or location.startswith("memory:") else RecordLog(checkpoint_store(location))


class RecordLog:
    """The recording in one checkpoint.

    >>> from headrace.sdk.recording.recording import Arrival, StepRecording
    >>> from headrace.lowlevel.storage.object_store import ObjectStore
    >>> log = RecordLog(ObjectStore("memory://"))
    >>> for epoch in (1, 2):
    ...     seen = StepRecording("Sum", (Arrival(epoch, epoch, "a", epoch),), epochs=((epoch, epoch),))
    ...     log.add((epoch, epoch), Recording((seen,)))
    >>> step = log.read().step()
    >>> step.epochs, [arrival.value for arrival in step.arrivals]
    (((1, 2),), [1, 2])
    """

    def __init__(self, store: ObjectStorage) -> None:
        self.store = store
        """The store of the checkpoint."""

    def add(self, epochs: Epochs, recording: Recording) -> None:
        """Write the recording of some epochs, unless it exists. Raises `StoreError`."""
        data = envelope.wrap(KIND, FORMAT_VERSION, [recording.to_json().encode()])
        self.store.put_if_absent(object_names.recording(*epochs), data)

    def read(self) -> Recording:
        """The whole recording; empty if nothing was recorded. Raises `CheckpointError` naming a damaged object."""
        for _ in range(_TRIES):
            if (found := self._try_to_read()) is not None:
                return found
        raise CheckpointError(
            f"the recording in {self.store.describe()} changes faster than it can be read; read it again later"
        )

    def _try_to_read(self) -> Recording | None:
        """The recording; None if objects were joined while they were read."""
        whole = Recording()
        for epochs in self.objects():
            name = object_names.recording(*epochs)
            if (data := self.store.get(name)) is None:
                return None
            (text,) = envelope.unwrap(KIND, FORMAT_VERSION, data, f"{name} in {self.store.describe()}")
            with envelope.understood(f"{name} in {self.store.describe()}"):
                whole = whole.followed_by(Recording.of_json(bytes(text), name))
        return whole

    def objects(self) -> list[Epochs]:
        """The epochs of every current object, in order, without those that a joined object contains."""
        names = filter(None, map(object_names.recorded_epochs, self.store.list(object_names.RECORDINGS)))
        found: list[Epochs] = []
        for first, last in sorted(names, key=lambda epochs: (epochs[0], -epochs[1])):
            if not found or last > found[-1][1]:
                found.append((first, last))
        return found

    def join(self) -> None:
        """Join all objects into one, and delete the others. Raises `StoreError`, `CheckpointError`."""
        objects = self.objects()
        if len(objects) < 2:
            return
        whole = objects[0][0], objects[-1][1]
        self.add(whole, self.read())
        for path in self.store.list(object_names.RECORDINGS):
            epochs = object_names.recorded_epochs(path)
            if epochs is not None and epochs != whole and whole[0] <= epochs[0] and epochs[1] <= whole[1]:
                self.store.delete(path)
