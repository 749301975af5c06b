"""Partitions of Kafka as an injector: the driver plans ranges of offsets, which are committed with the epoch.

Records need no ids, as the offset of a record never changes. Each partition has a watermark behind the greatest
timestamp read in it; the injector's watermark is the least watermark of the partitions that are not idle (MillWheel
paper §5.2). While all partitions are read to their ends, a listener waits for the next record, so that nobody need keep
asking.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from math import inf
from typing import TYPE_CHECKING, Protocol, TypeAlias, cast

from headrace.lowlevel.injectors.injector import BaseInjector, Delivery, Split, heuristic_watermark
from headrace.lowlevel.records.record import Batch
from headrace.lowlevel.stored_names import named
from headrace.lowlevel.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from headrace.lowlevel.watermarks.far_future import DAY
from headrace.sdk.io.kafka.client import (
    Config,
    KafkaCluster,
    KafkaReadError,
    Partition,
    PartitionRange,
    RecordMark,
    consumer_of,
    reason_of,
    starting_at,
)

if TYPE_CHECKING:
    from confluent_kafka import Consumer


_TICK = 1_000_000
"""Microseconds after which the watermark follows the clock although nothing is read."""
_MISSED_SECONDS = 1.0
"""Seconds after which partitions are asked for records although none has been noticed."""
_UNSEEN_SECONDS = 10.0
"""Seconds between two plans in which a topic could be made anew unnoticed, so that the last records are compared."""
_log = logging.getLogger(__name__)
ReadUpTo = tuple[tuple[Partition, int, RecordMark | None], ...]
"""Partitions that were read, each with its greatest timestamp in microseconds UTC and its last record."""


class Reader(Protocol):
    """A reader of ranges of offsets; shipped to the tasks."""

    def read(self, offsets: PartitionRange, stamp: int | None) -> Iterator[tuple[Batch, RecordMark]]:
        """The elements of a range with their timestamps, in order, and the last record of each batch.

        All elements have the timestamp `stamp` unless it is None.
        """

    def greatest(self, batch: Batch, latest: int) -> int:
        """The greatest event time up to `latest` that the elements tell, microseconds UTC; else the least timestamp."""


@dataclass
class KafkaSplit:
    """Ranges of offsets for one task, which reads them one after the other."""

    reader: Reader
    ranges: tuple[PartitionRange, ...]
    stamp: int | None = None
    """Event time of all records, microseconds UTC; None for each record's own."""
    latest: int = MAX_TIMESTAMP
    """See `Delivery.latest`."""
    _told: dict[Partition, tuple[int, RecordMark]] = field(default_factory=dict)

    def read(self) -> Iterator[Batch]:
        """The elements of the ranges, in order."""
        self._told = {}
        for offsets in self.ranges:
            partition = (offsets.topic, offsets.partition)
            for batch, last in self.reader.read(offsets, self.stamp):
                before, _ = self._told.get(partition, (MIN_TIMESTAMP, last))
                self._told[partition] = max(self.reader.greatest(batch, self.latest), before), last
                yield batch

    def count_records(self) -> int:
        """See `SizedSplit`. The number includes offsets without records: transaction markers and compacted records."""
        return sum(offsets.end - offsets.start for offsets in self.ranges)

    def told(self) -> ReadUpTo:
        """See `TellingSplit`. The greatest timestamp and the last record read of each partition."""
        return tuple((each, *found) for each, found in self._told.items())


@dataclass(frozen=True, slots=True)
class PartitionPosition:
    """How far a partition is read. Persisted as part of a position: every field, as a tuple."""

    offset: int
    """Offset of the next record."""
    stop: int | None = None
    """Exclusive upper bound of the offsets; None for no end."""
    greatest: int = MIN_TIMESTAMP
    """The greatest timestamp read, microseconds UTC."""
    last: RecordMark | None = None
    """The last record read, or the one before the first offset; None if there is none, or it is not known."""

    @property
    def finished(self) -> bool:
        """Whether no more records will come."""
        return self.stop is not None and self.offset >= self.stop


