"""What: topics of Kafka as a collection (`apache_beam.io.kafka.ReadFromKafka`)."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias, cast

from headrace.lowlevel.record import Batch
from headrace.lowlevel.time import END_OF_GLOBAL_WINDOW, MIN_TIMESTAMP, DurationTypes, Timestamp
from headrace.sdk.io.apart import Failure, ReadApart, Unreadable
from headrace.sdk.io.kafka.client import (
    Cluster,
    Config,
    KafkaReadError,
    Partition,
    Range,
    consumer_settings,
    require_package,
)
from headrace.sdk.io.kafka.injector import KafkaInjector, Policy
from headrace.sdk.io.kafka.record import Deserializer, KafkaRecord, deserializer_of
from headrace.sdk.io.timestamps import check_range, delay_micros, micros_of
from headrace.sdk.shipping import Portable
from headrace.sdk.transforms.source import Source

if TYPE_CHECKING:
    from confluent_kafka import Message

StartOffsets: TypeAlias = str | Mapping[Partition, int]
_POLICIES = ("CreateTime", "LogAppendTime", "ProcessingTime")
_PLACES = ("earliest", "latest", "committed")
_NO_TIMESTAMP = 0
"""Kafka's type of timestamps that are none."""


@dataclass(frozen=True, slots=True)
class MessageReader:
    """Makes elements of messages, in the tasks."""

    settings: Config
    key: Deserializer | None
    value: Deserializer | None
    timestamp: Callable[[KafkaRecord], object] | None
    with_metadata: bool
    tolerant: bool = False

    def read(self, wanted: Range, stamp: int | None) -> Iterator[Batch]:
        """See `Reader`. Raises `KafkaReadError` that names the offset of what cannot be understood."""
        for messages in Cluster(self.settings).read(wanted):
            rows = [self._row(message, stamp) for message in messages]
            yield Batch([element for element, _ in rows], [timestamp for _, timestamp in rows])

    def _row(self, message: Message, stamp: int | None) -> tuple[object, int]:
        raw = _record(message)
        try:
            return self._understood(raw, message, stamp)
        except Exception as error:
            if self.tolerant:
                return Unreadable(raw, Failure.of(error)), _known(raw.timestamp.micros) if stamp is None else stamp
            place = f"topic {raw.topic!r}, partition {raw.partition}, offset {raw.offset}"
            raise KafkaReadError(
                f"{place}: {type(error).__name__}: {error}; "
                "correct the deserializers or timestamp_policy, or set such records apart with_exception_handling()"
            ) from error

    def _understood(self, raw: KafkaRecord, message: Message, stamp: int | None) -> tuple[object, int]:
        key = raw.key if self.key is None or raw.key is None else self.key(cast(bytes, message.key()))
        value = raw.value if self.value is None or raw.value is None else self.value(cast(bytes, message.value()))
        record = raw._replace(key=key, value=value)
        element = record if self.with_metadata else (key, value)
        if stamp is not None:
            return element, stamp
        if self.timestamp is not None:
            micros = micros_of(self.timestamp(record))
        elif message.timestamp()[0] != _NO_TIMESTAMP:
            micros = raw.timestamp.micros
        else:
            raise ValueError("the record has no timestamp; give a function as timestamp_policy")
        if not MIN_TIMESTAMP <= micros < END_OF_GLOBAL_WINDOW:
            check_range([micros], [element])
        return element, micros


def _record(message: Message) -> KafkaRecord:
    """As it came, with nothing made of its bytes."""
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    assert topic is not None and partition is not None and offset is not None, "a message that was read has them"
    given = cast("list[tuple[str, str | bytes | None]]", message.headers() or [])
    headers = tuple((name, _bytes(value)) for name, value in given)
    stamp = Timestamp(micros=1000 * message.timestamp()[1])
    return KafkaRecord(topic, partition, offset, message.key(), message.value(), headers, stamp)


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


def _known(micros: int) -> int:
    return micros if 0 <= micros < END_OF_GLOBAL_WINDOW else MIN_TIMESTAMP


