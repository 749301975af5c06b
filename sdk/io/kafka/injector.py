"""Partitions of Kafka as an injector: offsets are planned by the driver, and committed with the epoch.

A record has one offset for ever, so that none needs an id. Each partition has a watermark of its own, behind the
greatest timestamp read in it; the injector's is the least of those that are not idle (MillWheel paper §5.2).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, cast

from headrace.lowlevel.injector import BaseInjector, Delivery, Split, heuristic_watermark
from headrace.lowlevel.record import Batch
from headrace.lowlevel.time import MIN_TIMESTAMP
from headrace.sdk.io.kafka.client import Cluster, Config, KafkaReadError, Partition, Range

_TICK = 1_000_000
"""Microseconds after which the watermark follows the clock where nothing is read."""
_log = logging.getLogger(__name__)
Reached = tuple[tuple[Partition, int], ...]
"""The greatest timestamp of each partition that was read."""


class Reader(Protocol):
    """Reads ranges; shipped to the tasks."""

    def read(self, wanted: Range, stamp: int | None) -> Iterator[Batch]:
        """The elements of a range of offsets with their timestamps, in order; all with one timestamp if it is given."""


@dataclass
class KafkaSplit:
    """Ranges for one task."""

    reader: Reader
    ranges: tuple[Range, ...]
    stamp: int | None = None
    """Event time of all records, microseconds UTC; None for that of each."""
    _greatest: dict[Partition, int] = field(default_factory=dict)

    def read(self) -> Iterator[Batch]:
        """One range after the other."""
        self._greatest = {}
        for wanted in self.ranges:
            partition = (wanted.topic, wanted.partition)
            for batch in self.reader.read(wanted, self.stamp):
                self._greatest[partition] = max(batch.greatest(), self._greatest.get(partition, MIN_TIMESTAMP))
                yield batch

    def count_records(self) -> int:
        """See `SizedSplit`; a few more where offsets are of transactions or compacted away."""
        return sum(one.end - one.start for one in self.ranges)

    def told(self) -> Reached:
        """How far the partitions reach, in event time."""
        return tuple(self._greatest.items())


@dataclass(frozen=True, slots=True)
class Place:
    """How far a partition is. Persisted as part of a position: every field, as a tuple."""

    offset: int
    """Of the next record."""
    stop: int | None = None
    """Offset at which the partition is finished; None where it has no end."""
    greatest: int = MIN_TIMESTAMP
    """The greatest timestamp read, microseconds UTC."""

    @property
    def finished(self) -> bool:
        """Whether there is nothing more to come."""
        return self.stop is not None and self.offset >= self.stop


Places = dict[Partition, Place]


def _plain(places: Mapping[Partition, Place], watermark: int) -> object:
    return tuple((*one, at.offset, at.stop, at.greatest) for one, at in sorted(places.items())), watermark


def _from_plain(position: object) -> tuple[Places, int]:
    plain, watermark = cast("tuple[tuple[tuple[str, int, int, int | None, int], ...], int]", position)
    return {(topic, number): Place(at, stop, greatest) for topic, number, at, stop, greatest in plain}, watermark


@dataclass(frozen=True, slots=True)
class Policy:
    """What a reader of Kafka is to do."""

    topics: tuple[str, ...]
    starts: Callable[[Cluster, Sequence[Partition]], dict[Partition, int]]
    """Offsets to begin at."""
    bounded: bool = False
    """Whether the input ends with what is there when the run begins."""
    max_delay: int | None = None
    """Microseconds that a partition's watermark is behind its greatest timestamp; None for none before the end."""
    idle_timeout: float | None = None
    """Seconds without records after which a partition no longer holds the watermark; None for never."""
    look_interval: float = 30.0
    """Seconds between two looks for new partitions."""
    tells_group: bool = False
    """Whether the consumer group learns what is committed."""
    by_clock: bool = False
    """Whether the time of reading is the event time, and the watermark."""


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
        self._cluster = Cluster(settings)
        self._policy = policy
        self._reader = reader
        self._now = now
        self._clock_ns = clock_ns
        self._busy: dict[Partition, float] = {}
        """When each partition last had something to read, or was first looked at."""
        self._looked = now()

    def start(self) -> object:
        """All partitions, each where the reader is to begin."""
        found = self._cluster.partitions(self._policy.topics)
        starts = self._policy.starts(self._cluster, found)
        stops: Mapping[Partition, int | None] = dict.fromkeys(found)
        if self._policy.bounded:
            stops = {one: last for one, (_, last) in self._cluster.bounds(found).items()}
        return _plain({one: Place(starts[one], stops[one]) for one in found}, MIN_TIMESTAMP)

    def plan(self, position: object, limit: int, splits: int) -> Delivery:
        """About `limit` records, of all partitions that have some alike; a partition's in one split, in order."""
        places, before = _from_plain(position)
        places |= self._new(places)
        ready = self._ready(places)
        shares = _shared(ready, limit)
        ranges = [Range(*one, places[one].offset, places[one].offset + count) for one, count in shares.items()]
        stamp = max(before, self._clock_ns() // 1000) if self._policy.by_clock else None
        watermark = max(before, self._watermark(places, ready)) if stamp is None else stamp
        after = {one: replace(at, offset=at.offset + shares.get(one, 0)) for one, at in places.items()}
        done = self._policy.bounded and all(at.finished for at in after.values())
        idle = not ranges and not done and (watermark == before or (stamp is not None and stamp - before < _TICK))
        return Delivery(self._splits(ranges, splits, stamp), _plain(after, watermark), watermark, done=done, idle=idle)

    def learned(self, position: object, told: Sequence[object]) -> object:
        """With the greatest timestamps of what was read, from which the next epoch's watermark follows."""
        places, watermark = _from_plain(position)
        for partition, greatest in (each for split in cast(Sequence[Reached], told) for each in split):
            place = places[partition]
            places[partition] = replace(place, greatest=max(greatest, place.greatest))
        return _plain(places, watermark)

    def committed(self, position: object) -> None:
        """Tell the consumer group, for those who watch its lag; where the pipeline goes on does not depend on it."""
        if self._policy.tells_group:
            places, _ = _from_plain(position)
            try:
                self._cluster.commit({one: at.offset for one, at in places.items()})
            except KafkaReadError as error:
                _log.warning("the consumer group does not know what is read; the pipeline goes on: %s", error)

    def holder(self, position: object) -> str | None:
        """The partition that the watermark waits for, in words."""
        places, _ = _from_plain(position)
        if not (left := [one for one, at in places.items() if not at.finished]):
            return None
        topic, number = min(left, key=lambda one: (places[one].greatest, one))
        greatest = places[topic, number].greatest
        seen = "nothing was read of yet" if greatest == MIN_TIMESTAMP else f"was read up to timestamp {greatest}"
        return f"partition {number} of topic {topic!r}, which {seen}"

    def _new(self, known: Places) -> Places:
        """Partitions that were added to the topics; all that they have is new."""
        if self._policy.bounded or self._now() - self._looked < self._policy.look_interval:
            return {}
        self._looked = self._now()
        found = [one for one in self._cluster.partitions(self._policy.topics) if one not in known]
        return {one: Place(first) for one, (first, _) in self._cluster.bounds(found).items()}

    def _ready(self, places: Places) -> dict[Partition, int]:
        """How many offsets of each partition there are to read."""
        if self._policy.bounded:
            counts = {one: cast(int, at.stop) - at.offset for one, at in places.items()}
        else:
            ends = self._cluster.bounds(places)
            counts = {one: ends[one][1] - at.offset for one, at in places.items()}
            self._require_growing(places, counts)
        return {one: count for one, count in counts.items() if count > 0}

    def _require_growing(self, places: Places, counts: Mapping[Partition, int]) -> None:
        for (topic, number), count in counts.items():
            if count < 0:
                at = places[topic, number].offset
                raise KafkaReadError(
                    f"partition {number} of topic {topic!r} was read up to offset {at} but ends at {at + count}: the "
                    "topic was made anew; give it another name, or start over on an empty checkpoint"
                )

    def _watermark(self, places: Places, ready: Mapping[Partition, int]) -> int:
        """The least of the partitions that hold it; if none does, what the last to be idle let it reach."""
        if self._policy.max_delay is None:
            return MIN_TIMESTAMP
        now, timeout = self._now(), self._policy.idle_timeout
        self._busy |= dict.fromkeys(ready, now)
        reached, holding = [], []
        for one, at in places.items():
            value = heuristic_watermark(at.greatest, self._policy.max_delay)
            reached.append(value)
            idle = timeout is not None and now - self._busy.setdefault(one, now) > timeout
            if not idle and not at.finished:
                holding.append(value)
        return min(holding) if holding else max(reached)

    def _splits(self, ranges: Sequence[Range], splits: int, stamp: int | None) -> list[Split]:
        """The longest ranges first, each to the task that has least."""
        tasks: list[list[Range]] = [[] for _ in range(min(len(ranges), max(1, splits)))]
        for wanted in sorted(ranges, key=lambda wanted: wanted.start - wanted.end):
            min(tasks, key=lambda task: sum(one.end - one.start for one in task)).append(wanted)
        return [KafkaSplit(self._reader, tuple(task), stamp) for task in tasks]


def _shared(ready: Mapping[Partition, int], limit: int) -> dict[Partition, int]:
    """How much to read of each, alike as far as there is some, and about `limit` in all.

    >>> _shared({("t", 0): 3, ("t", 1): 50, ("t", 2): 60}, 43)
    {('t', 0): 3, ('t', 1): 20, ('t', 2): 20}
    """
    shares: dict[Partition, int] = {}
    left = limit
    for at, (one, count) in enumerate(sorted(ready.items(), key=lambda item: (item[1], item[0]))):
        # At least one record of each, as a partition that is passed over would hold the watermark.
        shares[one] = min(count, max(1, left // (len(ready) - at)))
        left -= shares[one]
    return shares