PartitionPositions = dict[Partition, PartitionPosition]
_Fields: TypeAlias = tuple[str, int, int, int | None, int]
"""What positions of headrace 0.1 have of a partition: topic, number, offset, stop and greatest timestamp."""
_Row: TypeAlias = _Fields | tuple[str, int, int, int | None, int, tuple[int, int, int] | None]


def _plain(positions: Mapping[Partition, PartitionPosition], watermark: int) -> object:
    plain = (
        (*partition, current.offset, current.stop, current.greatest, current.last and tuple(current.last))
        for partition, current in sorted(positions.items())
    )
    return tuple(plain), watermark


def _from_plain(position: object) -> tuple[PartitionPositions, int]:
    plain, watermark = cast("tuple[tuple[_Row, ...], int]", position)
    positions = {}
    for row in plain:
        topic, number, offset, stop, greatest = row[:5]
        last = row[5] if len(row) == 6 else None
        positions[topic, number] = PartitionPosition(
            offset, stop, greatest, None if last is None else RecordMark(*last)
        )
    return positions, watermark


@dataclass(frozen=True, slots=True)
class Policy:
    """The settings of a reader of Kafka."""

    topics: tuple[str, ...]
    starts: Callable[[KafkaCluster, Sequence[Partition]], dict[Partition, int]]
    """Function from the partitions to their start offsets."""
    bounded: bool = False
    """Whether the input ends at the offsets that exist when the run begins."""
    max_delay: int | None = None
    """Microseconds by which a partition's watermark is behind its greatest timestamp; None for no watermark before the
    end."""
    idle_timeout: float | None = None
    """Seconds without records after which a partition no longer holds the watermark; None for never."""
    look_interval: float = 30.0
    """Seconds between two checks for new partitions."""
    commits_to_group: bool = False
    """Whether the offsets of committed epochs are also committed to the consumer group."""
    max_ahead: int | None = DAY
    """Microseconds by which a timestamp may be ahead of the clock to move the watermark; None for any timestamp."""
    by_clock: bool = False
    """Whether the time of reading is the event time, and the watermark."""
    follows_clock_when_idle: bool = False
    """Whether the watermark goes on with the clock while all partitions are idle."""


