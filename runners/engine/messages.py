"""One epoch as data: the messages between the driver and the tasks, and from task to task.

A message is a tuple `(target task, level, kind, blob)`. A message for a deeper level passes through the levels before
it; messages for `DRIVER` reach the driver.

Where tasks are many, no report names each attempt that its task has heard of: whether the attempts fit together is seen
by sums. A sender and a consumer of its blocks are a pair. Every task adds up a hash of each pair that it is the sender
of, and one of each pair that it is the consumer of. If the attempts to be committed consumed all that they sent, and
nothing else, then both sums over all tasks are equal. An attempt that was consumed but is not to be committed, or whose
output did not reach a consumer, changes one of the sums alone.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import IntEnum
from functools import lru_cache
from hashlib import blake2b
from types import MappingProxyType
from typing import Any, NamedTuple, cast

from headrace.lowlevel.checkpoint import DeltaFile, PendingProduction
from headrace.lowlevel.checkpoint.manifest.manifest import SINK_LEVEL
from headrace.lowlevel.errors import StepError
from headrace.lowlevel.injectors.injector import Split
from headrace.lowlevel.intervals.balancer import Load
from headrace.lowlevel.intervals.interval_map import IntervalMap
from headrace.lowlevel.metric import MetricValues
from headrace.lowlevel.watermarks.lateness import Lateness
from headrace.lowlevel.watermarks.propagation import Frontier

Message = tuple[int, int, int, bytes]
"""(target task, level, kind, blob)."""
DRIVER = 1_000_000
"""The level of messages for the driver."""
SINK = SINK_LEVEL
"""The level of pending productions whose consumer is a sink: stragglers, see `runners.engine.productions`."""


class MessageKind(IntEnum):
    """What the blob of a message is."""

    SPLIT = 0
    """A pickled `Work`: the epoch and a split to read. Only at level 0."""
    BLOCK = 1
    """A pickled (sender, number, interval, encoded `Block`): records."""
    CONTROL = 2
    """A pickled `Control`, from every task to every task of the next level; of many tasks, from the driver to each."""
    CHAIN = 3
    """A pickled `FileChain`: the files from which a task brings a state store of an interval up to date."""
    REPORT = 4
    """A `TaskReport`, from every task to the driver: see `pack_report`."""
    FAILURE = 5
    """A pickled `StepError`, to the driver; nothing, from one of many tasks that failed to those of the next level."""


@dataclass(frozen=True, slots=True)
class EpochSpec:
    """What every task of an epoch must know. Small: it travels in every input message and every control message."""

    epoch: int
    generation: int
    clock: int
    """The reading of the wall clock, microseconds UTC."""
    tasks: int
    """Number of tasks of every keyed level."""
    intervals: Mapping[int, IntervalMap]
    """Level -> key intervals, each with the task that owns the interval."""
    before: Frontier
    """Unfinished work, and progress of injectors, at the start of the epoch."""
    deliveries: dict[str, tuple[int, bool]]
    """Injector stream -> (watermark that the injector states, whether the input ends with this epoch)."""
    committed: dict[str, int]
    """Computation -> input low watermark of the last epoch."""
    id_slacks: Mapping[str, int] = field(default_factory=dict)
    """Stream -> how long record ids are stored, microseconds of event time; only streams that may repeat records."""
    straggler_delay: int = 0
    """How long a task waits until released rows are acknowledged, microseconds."""
    sampled: Mapping[int, frozenset[int]] = field(default_factory=dict)
    """Level -> numbers of intervals of which the balancer needs a sample of key hashes."""
    watermarks: Mapping[str, int] | None = None
    """Computation -> its input low watermark in this epoch, as the driver knew it at the start, if tasks are many; None
    if tasks tell each other how far they are."""
    agreements: Mapping[str, bytes] = field(default_factory=dict)
    """Sink -> what its tasks must know; see `AgreeingSink`."""
    latest: Mapping[str, int] = field(default_factory=dict)
    """Injector stream -> `Delivery.latest`, where there is a bound."""
    most_records: int | None = None
    """Number of records after which a task that runs all of the epoch gives it up; None for no such task."""
    _packed: bytes = field(default=b"", init=False, repr=False, compare=False)
    """The spec as bytes, made by the first pickling."""

    def alone(self, intervals: Mapping[int, IntervalMap], most_records: int) -> EpochSpec:
        """The same epoch with one task at each level, which owns all of the given intervals."""
        return replace(self, tasks=1, intervals=intervals, watermarks=None, most_records=most_records)

    @property
    def has_many_tasks(self) -> bool:
        """Whether only the driver tells tasks how far the others are: else messages grow with the square of tasks."""
        return self.watermarks is not None

    def __reduce__(self) -> tuple[Callable[[bytes], EpochSpec], tuple[bytes]]:
        """Pickle the spec once, and unpickle it once in each process: very many messages contain it."""
        if not self._packed:
            values = [getattr(self, each.name) for each in fields(self) if each.name != "_packed"]
            object.__setattr__(self, "_packed", pack(values))
        return _spec_of, (self._packed,)


@lru_cache(maxsize=4)
def _spec_of(packed: bytes) -> EpochSpec:
    return EpochSpec(*cast("list[Any]", unpack(packed)))


@dataclass(frozen=True)
class Work:
    """Input of one level-0 task: a split of an injector, or only the spec of the epoch."""

    spec: EpochSpec
    stream: str | None = None
    split: Split | None = None


@dataclass(frozen=True)
class Sender:
    """The attempt at a task that sent a message; `index` is the number of the task, at level 0 of the split."""

    level: int
    index: int
    token: str
    output_digest: str = ""
    """Equal for attempts that may replace each other; empty for an attempt that no other may replace."""
    epoch: int = 0

    @property
    def name(self) -> str:
        """A name that is equal for attempts that may replace each other."""
        return self.output_digest or self.token


@dataclass(frozen=True)
class Control:
    """The last message from a task to each task of the next level. Of many tasks, each gets one from the driver."""

    spec: EpochSpec
    sender: Sender
    greatest: dict[str, int] = field(default_factory=dict)
    """Injector stream -> greatest timestamp read."""
    holds: dict[str, int] = field(default_factory=dict)
    """Computation -> oldest hold, in the intervals of this task and at all levels before."""
    lateness: dict[str, Lateness] = field(default_factory=dict)
    """Injector stream -> lateness of the records that this task read (level 0), or of all records of the epoch."""
    by_interval: dict[str, dict[int, int]] = field(default_factory=dict)
    """See `Frontier.by_interval`; for the intervals of this task and all levels before."""
    failed: bool = False
    """Whether the sender, or a task before it, failed: then the receivers do nothing."""


def arrival(production: PendingProduction, number: int, intervals: IntervalMap) -> Message:
    """A production of the last commit as input of the next epoch."""
    blob = pack((COMMITTED, number, production.interval, production.data))
    return (intervals[production.interval].owner, production.level, MessageKind.BLOCK, blob)


NO_SUMS: Mapping[int, int] = MappingProxyType({})


@dataclass
class TaskReport:
    """From a task to the driver: what the task adds to the commit."""

    sender: Sender
    consumed: list[Sender] = field(default_factory=list)
    """Attempts whose productions the task has consumed; if tasks are many, empty unless two are of one task."""
    sent_sums: dict[int, int] = field(default_factory=dict)
    """Level -> sum over its tasks to which the task sent blocks; only if tasks are many, see `sent_sums`."""
    consumed_sum: int = 0
    """The same sum over the attempts whose blocks the task got."""
    deltas: dict[int, DeltaFile] = field(default_factory=dict)
    """Interval -> delta file; no entry for an interval without changes."""
    loads: dict[int, Load] = field(default_factory=dict)
    """Interval -> load of this epoch."""
    counters: dict[str, dict[str, int]] = field(default_factory=dict)
    """Computation or injector stream -> counter -> amount."""
    metrics: MetricValues = field(default_factory=dict)
    """Metrics of user code."""
    sizes: dict[str, int] = field(default_factory=dict)
    """Computation -> bytes of state at the start of this task."""
    dominant: dict[str, dict[bytes, int]] = field(default_factory=dict)
    """Computation -> encoded key that has most of a block's records -> its records in such blocks."""
    watermarks: dict[str, int] = field(default_factory=dict)
    """Computation -> input low watermark that this task computed."""
    holds: dict[tuple[str, int], tuple[int, bytes, str]] = field(default_factory=dict)
    """(computation, interval) -> timestamp of the oldest hold, the encoded key that has it, and its tag."""
    wall_timers: dict[tuple[str, int], int] = field(default_factory=dict)
    """(computation, interval) -> time of the earliest wall-time timer, microseconds UTC."""
    greatest: dict[str, int] = field(default_factory=dict)
    """Injector stream -> greatest timestamp read."""
    ahead: dict[str, int] = field(default_factory=dict)
    """Injector stream -> greatest timestamp read that is after `EpochSpec.latest`."""
    lateness: dict[str, Lateness] = field(default_factory=dict)
    """Injector stream -> lateness of the records that this task read; only if a consumer needs it."""
    findings: dict[str, list[object]] = field(default_factory=dict)
    """Injector stream -> report of each `TellingSplit`."""
    receipts: dict[str, bytes] = field(default_factory=dict)
    """Sink -> receipt for the rows staged."""
    pending: list[PendingProduction] = field(default_factory=list)
    """Productions for the next epoch."""
    is_alone: bool = False
    """Whether the task is the only one of its level."""

    def add_counters(self, name: str, counters: Mapping[str, int]) -> None:
        """Add to a computation's or a stream's counters."""
        add_counters(self.counters, name, counters)

    @property
    def exchange(self) -> Exchange:
        """What tells whether the attempt fits together with others."""
        return Exchange(self.sender, self.consumed, self.sent_sums, self.consumed_sum, self.is_alone)


