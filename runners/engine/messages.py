"""One epoch as data: what the driver tells the tasks, what the tasks tell each other and the driver.

Everything travels as rows `(target task, level, kind, blob)`. A row for a deeper level passes through the levels
before it; rows for `DRIVER` reach the driver.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import IntEnum
from functools import lru_cache
from typing import Any, Protocol, cast

from headrace.lowlevel.balance import Load
from headrace.lowlevel.checkpoint import CopyPlan, DeltaFile, Snapshot, SnapshotOrder
from headrace.lowlevel.checkpoint.manifest import SINK_LEVEL
from headrace.lowlevel.columnparcel import decode_parcel
from headrace.lowlevel.errors import StepError
from headrace.lowlevel.injector import Split
from headrace.lowlevel.intervals import IntervalMap
from headrace.lowlevel.lateness import Lateness
from headrace.lowlevel.metric import Cells
from headrace.lowlevel.state import Mark
from headrace.lowlevel.topology import Topology
from headrace.lowlevel.watermark import Frontier
from headrace.runners.engine.beside import Call, Release

Row = tuple[int, int, int, bytes]
"""(target task, level, kind, blob)."""
DRIVER = 1_000_000
"""The level of rows that are for the driver."""
SINK = SINK_LEVEL
"""The level of pending productions whose consumer is a sink: stragglers, see `headrace.runners.engine.stragglers`."""


class Kind(IntEnum):
    """What the blob of a row is."""

    SPLIT = 0
    """A pickled `Work`: the epoch and something to read. Only at level 0."""
    PARCEL = 1
    """A pickled (sender, number, interval, encoded parcel): records."""
    CONTROL = 2
    """A pickled `Control`, from every task to every task of the next level."""
    CHAIN = 3
    """A pickled `CopyPlan`: how a task brings the copy of one of its intervals up to date."""
    REPORT = 4
    """A pickled `Report`, from every task to the driver."""
    FAILURE = 5
    """A pickled `StepError`, to the driver."""


@dataclass(frozen=True, slots=True)
class EpochSpec:
    """What every task of an epoch must know. Small: it travels with every row of input and every control row."""

    epoch: int
    generation: int
    clock: int
    """The reading of the wall clock, microseconds UTC."""
    tasks: int
    """Of every keyed level."""
    intervals: Mapping[int, IntervalMap]
    """Level -> its key intervals, each with the task that owns it."""
    before: Frontier
    """Unfinished work at the start, injectors as they were."""
    deliveries: dict[str, tuple[int, bool]]
    """Injector stream -> watermark that it states, whether its input ends with this epoch."""
    committed: dict[str, int]
    """Computation -> input low watermark of the last epoch."""
    id_slacks: Mapping[str, int] = field(default_factory=dict)
    """Stream -> how long ids of its records are kept, microseconds of event time; only those that may come again."""
    straggler_delay: int = 0
    """How long a task waits until weak productions are acknowledged, microseconds."""
    sampled: Mapping[int, frozenset[int]] = field(default_factory=dict)
    """Level -> numbers of intervals that the balancer wants to know places of keys of."""
    _packed: bytes = field(default=b"", init=False, repr=False, compare=False)
    """As bytes, once they were asked for."""

    def __reduce__(self) -> tuple[Callable[[bytes], EpochSpec], tuple[bytes]]:
        """It stands in each of very many rows, so it is made into bytes once, and of these again once a process."""
        if not self._packed:
            values = [getattr(self, each.name) for each in fields(self) if each.name != "_packed"]
            object.__setattr__(self, "_packed", pack(values))
        return _spec_of, (self._packed,)


@lru_cache(maxsize=4)
def _spec_of(packed: bytes) -> EpochSpec:
    return EpochSpec(*cast("list[Any]", unpack(packed)))


@dataclass(frozen=True, slots=True)
class Work:
    """Input of one level-0 task: a split of an injector, or nothing but the epoch itself."""

    spec: EpochSpec
    stream: str | None = None
    split: Split | None = None


@dataclass(frozen=True, slots=True)
class Sender:
    """Who sent something: level, task (number of the split at level 0) and the attempt's token."""

    level: int
    index: int
    token: str
    shape: str = ""
    """Where all that it sent to other tasks are weak productions: equal for attempts that may stand for each other."""


@dataclass(frozen=True, slots=True)
class Control:
    """What a task tells the tasks of the next level when it has sent them everything."""

    spec: EpochSpec
    sender: Sender
    greatest: dict[str, int] = field(default_factory=dict)
    """Injector stream -> greatest timestamp read."""
    holds: dict[str, int] = field(default_factory=dict)
    """Computation -> oldest hold, of this task's intervals and of all levels before."""
    lateness: dict[str, Lateness] = field(default_factory=dict)
    """Injector stream -> how late records were: from level 0 those that the task read, from others all of the epoch."""
    by_interval: dict[str, dict[int, int]] = field(default_factory=dict)
    """See `Frontier.by_interval`; of this task's intervals and of all levels before."""
    failed: bool = False
    """A task before this one failed: there is nothing more to do."""


