"""What: topics of Kafka as a collection (`apache_beam.io.kafka.ReadFromKafka`)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias, cast

from headrace.lowlevel.code_pickling import Portable
from headrace.lowlevel.records.record import Batch
from headrace.lowlevel.time import END_OF_GLOBAL_WINDOW, MIN_TIMESTAMP, DurationTypes, Timestamp
from headrace.lowlevel.watermarks.far_future import believable
from headrace.sdk.io.argument_checks import require_package
from headrace.sdk.io.dead_letters import Failure, TolerantSource, Unreadable
from headrace.sdk.io.kafka.client import (
    Config,
    KafkaCluster,
    KafkaReadError,
    Partition,
    PartitionRange,
    RecordMark,
    consumer_settings,
)
from headrace.sdk.io.kafka.injector import KafkaInjector, Policy
from headrace.sdk.io.kafka.record import Deserializer, KafkaRecord, deserialized, deserializer_of
from headrace.sdk.io.kafka.value_formats import RegistryError
from headrace.sdk.io.timestamps import ahead_micros, check_range, delay_micros, micros_of

if TYPE_CHECKING:
    from confluent_kafka import Message

StartOffsets: TypeAlias = str | Mapping[Partition, int]
_POLICIES = ("CreateTime", "LogAppendTime", "ProcessingTime")
_START_NAMES = ("earliest", "latest", "committed")
_NO_TIMESTAMP = 0
"""Kafka's timestamp type of messages without a timestamp."""


@dataclass(frozen=True, slots=True)
class MessageReader:
    """Makes elements of messages; shipped to the tasks."""

    settings: Config
    key: Deserializer | None
    value: Deserializer | None
    timestamp: Callable[[KafkaRecord], object] | None
    with_metadata: bool
    tolerant: bool = False

    def read(self, offsets: PartitionRange, stamp: int | None) -> Iterator[tuple[Batch, RecordMark]]:
        """See `Reader.read`. Raises `KafkaReadError` that names the offset of a record that cannot be decoded."""
        for messages in KafkaCluster(self.settings).read(offsets):
            rows = [self._row(message, stamp) for message in messages]
            batch = Batch([element for element, _ in rows], [timestamp for _, timestamp in rows])
            yield batch, RecordMark.of(messages[-1])

    def greatest(self, batch: Batch, latest: int) -> int:
        """See `Reader.greatest`. Kafka's timestamp of an unreadable record is on another clock than a function's times.

        If it counted, the watermark would overtake the records that can be read, and they would be late.
        """
        if self.timestamp is None or not self.tolerant:
            reached = batch.greatest()
            return reached if reached <= latest else believable(batch.instants(), latest)[0]
        told = [micros for element, micros in batch.rows() if not isinstance(element, Unreadable)]
        return believable(told, latest)[0]

    def _row(self, message: Message, stamp: int | None) -> tuple[object, int]:
        raw = _record(message)
        try:
            return self._decoded(raw, message, stamp)
        except RegistryError:
            # Nothing is known of the record, which is no reason to set it apart.
            raise
        except Exception as error:
            if self.tolerant:
                return Unreadable(raw, Failure.of(error)), _in_range(raw.timestamp.micros) if stamp is None else stamp
            location = f"topic {raw.topic!r}, partition {raw.partition}, offset {raw.offset}"
            raise KafkaReadError(
                f"{location}: {type(error).__name__}: {error}; "
                "correct the deserializers or timestamp_policy, or set such records apart with_exception_handling()"
            ) from error

    def _decoded(self, raw: KafkaRecord, message: Message, stamp: int | None) -> tuple[object, int]:
        key = raw.key if raw.key is None else deserialized(cast(bytes, raw.key), self.key, "key", raw)
        value = raw.value if raw.value is None else deserialized(cast(bytes, raw.value), self.value, "value", raw)
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
    """The message as a record, with key and value as bytes."""
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    assert topic is not None and partition is not None and offset is not None, "no message of an error"
    pairs = cast("list[tuple[str, str | bytes | None]]", message.headers() or [])
    headers = tuple((name, value.encode() if isinstance(value, str) else value) for name, value in pairs)
    stamp = Timestamp(micros=1000 * message.timestamp()[1])
    return KafkaRecord(topic, partition, offset, message.key(), message.value(), headers, stamp)