class Exchange(NamedTuple):
    """The fields of a report by which attempts are compared."""

    sender: Sender
    consumed: Sequence[Sender] = ()
    sent_sums: Mapping[int, int] = NO_SUMS
    consumed_sum: int = 0
    is_alone: bool = False


def pack_report(report: TaskReport) -> bytes:
    """The blob of a report: sender and contents apart, so that a driver can order reports without unpacking all."""
    return pack((report.sender, pack(report)))


def unpack_report(blob: bytes) -> TaskReport:
    """The report in a blob of `pack_report`.

    >>> unpack_report(pack_report(TaskReport(Sender(1, 0, "token")))).sender.token
    'token'
    """
    _, contents = cast(tuple[Sender, bytes], unpack(blob))
    return cast(TaskReport, unpack(contents))


def control_messages(spec: EpochSpec) -> list[Message]:
    """A message from the driver to each of many tasks of the first level, which pass it on from level to level."""
    if not spec.has_many_tasks:
        return []
    control = pack(Control(spec, COMMITTED))
    return [(task, 1, MessageKind.CONTROL, control) for task in range(spec.tasks)]


def add_counters(totals: dict[str, dict[str, int]], name: str, counters: Mapping[str, int]) -> None:
    """Add counters to the totals of a computation, stream or sink.

    >>> totals = {"count": {"records": 2}}
    >>> add_counters(totals, "count", {"records": 1, "late": 1})
    >>> totals
    {'count': {'records': 3, 'late': 1}}
    """
    sums = totals.setdefault(name, {})
    for counter, amount in counters.items():
        sums[counter] = sums.get(counter, 0) + amount