@dataclass(frozen=True, slots=True)
class Pending:
    """A production that is part of the commit and is delivered after it. Persisted: every field."""

    interval: int
    level: int
    """Of the computation that gets it in the next epoch; `SINK` for what a sink has not acknowledged."""
    consumer: str
    oldest: int
    """Least timestamp in it, microseconds UTC: it holds the consumer's watermark."""
    parcel: bytes

    def row(self, number: int, intervals: IntervalMap) -> Row:
        """As input of the next epoch."""
        owner = intervals[self.interval].owner
        return (owner, self.level, Kind.PARCEL, pack((COMMITTED, number, self.interval, self.parcel)))

    def divided(self, intervals: IntervalMap) -> list[Pending]:
        """The same records for other intervals."""
        parts = decode_parcel(self.parcel).divided(intervals)
        return [
            Pending(interval.number, self.level, self.consumer, part.oldest(), part.encode())
            for interval, part in parts.items()
        ]


@dataclass(slots=True)
class Report:
    """What a task tells the driver: the part of the commit that it is the source of."""

    sender: Sender
    consumed: list[Sender] = field(default_factory=list)
    """Attempts whose productions it took in."""
    deltas: dict[int, DeltaFile] = field(default_factory=dict)
    """Interval -> the delta file that it wrote; absent where nothing changed."""
    loads: dict[int, Load] = field(default_factory=dict)
    """Interval -> what it cost."""
    counters: dict[str, dict[str, int]] = field(default_factory=dict)
    """Computation or injector stream -> counter -> amount."""
    metrics: Cells = field(default_factory=dict)
    """What user code counted."""
    sizes: dict[str, int] = field(default_factory=dict)
    """Computation -> bytes of state that this task began with."""
    watermarks: dict[str, int] = field(default_factory=dict)
    """Computation -> input low watermark that this task computed."""
    holds: dict[tuple[str, int], tuple[Mark, bytes]] = field(default_factory=dict)
    """(computation, interval) -> its oldest hold and the encoded key that holds."""
    wall_timers: dict[tuple[str, int], int] = field(default_factory=dict)
    """(computation, interval) -> when its earliest wall-time timer is due."""
    greatest: dict[str, int] = field(default_factory=dict)
    """Injector stream -> greatest timestamp read."""
    lateness: dict[str, Lateness] = field(default_factory=dict)
    """Injector stream -> how late the records were that this task read, where a consumer asks for that."""
    told: dict[str, list[object]] = field(default_factory=dict)
    """Injector stream -> what its splits found out by being read."""
    receipts: dict[str, bytes] = field(default_factory=dict)
    """Sink -> receipt for the rows staged."""
    pending: list[Pending] = field(default_factory=list)
    """Productions for the next epoch."""

    def add_counters(self, name: str, counters: Mapping[str, int]) -> None:
        """Add to a computation's or a stream's counters."""
        sums = self.counters.setdefault(name, {})
        for counter, amount in counters.items():
            sums[counter] = sums.get(counter, 0) + amount


class Executor(Protocol):
    """Runs the tasks of an epoch, level by level; what the runners differ in."""

    parallelism: int
    """Tasks that run at once, and the number of intervals to begin with."""

    def splits(self) -> int:
        """How many splits to ask for: by as many tasks the next epoch is likely to be read."""

    def run(self, spec: EpochSpec, splits: Sequence[tuple[str, Split]], rows: Sequence[Row]) -> list[Row]:
        """Run one epoch: read the splits (injector stream, split), deliver the rows, return the rows for the driver.

        Nothing that it does may be visible outside until the driver commits.
        """

    def rearrange(self, before: Mapping[int, IntervalMap], after: Mapping[int, IntervalMap]) -> None:
        """From the next epoch on tasks work on other intervals; called when all epochs before are committed."""

    def committed(self, epoch: int, records: int) -> None:
        """The epoch is committed, which has read so many records: soft state may advance."""

    def abandoned(self, epoch: int) -> None:
        """The epoch is given up."""

    def snapshots(self, orders: Sequence[tuple[SnapshotOrder, CopyPlan]]) -> Callable[[], list[Snapshot] | None]:
        """Begin to make snapshots, away from the hot path; the result asks for them, None if they are not ready.

        Either may raise, if they cannot be made.
        """

    def beside(self, release: Release) -> Call:
        """Begin to release stragglers on the driver, beside the epochs."""

    def prepare(self, topology: Topology) -> tuple[Topology, Callable[[], None]]:
        """Get ready to run another topology; nothing changes yet, and what cannot run is refused with an error.

        Returns it with this engine's readers in their places, and what to call once the change is committed.
        """

    def close(self, at_once: bool = False) -> None:
        """The run is over, for good or ill: tear user code down in the processes that can be reached.

        `at_once`: somebody waits for the end, so what takes long, and that nothing depends on, is left out.
        """


def pack(value: object) -> bytes:
    """Bytes of a message between tasks of one epoch; never persisted."""
    return pickle.dumps(value, pickle.HIGHEST_PROTOCOL)


def unpack(blob: bytes) -> object:
    """The message of the bytes."""
    return pickle.loads(blob)


COMMITTED = Sender(-1, 0, "")
"""The sender of pending productions: an earlier epoch, which is committed."""


def work_rows(spec: EpochSpec, splits: Sequence[tuple[str, Split]]) -> list[Row]:
    """Rows for level 0, one a split; without splits one that only carries the epoch."""
    work = [Work(spec, stream, split) for stream, split in splits] or [Work(spec)]
    return [(number % spec.tasks, 0, Kind.SPLIT, _packed(item)) for number, item in enumerate(work)]


def _packed(work: Work) -> bytes:
    try:
        return pack(work)
    except Exception as error:
        cause = f"this is to be read by a task, and cannot be sent there ({type(error).__name__}: {error})"
        raise StepError(str(work.stream), None, work.split, cause) from error