def _in_range(micros: int) -> int:
    """The timestamp; the least timestamp instead of one outside all windows or before 1970."""
    return micros if 0 <= micros < END_OF_GLOBAL_WINDOW else MIN_TIMESTAMP


class _Starts:
    """Where reading begins: by name, offset or time."""

    def __init__(self, offsets: StartOffsets, time: Timestamp | None) -> None:
        if isinstance(offsets, str) and offsets not in _START_NAMES:
            raise ValueError(
                f"start_offsets {offsets!r} is none of {', '.join(_START_NAMES)}; or give a dict of offsets"
            )
        self._offsets, self._time = offsets, time

    def __call__(self, cluster: KafkaCluster, partitions: Sequence[Partition]) -> dict[Partition, int]:
        """The start offset of each partition; the earliest offset if none is stated."""
        bounds = cluster.bounds(partitions)
        first = {partition: bounds[partition][0] for partition in partitions}
        last = {partition: bounds[partition][1] for partition in partitions}
        if self._time is not None:
            return last | cluster.at_time(partitions, -(-self._time.micros // 1000))
        if self._offsets == "latest":
            return last
        if self._offsets == "committed":
            return first | cluster.committed(partitions)
        return first if isinstance(self._offsets, str) else first | self._stated(self._offsets, partitions)

    def _stated(self, offsets: Mapping[Partition, int], partitions: Sequence[Partition]) -> dict[Partition, int]:
        if unknown := sorted(set(offsets) - set(partitions)):
            raise KafkaReadError(f"start_offsets names {unknown[0]}, which is no partition; there are {partitions}")
        return dict(offsets)


class ReadFromKafka(TolerantSource):
    """Records of Kafka's topics as pairs (key, value), exactly once: offsets are committed with the epoch.

    The driver plans ranges of offsets, which tasks read. The watermark of a partition is `max_delay` behind the
    greatest timestamp read in it up to the epoch before; the watermark of the source is the least of these. Needs
    `pip install 'headrace[kafka]'`. `with_exception_handling` sets records apart for which a deserializer or timestamp
    policy fails, as `KafkaRecord`s with bytes and with their timestamps in Kafka.

    >>> import headrace as beam
    >>> from headrace.io import kafka_values
    >>> def points(pipeline):
    ...     settings = {"bootstrap.servers": "broker:9092", "auto.offset.reset": "earliest"}
    ...     scores = ReadFromKafka(settings, ["scores"], value_deserializer=kafka_values.json(), max_delay=10)
    ...     return pipeline | scores | beam.Map(lambda pair: (pair[1]["team"], pair[1]["points"]))
    >>> points(beam.Pipeline("LocalRunner")).is_bounded
    False

    Args:
        consumer_config: librdkafka's settings, at least `bootstrap.servers`. The engine stores the offsets, so
            settings of offsets have no effect, except `auto.offset.reset` and `group.id`, see below.
        topics: Names of topics; a name that begins with `^` is a regular expression for the beginnings of names.
            Topics that match later are found like new partitions.
        key_deserializer: Function from the bytes of a key to the key, a format of `headrace.io.kafka_values`, or the
            name of one of Kafka's Java classes; by default keys are bytes.
        value_deserializer: The same for values.
        start_read_time: Lower bound of the timestamps of the first records, a `Timestamp` or seconds since 1970 UTC.
        commit_offset_in_finalize: Whether to commit offsets to the group `group.id` after each epoch, for programs that
            show the lag of consumers. The pipeline itself goes on from its checkpoint.
        timestamp_policy: `CreateTime` or `LogAppendTime` for the record's own timestamp, `ProcessingTime` for the time
            at which its epoch is planned, which is then also the watermark, or a function from a `KafkaRecord` to a
            `Timestamp`, seconds, a datetime or RFC 3339 text.
        with_metadata: Whether elements are `KafkaRecord`s.
        max_delay: Delay of a partition's watermark behind the greatest timestamp read in it, in seconds. Not needed for
            `LogAppendTime` and `ProcessingTime`, whose timestamps only grow, and for bounded input: there None means
            that the watermark waits for the end.
        max_ahead: Seconds by which a timestamp may be ahead of the clock and still move the watermark. Later ones are
            counted as `ahead`, and the log names the first. None for any timestamp.
        idle_timeout: Seconds without records after which a partition no longer holds the watermark; None for never.
        follow_clock_when_idle: Whether the watermark, once all partitions are idle and something was read, goes on
            with the clock, `idle_timeout` and `max_delay` behind it, so that a topic that falls silent ends its last
            windows. Beam's KafkaIO does so at once (`CustomTimestampPolicyWithLimitedDelay`). Only for event times of
            the present: in a replay of old records, whatever comes after a silence would be late.
        start_offsets: `earliest`, `latest`, `committed` (by the group) or offsets by (topic, partition); by default
            `auto.offset.reset`, or else `earliest`. A run that goes on from a checkpoint ignores them.
        bounded: Whether the input ends with the records that exist when the run begins.
        look_interval: Seconds between two checks for new partitions.

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
        max_ahead: DurationTypes | None = 86_400,
        idle_timeout: float | None = 60.0,
        follow_clock_when_idle: bool = False,
        start_offsets: StartOffsets | None = None,
        bounded: bool = False,
        look_interval: float = 30.0,
    ) -> None:
        super().__init__()
        require_package("confluent_kafka")
        _check_topics(topics)
        _check_group(commit_offset_in_finalize, consumer_config)
        self._settings = consumer_settings(consumer_config)
        self.is_bounded = bounded
        time = None if start_read_time is None else Timestamp(micros=micros_of(start_read_time))
        reset = str(consumer_config.get("auto.offset.reset", "earliest"))
        starts = _Starts(start_offsets if start_offsets is not None else reset, time)
        _check_following(follow_clock_when_idle, bounded or idle_timeout is None)
        delay = _delay(max_delay, timestamp_policy, bounded)
        self._policy = Policy(
            *(tuple(topics), starts, bounded, delay, idle_timeout, look_interval, commit_offset_in_finalize),
            max_ahead=ahead_micros(max_ahead),
            by_clock=timestamp_policy == self.processing_time_policy,
            follows_clock_when_idle=follow_clock_when_idle,
        )
        key = deserializer_of(key_deserializer, "key_deserializer")
        value = deserializer_of(value_deserializer, "value_deserializer")
        function = Portable(timestamp_policy, "the function timestamp_policy") if callable(timestamp_policy) else None
        self._reader = MessageReader(self._settings, key, value, function, with_metadata)

    def injector(self) -> KafkaInjector:
        """The injector, which plans ranges of offsets on the driver."""
        return KafkaInjector(self._settings, self._policy, replace(self._reader, tolerant=self._tolerant))


def _check_topics(topics: Sequence[str]) -> None:
    if isinstance(topics, str) or not topics or not all(topics):
        raise ValueError(f"topics must be a list of names, got {topics!r}")
    for topic in topics:
        try:
            re.compile(topic if topic.startswith("^") else "")
        except re.error as error:
            raise ValueError(f"topic {topic!r} begins with ^ but is no regular expression: {error}") from error


def _check_following(follows: bool, impossible: bool) -> None:
    if follows and impossible:
        raise ValueError("follow_clock_when_idle needs idle_timeout and input without an end (bounded=False)")


def _check_group(commits: bool, config: Config) -> None:
    if commits and "group.id" not in config:
        raise ValueError("commit_offset_in_finalize needs a group to commit for; give 'group.id'")


def _delay(max_delay: DurationTypes | None, policy: str | Callable[[KafkaRecord], object], bounded: bool) -> int | None:
    """`max_delay` in microseconds, 0 for the broker's or the driver's clock; None for no watermark before the end.

    Raises `ValueError` if the arguments do not fit.
    """
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