@named("KafkaInjector")
class KafkaInjector(BaseInjector):
    """Reads topics from the committed offsets on."""

    def __init__(
        self,
        settings: Config,
        policy: Policy,
        reader: Reader,
        now: Callable[[], float] = time.monotonic,
        clock_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._settings = settings
        self._cluster = KafkaCluster(settings)
        self._policy = policy
        self._reader = reader
        self._now = now
        self._clock_ns = clock_ns
        self._busy: dict[Partition, float] = {}
        """When each partition last had records to read, or was first planned; seconds of `now`."""
        self._checked = now()
        self._seen = -inf
        """When the topics were last seen to be those that were read; seconds of `now`."""
        self._outages = 0
        """`KafkaCluster.outages` at that time."""
        self._wake: Callable[[], None] | None = None
        self._arrivals: ArrivalListener | None = None

    def wake_by(self, wake: Callable[[], None]) -> None:
        """See `BaseInjector`."""
        self._wake = wake

    def run_ended(self) -> None:
        """No longer wait for records."""
        if self._arrivals is not None:
            self._arrivals.close()
            self._arrivals = None

    def start(self) -> object:
        """All partitions, each at its start offset."""
        partitions = self._cluster.partitions(self._policy.topics)
        starts = self._policy.starts(self._cluster, partitions)
        stops: Mapping[Partition, int | None] = dict.fromkeys(partitions)
        if self._policy.bounded:
            stops = {partition: last for partition, (_, last) in self._cluster.bounds(partitions).items()}
        positions = {each: PartitionPosition(starts[each], stops[each]) for each in partitions}
        return _plain(self._same_topics(positions), MIN_TIMESTAMP)

    def plan(self, position: object, limit: int, splits: int) -> Delivery:
        """About `limit` records, from all partitions with new records; each partition is in one split, in order."""
        positions, before = _from_plain(position)
        positions = self._ending(positions | self._new(positions))
        ready = self._ready(positions)
        if self._now() - self._seen > _UNSEEN_SECONDS or self._cluster.outages != self._outages:
            positions = self._same_topics(positions)
        self._seen, self._outages = self._now(), self._cluster.outages
        shares = _shares(ready, limit)
        starts = {partition: positions[partition].offset for partition in shares}
        ranges = [PartitionRange(*each, start, start + shares[each]) for each, start in starts.items()]
        stamp = max(before, self._clock_micros()) if self._policy.by_clock else None
        watermark = max(before, self._watermark(positions, ready, before)) if stamp is None else stamp
        after = {
            each: replace(current, offset=current.offset + shares.get(each, 0)) for each, current in positions.items()
        }
        done = self._policy.bounded and all(current.finished for current in after.values())
        idle = not ranges and not done and (watermark == before or (stamp is not None and stamp - before < _TICK))
        found, position = self._splits(ranges, splits, stamp), _plain(after, watermark)
        quiet = self._wait_for_records(after) if idle else None
        waiting = sum(ready.values()) - sum(shares.values())
        return Delivery(
            *(found, position, watermark, done),
            latest=self._latest(),
            idle=idle,
            quiet_seconds=quiet,
            backlog=waiting,
        )

    def _wait_for_records(self, positions: PartitionPositions) -> float | None:
        """Let the next record wake the driver; returns the seconds until it should ask although nothing has come."""
        if self._wake is None:
            return None
        self._arrivals = self._arrivals or ArrivalListener(self._settings, self._wake)
        self._arrivals.expect({partition: current.offset for partition, current in positions.items()})
        longest = min(_MISSED_SECONDS, self._policy.idle_timeout or _MISSED_SECONDS)
        return longest if self._arrivals.is_waiting() else None

    def learned(self, position: object, told: Sequence[object]) -> object:
        """The position with the greatest timestamps read, which determine the next watermark, and the last records."""
        positions, watermark = _from_plain(position)
        for partition, greatest, last in chain.from_iterable(cast(Sequence[ReadUpTo], told)):
            before = positions[partition]
            positions[partition] = replace(before, greatest=max(greatest, before.greatest), last=last)
        return _plain(positions, watermark)

    def committed(self, position: object) -> None:
        """Commit offsets to the consumer group, for monitoring; recovery does not depend on them."""
        if self._policy.commits_to_group:
            positions, _ = _from_plain(position)
            try:
                self._cluster.commit({partition: current.offset for partition, current in positions.items()})
            except KafkaReadError as error:
                _log.warning("offsets were not committed to the consumer group; the pipeline goes on: %s", error)

    def holder(self, position: object) -> str | None:
        """A description of the partition that the watermark waits for; None if all partitions are finished."""
        positions, watermark = _from_plain(position)
        unfinished = [(current.greatest, partition) for partition, current in positions.items() if not current.finished]
        if not unfinished:
            return None
        # The watermark has passed idle partitions, so that they are behind it.
        waited_for = [each for each in unfinished if self._watermark_of(each[0]) >= watermark]
        greatest, (topic, number) = min(waited_for or unfinished)
        reached = "nothing was read of yet" if greatest == MIN_TIMESTAMP else f"was read up to timestamp {greatest}"
        return f"partition {number} of topic {topic!r}, which {reached}"

    def _watermark_of(self, greatest: int) -> int:
        """The watermark of a partition with this greatest timestamp."""
        delay = self._policy.max_delay
        return MIN_TIMESTAMP if delay is None else heuristic_watermark(greatest, delay)

    def _new(self, known: PartitionPositions) -> PartitionPositions:
        """Partitions that were added to the topics, each at its first offset."""
        if self._policy.bounded or self._now() - self._checked < self._policy.look_interval:
            return {}
        self._checked = self._now()
        new = [
            partition for partition in self._cluster.partitions(self._policy.topics, known) if partition not in known
        ]
        return {partition: PartitionPosition(first) for partition, (first, _) in self._cluster.bounds(new).items()}

    def _ending(self, positions: PartitionPositions) -> PartitionPositions:
        """The positions with the ends that `bounded` asks for; the program may have had another setting before."""
        if not self._policy.bounded:
            return {partition: replace(current, stop=None) for partition, current in positions.items()}
        if all(current.stop is not None for current in positions.values()):
            return positions
        bounds = self._cluster.bounds({*positions, *self._cluster.partitions(self._policy.topics, positions)})
        known = {each: positions.get(each, PartitionPosition(first)) for each, (first, _) in bounds.items()}
        return {
            each: current if current.stop is not None else replace(current, stop=bounds[each][1])
            for each, current in known.items()
        }

    def _ready(self, positions: PartitionPositions) -> dict[Partition, int]:
        """The number of unread offsets of each partition that has some. Raises `KafkaReadError` for a shorter topic."""
        if self._policy.bounded:
            counts = {partition: cast(int, current.stop) - current.offset for partition, current in positions.items()}
        else:
            bounds = self._cluster.bounds(positions)
            counts = {partition: bounds[partition][1] - current.offset for partition, current in positions.items()}
            self._require_growing(positions, counts)
        return {partition: count for partition, count in counts.items() if count > 0}

    def _require_growing(self, positions: PartitionPositions, counts: Mapping[Partition, int]) -> None:
        for (topic, number), count in counts.items():
            if count < 0:
                offset = positions[topic, number].offset
                raise KafkaReadError(
                    f"partition {number} of topic {topic!r} was read up to offset {offset} but ends at {offset + count}"
                    ": the topic was made anew; give it another name, or start over on an empty checkpoint"
                )

    def _same_topics(self, positions: PartitionPositions) -> PartitionPositions:
        """The positions, with last records where none was known.

        Raises `KafkaReadError` if another record is at the offset of one that was read. A record that
        retention or compaction has removed tells nothing.
        """
        sought = {
            partition: current.offset - 1 if current.last is None else current.last.offset
            for partition, current in positions.items()
            if current.offset > 0 and not current.finished
        }
        now_there = self._cluster.marks(sought)
        for (topic, number), mark in now_there.items():
            last = positions[topic, number].last
            if last is not None and last != mark:
                raise KafkaReadError(
                    f"partition {number} of topic {topic!r} has another record at offset {mark.offset} than the one "
                    f"that was read (timestamp {last.milliseconds} ms then, {mark.milliseconds} ms now): the topic was "
                    "made anew, or the broker lost records; give it another name, or start over on an empty checkpoint"
                )
        return positions | {each: replace(positions[each], last=mark) for each, mark in now_there.items()}

    def _watermark(self, positions: PartitionPositions, ready: Mapping[Partition, int], before: int) -> int:
        """The least watermark of the partitions that are neither idle nor finished; without any, the greatest one.

        The greatest one may go on with the clock, in steps of a second, each of which is an epoch.
        """
        if self._policy.max_delay is None:
            return MIN_TIMESTAMP
        now, timeout = self._now(), self._policy.idle_timeout
        self._busy |= dict.fromkeys(ready, now)
        watermarks, holding = [], []
        for partition, current in positions.items():
            watermark = self._watermark_of(current.greatest)
            watermarks.append(watermark)
            idle = timeout is not None and now - self._busy.setdefault(partition, now) > timeout
            if not idle and not current.finished:
                holding.append(watermark)
        if holding:
            return min(holding)
        greatest = max(watermarks)
        if timeout is None or greatest == MIN_TIMESTAMP or not self._policy.follows_clock_when_idle:
            return greatest
        followed = self._clock_micros() - round(timeout * 1e6) - self._policy.max_delay
        return followed if followed - before >= _TICK else greatest

    def _clock_micros(self) -> int:
        return self._clock_ns() // 1000

    def _splits(self, ranges: Sequence[PartitionRange], splits: int, stamp: int | None) -> list[Split]:
        """Ranges by task: the longest ranges first, each for the task with the fewest offsets."""
        tasks: list[list[PartitionRange]] = [[] for _ in range(min(len(ranges), max(1, splits)))]
        for offsets in sorted(ranges, key=lambda offsets: offsets.start - offsets.end):
            min(tasks, key=lambda task: sum(each.end - each.start for each in task)).append(offsets)
        return [KafkaSplit(self._reader, tuple(task), stamp, self._latest()) for task in tasks]

    def _latest(self) -> int:
        """See `Delivery.latest`."""
        policy = self._policy
        if policy.max_delay is None or policy.max_ahead is None or policy.bounded or policy.by_clock:
            return MAX_TIMESTAMP
        return self._clock_micros() + policy.max_ahead


def _shares(ready: Mapping[Partition, int], limit: int) -> dict[Partition, int]:
    """The number of offsets to read of each partition, as equal as possible, and about `limit` in total.

    >>> _shares({("t", 0): 3, ("t", 1): 50, ("t", 2): 60}, 43)
    {('t', 0): 3, ('t', 1): 20, ('t', 2): 20}
    """
    shares: dict[Partition, int] = {}
    remaining = limit
    for index, (partition, count) in enumerate(sorted(ready.items(), key=lambda item: (item[1], item[0]))):
        # At least one record of each partition, as a partition that is left out would hold the watermark.
        shares[partition] = min(count, max(1, remaining // (len(ready) - index)))
        remaining -= shares[partition]
    return shares


_SETTINGS: dict[str, object] = {
    "enable.partition.eof": False,
    # The broker answers when there is a record, or after this time. The first record is enough.
    "fetch.wait.max.ms": 500,
    "fetch.min.bytes": 1,
    "fetch.message.max.bytes": 1024,
    "queued.min.messages": 1,
}
_WAIT = 0.2
"""Seconds after which the thread sees that it should end, or wait for other offsets."""
Offsets = Mapping[Partition, int]


class ArrivalListener:
    """A thread with a consumer of its own, which waits for the broker's answer to a fetch.

    The driver does not depend on it: requests of the driver report errors of the broker.

    Args:
        settings: Settings of a consumer.
        wake: Called in the thread when a record has come.
    """

    def __init__(self, settings: Config, wake: Callable[[], None]) -> None:
        self._settings = {**settings, **_SETTINGS}
        self._wake = wake
        self._changed = threading.Condition()
        self._awaited: Offsets = {}
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="kafka arrivals", daemon=True)
        self._thread.start()

    def is_waiting(self) -> bool:
        """Whether the thread lives."""
        return self._thread.is_alive()

    def expect(self, offsets: Offsets) -> None:
        """Wait for a record of one of these partitions at its offset, or behind it."""
        with self._changed:
            self._awaited = offsets
            self._changed.notify_all()

    def close(self) -> None:
        """Let the thread end; it does so within its next wait."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _run(self) -> None:
        try:
            consumer = consumer_of(self._settings)
            try:
                while (offsets := self._next()) is not None:
                    self._await(consumer, offsets)
            finally:
                consumer.close()
        except Exception as error:
            _log.warning("records of Kafka wake no driver, which keeps asking for them: %s", reason_of(error))

    def _next(self) -> Offsets | None:
        """What to wait for; None at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._awaited or self._closed)
            return None if self._closed else self._awaited

    def _await(self, consumer: Consumer, offsets: Offsets) -> None:
        """Wait until a record has come, and call `wake`; or until other offsets are expected."""
        consumer.assign(starting_at(offsets))
        while not self._closed and self._awaited == offsets:
            if any(message.error() is None for message in consumer.consume(1, timeout=_WAIT)):
                with self._changed:
                    if self._awaited == offsets:
                        self._awaited = {}
                self._wake()
        consumer.unassign()
