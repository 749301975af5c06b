"""Values that `CheckpointView` returns (MillWheel paper §6.2).

Times are microseconds UTC. Keys that the view's key coder does not know are encoded bytes.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from io import BytesIO
from typing import cast

from headrace.lowlevel.topology.timer import TimeDomain


@dataclass(frozen=True, slots=True)
class CommittedEpoch:
    """A commit that is still in the log.

    >>> commit = CommittedEpoch(7, wall_clock=1_700_000_000_000_000, generation=2, owner="host a", finished=False)
    >>> commit.epoch, commit.owner
    (7, 'host a')
    """

    epoch: int
    wall_clock: int
    """The wall-clock time of the epoch."""
    generation: int
    """Generation of the driver that committed it."""
    owner: str
    """The driver's description of itself."""
    finished: bool
    """Whether all input had ended and nothing was left to do."""


@dataclass(frozen=True, slots=True)
class Watermarks:
    """The low watermarks of a computation.

    >>> Watermarks("count", level=0, input=60_000_000, output=55_000_000, intervals={0: 60_000_000}).output
    55000000
    """

    computation: str
    level: int
    input: int
    """Its input low watermark."""
    output: int
    """Its low watermark: the input low watermark, or less because of holds."""
    intervals: Mapping[int, int]
    """Number of a key interval -> low watermark, from the watermark authority."""


@dataclass(frozen=True, slots=True)
class StoredTimer:
    """A timer that has not fired.

    >>> StoredTimer("count", "red", "end", TimeDomain.LOW_WATERMARK, timestamp=60_000_000).tag
    'end'
    """

    computation: str
    key: object
    tag: str
    domain: TimeDomain
    timestamp: int
    """When the timer is due: event time or wall-clock time, see `domain`."""


@dataclass(frozen=True, slots=True)
class StoredHold:
    """A hold of a computation's output watermark.

    >>> StoredHold("count", "red", "end", timestamp=60_000_000, timer=TimeDomain.LOW_WATERMARK).key
    'red'
    """

    computation: str
    key: object
    tag: str
    """Tag of the hold, or of its timer."""
    timestamp: int
    """The time at which the watermark is held."""
    timer: TimeDomain | None
    """The time domain of the hold's timer; None for a hold without a timer."""


@dataclass(frozen=True, slots=True)
class StoredState:
    """The stored state of one key.

    >>> StoredState("count", "red", 2).state
    2
    """

    computation: str
    key: object
    state: object
    """The key's `Context.state`: decoded if a coder was given, else bytes; None if there is none."""
    cells: Mapping[bytes, bytes] = field(default_factory=dict)
    """The key's other cells by name, see `Context.read`."""


@dataclass(frozen=True, slots=True)
class StoredLine:
    """A line of a segment: an entry of a key in the state of a computation over columns. A key may have many lines.

    >>> StoredLine("Sum", "red", {"total": 12}).columns["total"]
    12
    """

    computation: str
    key: object
    """The 16-byte row if the computation does not store keys."""
    columns: Mapping[str, object]
    """The line's other columns by name, see `headrace.lowlevel.state.segment`."""


@dataclass(frozen=True, slots=True)
class PendingRecords:
    """Records in a commit that are delivered with the next epoch.

    >>> PendingRecords("ranks", "visits", records=3, oldest=60_000_000, size=120).consumer
    'ranks'
    """

    consumer: str
    stream: str
    records: int
    oldest: int
    """Least timestamp of the records."""
    size: int
    """Bytes."""


@dataclass(frozen=True, slots=True)
class InjectorState:
    """The progress of an injector.

    >>> InjectorState("visits", position=120, watermark=60_000_000, greatest=65_000_000, ended=False).position
    120
    """

    stream: str
    position: object
    """The position of its next delivery."""
    watermark: int
    greatest: int
    """The greatest timestamp that it has delivered."""
    ended: bool


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A snapshot or delta file that is part of the state of a commit.

    >>> StoredFile("delta", level=0, interval=1, epoch=7, size=120).kind
    'delta'
    """

    kind: str
    """`snapshot` or `delta`."""
    level: int
    interval: int
    """Number of the key interval for which it was written; other intervals may read it now."""
    epoch: int
    size: int
    """Bytes."""


def pending_records(consumer: str, oldest: int, block: bytes) -> PendingRecords:
    """A summary of an encoded block of records. No code that the block names runs."""
    _, stream, _, _, _, timestamps, *_ = _Outline(BytesIO(block)).load()
    return PendingRecords(consumer, stream, len(timestamps), oldest, len(block))


def block_keys(block: bytes) -> Iterable[bytes]:
    """The encoded keys of an encoded block of records. No code that the block names runs."""
    _, _, keys, *_ = _Outline(BytesIO(block)).load()
    return cast("Iterable[bytes]", keys)


class _Outline(pickle.Unpickler):
    """An unpickler that replaces objects of all classes but `array` by `_Opaque`."""

    def find_class(self, module: str, name: str) -> object:
        if module == "array" and name in ("array", "_array_reconstructor"):
            return super().find_class(module, name)
        return _Opaque


class _Opaque:
    """A stand-in that ignores all that a pickle stores in an object."""

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