class _Starts:
    """Where reading begins: by name, offset or time."""

    def __init__(self, wanted: StartOffsets, time: Timestamp | None) -> None:
        if isinstance(wanted, str) and wanted not in _PLACES:
            raise ValueError(f"start_offsets {wanted!r} is none of {', '.join(_PLACES)}; or give a dict of offsets")
        self._wanted, self._time = wanted, time

    def __call__(self, cluster: Cluster, partitions: Sequence[Partition]) -> dict[Partition, int]:
        """The offset to begin at for each partition; the earliest where none is stated."""
        bounds = cluster.bounds(partitions)
        first = {one: bounds[one][0] for one in partitions}
        last = {one: bounds[one][1] for one in partitions}
        if self._time is not None:
            return last | cluster.at_time(partitions, -(-self._time.micros // 1000))
        if self._wanted == "latest":
            return last
        if self._wanted == "committed":
            return first | cluster.committed(partitions)
        return first if isinstance(self._wanted, str) else first | self._stated(self._wanted, partitions)

    def _stated(self, offsets: Mapping[Partition, int], partitions: Sequence[Partition]) -> dict[Partition, int]:
        if strangers := sorted(set(offsets) - set(partitions)):
            raise KafkaReadError(f"start_offsets names {strangers[0]}, which is no partition; there are {partitions}")
        return dict(offsets)


class ReadFromKafka(Source):
    """Records of Kafka's topics as pairs (key, value), exactly once: offsets are committed with the epoch.

    The driver plans ranges of offsets, tasks read them. The watermark is the least of the partitions', each `max_delay`
    behind the greatest timestamp read in it; what was read counts for it from the next epoch on. Needs
    `pip install headrace[kafka]`.

    Args:
        consumer_config: librdkafka's settings, at least `bootstrap.servers`. Offsets are the engine's business, so
            settings about them are without effect, but for `auto.offset.reset` and `group.id`, see below.
        topics: Their names; one that begins with `^` is a regular expression for the beginnings of names, and topics
            that come to match are found as new partitions are.
        key_deserializer: From a key's bytes to the key, by default the bytes; or one of Kafka's Java classes by name.
        value_deserializer: The same for values.
        start_read_time: Begin with the first records that are not older, a `Timestamp` or seconds since 1970 UTC.
        commit_offset_in_finalize: Whether to commit offsets to the group `group.id` after each epoch, for programs that
            show how far it is. The pipeline itself goes on from its checkpoint.
        timestamp_policy: `CreateTime` or `LogAppendTime` for the record's own timestamp, `ProcessingTime` for the time
            at which its epoch is planned, which is then the watermark, too, or a function from a `KafkaRecord` to a
            `Timestamp`, seconds, a datetime or RFC 3339 text.
        with_metadata: Whether elements are `KafkaRecord`s.
        max_delay: Seconds by which a record may come later than one of its partition with a greater timestamp. None
            where the broker's time is used, which only grows, and for a bounded input, which waits for its end.
        idle_timeout: Seconds without records after which a partition no longer holds the watermark; None for never.
        start_offsets: `earliest`, `latest`, `committed` (by the group) or offsets by (topic, partition); by default
            `auto.offset.reset`, or else `earliest`. Only for a run that begins: one that goes on knows its offsets.
        bounded: Whether to end with what is there when the run begins.
        look_interval: Seconds between two looks for new partitions.

    Raises:
        ImportError: confluent-kafka is not installed.
        ValueError: The settings are refused, or do not fit together.
    """

    create_time_policy = "CreateTime"
    log_append_time = "LogAppendTime"
    processing_time_policy = "ProcessingTime"

    def __init__(
        self,
        consumer_config: Config,
        topics: Sequence[str],
        key_deserializer: Deserializer | str | None = None,
        value_deserializer: Deserializer | str | None = None,
        start_read_time: Timestamp | float | None = None,
        commit_offset_in_finalize: bool = False,
        timestamp_policy: str | Callable[[KafkaRecord], object] = create_time_policy,
        with_metadata: bool = False,
        *,
        max_delay: DurationTypes | None = None,
        idle_timeout: float | None = 60.0,
        start_offsets: StartOffsets | None = None,
        bounded: bool = False,
        look_interval: float = 30.0,
    ) -> None:
        super().__init__()
        require_package()
        _check_topics(topics)
        if commit_offset_in_finalize and "group.id" not in consumer_config:
            raise ValueError("commit_offset_in_finalize needs a group to commit for; give 'group.id'")
        self._settings = consumer_settings(consumer_config)
        self.is_bounded = bounded
        time = None if start_read_time is None else Timestamp(micros=micros_of(start_read_time))
        reset = str(consumer_config.get("auto.offset.reset", "earliest"))
        starts = _Starts(start_offsets if start_offsets is not None else reset, time)
        delay = _delay(max_delay, timestamp_policy, bounded)
        self._policy = Policy(
            *(tuple(topics), starts, bounded, delay, idle_timeout, look_interval, commit_offset_in_finalize),
            by_clock=timestamp_policy == self.processing_time_policy,
        )
        key = deserializer_of(key_deserializer, "key_deserializer")
        value = deserializer_of(value_deserializer, "value_deserializer")
        function = Portable(timestamp_policy, "the function timestamp_policy") if callable(timestamp_policy) else None
        self._reader = MessageReader(self._settings, key, value, function, with_metadata)

    def injector(self) -> KafkaInjector:
        """What plans offsets, on the driver."""
        return KafkaInjector(self._settings, self._policy, self._reader)

    def tolerant(self) -> ReadFromKafka:
        """See `Tolerant`."""
        other = copy.copy(self)
        other._reader = replace(self._reader, tolerant=True)
        return other

    def with_exception_handling(self, main_tag: str = "good", dead_letter_tag: str = "bad") -> ReadApart:
        """The same with an output for records that a deserializer or timestamp policy fails for.

        Its elements are pairs (`KafkaRecord` with bytes, (class of the error, its repr, lines of its traceback)), at
        the record's own timestamp.
        """
        return ReadApart(self.tolerant(), main_tag, dead_letter_tag)


def _check_topics(topics: Sequence[str]) -> None:
    if isinstance(topics, str) or not topics or not all(topics):
        raise ValueError(f"topics must be a list of names, got {topics!r}")
    for topic in topics:
        try:
            re.compile(topic if topic.startswith("^") else "")
        except re.error as error:
            raise ValueError(f"topic {topic!r} begins with ^ but is no regular expression: {error}") from error


def _delay(max_delay: DurationTypes | None, policy: str | Callable[[KafkaRecord], object], bounded: bool) -> int | None:
    """Microseconds, if the arguments make sense."""
    if not callable(policy) and policy not in _POLICIES:
        raise ValueError(f"timestamp_policy {policy!r} is none of {', '.join(_POLICIES)}, nor a function")
    if policy == "ProcessingTime" and max_delay is not None:
        raise ValueError("max_delay has no meaning with timestamp_policy='ProcessingTime'; leave it out")
    if max_delay is not None:
        return delay_micros(max_delay)
    if policy in ("LogAppendTime", "ProcessingTime"):
        return 0
    if not bounded:
        raise ValueError(
            "reading without end needs to know how late records may be; give max_delay in seconds, or "
            "timestamp_policy='LogAppendTime' where the broker sets the timestamps"
        )
    return None
