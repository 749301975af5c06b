"""What can be read off a checkpoint, as values (MillWheel paper §6.2: all that is true is in it).

`CheckpointView` makes them. Times are microseconds UTC. Keys are decoded where the view's key coder knows them, else
they are their encoded bytes.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field
from io import BytesIO

from headrace.lowlevel.timer import TimeDomain


@dataclass(frozen=True, slots=True)
class CommittedEpoch:
    """A commit that is still in the log."""

    epoch: int
    wall_clock: int
    """The epoch's reading of the wall clock."""
    generation: int
    """Of the driver that committed it."""
    owner: str
    """That driver, as it describes itself."""
    finished: bool
    """Whether all input had ended and nothing was left to do."""


@dataclass(frozen=True, slots=True)
class Watermarks:
    """How far event time has come at a computation."""

    computation: str
    level: int
    input: int
    """Its input low watermark."""
    output: int
    """Its low watermark: the input's, or less where something is held."""
    intervals: Mapping[int, int]
    """Number of each of its key intervals -> low watermark, as the authority has it."""


@dataclass(frozen=True, slots=True)
class StoredTimer:
    """A timer that has not fired."""

    computation: str
    key: object
    tag: str
    domain: TimeDomain
    timestamp: int
    """When it is due by its own clock."""


@dataclass(frozen=True, slots=True)
class StoredHold:
    """What keeps a computation's output watermark back."""

    computation: str
    key: object
    tag: str
    """Of the hold, or of the timer that it belongs to."""
    timestamp: int
    """Where the watermark is held."""
    timer: TimeDomain | None
    """The clock of the timer that it belongs to; None for a hold of its own."""


@dataclass(frozen=True, slots=True)
class StoredState:
    """What is stored of one key."""

    computation: str
    key: object
    state: object
    """Its `Context.state`: decoded if a coder was given, else bytes; None if it has none."""
    cells: Mapping[bytes, bytes] = field(default_factory=dict)
    """Its other cells by name, see `Context.read`."""


@dataclass(frozen=True, slots=True)
class StoredLine:
    """A line of a segment: what a computation that works by columns has added for a key. A key may have many."""

    computation: str
    key: object
    """The 16 bytes of its row if the computation does not write keys down."""
    columns: Mapping[str, object]
    """Its other columns by name, see `headrace.lowlevel.segment`."""


@dataclass(frozen=True, slots=True)
class PendingRecords:
    """Records on their way: part of the commit, delivered with the next epoch."""

    consumer: str
    stream: str
    records: int
    oldest: int
    """Least timestamp of them."""
    size: int
    """Bytes."""


@dataclass(frozen=True, slots=True)
class InjectorState:
    """How far a stream from outside has been taken in."""

    stream: str
    position: object
    """Where its next delivery starts."""
    watermark: int
    greatest: int
    """Greatest timestamp seen."""
    ended: bool


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A snapshot or a delta file that the state of a commit is made of."""

    kind: str
    """`snapshot` or `delta`."""
    level: int
    interval: int
    """Number of the key interval that wrote it; others may have taken over what it holds."""
    epoch: int
    size: int
    """Bytes."""


def pending_records(consumer: str, oldest: int, parcel: bytes) -> PendingRecords:
    """What an encoded parcel of records holds. None of the code that made its values runs."""
    _, stream, _, _, _, timestamps, *_ = _Outline(BytesIO(parcel)).load()
    return PendingRecords(consumer, stream, len(timestamps), oldest, len(parcel))


class _Outline(pickle.Unpickler):
    """Reads plain values as they are, and anything else as a stand-in for it."""

    def find_class(self, module: str, name: str) -> object:
        if module == "array" and name in ("array", "_array_reconstructor"):
            return super().find_class(module, name)
        return _Opaque


class _Opaque:
    """Takes whatever a pickle would give to an object."""

    def __new__(cls, *arguments: object, **named: object) -> _Opaque:
        return super().__new__(cls)

    def __init__(self, *arguments: object, **named: object) -> None:
        return

    def __setstate__(self, state: object) -> None:
        return

    def __setitem__(self, name: object, value: object) -> None:
        return

    def append(self, item: object) -> None:
        return

    def extend(self, items: object) -> None:
        return

    def add(self, item: object) -> None:
        return