def pack(value: object) -> bytes:
    """The blob of a message; never persisted."""
    return pickle.dumps(value, pickle.HIGHEST_PROTOCOL)


def unpack(blob: bytes) -> object:
    """The value of a blob."""
    return pickle.loads(blob)


COMMITTED = Sender(-1, 0, "")
"""The sender of pending productions: an earlier epoch, which is committed."""


def work_messages(spec: EpochSpec, splits: Sequence[tuple[str, Split]]) -> list[Message]:
    """Messages for level 0, one for each split; without splits one with only the spec of the epoch."""
    work = [Work(spec, stream, split) for stream, split in splits] or [Work(spec)]
    return [(number % spec.tasks, 0, MessageKind.SPLIT, _packed(item)) for number, item in enumerate(work)]


def _packed(work: Work) -> bytes:
    try:
        return pack(work)
    except Exception as error:
        cause = f"a task is to read this split, but it cannot be sent there ({type(error).__name__}: {error})"
        raise StepError(str(work.stream), None, work.split, cause) from error


_MODULUS = 1 << 64
NEVER = -1
"""The sum of a task whose epoch must not be committed; no sum is equal to it."""
LevelTask = tuple[int, int]
"""Level and index of a task."""


def sent_sums(sender: Sender, consumers: Iterable[LevelTask]) -> dict[int, int]:
    """Level -> sum over the consumers of that level.

    >>> sender = Sender(0, 3, "token")
    >>> sent_sums(sender, [(1, 7)]) == {1: consumed_sum([sender], (1, 7))}
    True
    """
    sums: dict[int, int] = {}
    for consumer in consumers:
        sums[consumer[0]] = (sums.get(consumer[0], 0) + _pair(sender, consumer)) % _MODULUS
    return sums


def consumed_sum(senders: Iterable[Sender], consumer: LevelTask) -> int:
    """The sum over the attempts whose blocks a task has consumed; earlier epochs do not count."""
    return sum(_pair(sender, consumer) for sender in senders if sender != COMMITTED) % _MODULUS


def mismatches(reports: Iterable[Exchange], levels: int, tasks: int) -> str:
    """Describe levels of which some consumed what is not to be committed, or did not report; empty if there are none.

    Args:
        reports: Those of all tasks that reported.
        levels: Number of keyed levels.
        tasks: Number of tasks of each of them.
    """
    sent, consumed = dict.fromkeys(range(1, levels + 1), 0), dict.fromkeys(range(1, levels + 1), 0)
    reported: dict[int, set[int]] = {level: set() for level in consumed}
    refused = set[int]()
    for report in reports:
        level = report.sender.level
        for target, amount in report.sent_sums.items():
            sent[target] += amount
        if level:
            consumed[level] += report.consumed_sum
            reported[level].add(report.sender.index)
            refused |= {level} if report.consumed_sum == NEVER else set()
    wrong = {level for level in consumed if (sent[level] - consumed[level]) % _MODULUS} | refused
    found = [
        f"level {level}: productions of attempts were used that are not to be committed" for level in sorted(wrong)
    ]
    found += [
        f"level {level}: {tasks - len(indices)} of {tasks} tasks did not report"
        for level, indices in reported.items()
        if len(indices) < tasks
    ]
    return "; ".join(found)


def _pair(sender: Sender, consumer: LevelTask) -> int:
    pair = f"{sender.level} {sender.index} {sender.name} {consumer[0]} {consumer[1]}"
    return int.from_bytes(blake2b(pair.encode(), digest_size=8).digest(), "big")
