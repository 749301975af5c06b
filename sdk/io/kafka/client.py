"""Pooled consumers of Kafka, and requests for partitions, offsets and messages."""

from __future__ import annotations

import pickle
import re
import threading
import time
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar, cast

from headrace.lowlevel.errors import HeadraceError
from headrace.sdk.io.argument_checks import require_package

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Message
    from confluent_kafka import TopicPartition as KafkaPartition

Config: TypeAlias = Mapping[str, object]
"""Settings of librdkafka, by name."""
Partition: TypeAlias = tuple[str, int]
"""Topic and number of a partition."""
_Answer = TypeVar("_Answer")
PATIENCE = 30.0
"""Seconds within which a broker must answer."""
_BATCH = 10_000
"""Greatest number of messages fetched from the client at a time."""
_WAIT = 0.05
"""Seconds after which fewer messages are returned, or a request is repeated."""
_EARLIEST, _LATEST = -2, -1
"""Special timestamps for the ends of a partition."""
_PASSING = frozenset(
    (
        # A client that has no connection, or no metadata, or whose broker has only just begun.
        *("_TRANSPORT", "_TIMED_OUT", "_TIMED_OUT_QUEUE", "_ALL_BROKERS_DOWN", "_RESOLVE", "_UNKNOWN_BROKER"),
        *("_WAIT_COORD", "_WAIT_CACHE", "_RETRY", "_NODE_UPDATE", "_DESTROY_BROKER"),
        *("_UNKNOWN_PARTITION", "_UNKNOWN_TOPIC", "UNKNOWN_TOPIC_OR_PART", "UNKNOWN_TOPIC_ID"),
        # Partitions between two leaders.
        *("LEADER_NOT_AVAILABLE", "NOT_LEADER_FOR_PARTITION", "REPLICA_NOT_AVAILABLE", "OFFSET_NOT_AVAILABLE"),
        *("FENCED_LEADER_EPOCH", "UNKNOWN_LEADER_EPOCH", "PREFERRED_LEADER_NOT_AVAILABLE", "STALE_BROKER_EPOCH"),
        *("ELIGIBLE_LEADERS_NOT_AVAILABLE", "BROKER_NOT_AVAILABLE", "NOT_CONTROLLER", "UNSTABLE_OFFSET_COMMIT"),
        # Groups between two coordinators.
        *("COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR", "REBALANCE_IN_PROGRESS"),
        # A broker that is busy or in trouble.
        *("REQUEST_TIMED_OUT", "NETWORK_EXCEPTION", "KAFKA_STORAGE_ERROR", "THROTTLING_QUOTA_EXCEEDED"),
        *("FETCH_SESSION_ID_NOT_FOUND", "INVALID_FETCH_SESSION_EPOCH"),
    )
)
"""Errors that can end by themselves: when a broker comes back, or another one takes over."""
_UNREACHABLE = ("_TRANSPORT", "_TIMED_OUT", "_ALL_BROKERS_DOWN", "_RESOLVE")
"""Errors of a client that no broker has answered."""
_OURS: dict[str, object] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    # Offsets that no longer exist are lost records, which must not be skipped silently.
    "auto.offset.reset": "error",
}
_DEFAULTS: dict[str, object] = {
    "group.id": "headrace",
    "isolation.level": "read_committed",
    "queued.max.messages.kbytes": 16_384,
    # The requested records exist. A broker that waited for more records would delay the next range as well.
    "fetch.wait.max.ms": 10,
    "fetch.queue.backoff.ms": 20,
}

_ONE_RECORD: dict[str, object] = {"fetch.message.max.bytes": 1024, "queued.min.messages": 1}
"""Settings of consumers that read one record of each partition."""


class KafkaReadError(HeadraceError, RuntimeError):
    """Kafka could not be read as planned; nothing of this epoch is committed."""


class RecordMark(NamedTuple):
    """What tells a record from another one at the same offset, of a topic that was made anew.

    Persisted as part of a position: every field, as a tuple.
    """

    offset: int
    milliseconds: int
    """Kafka's timestamp."""
    digest: int
    """CRC-32 of key and value."""

    @classmethod
    def of(cls, message: Message) -> RecordMark:
        """The mark of a message that is no error."""
        digest = zlib.crc32(message.value() or b"", zlib.crc32(message.key() or b""))
        return cls(cast(int, message.offset()), message.timestamp()[1], digest)


class PartitionRange(NamedTuple):
    """The offsets from `start` to before `end` of a partition."""

    topic: str
    partition: int
    start: int
    end: int

    def __str__(self) -> str:
        return f"topic {self.topic!r}, partition {self.partition}, offsets {self.start} to {self.end - 1}"


def consumer_settings(config: Config) -> dict[str, object]:
    """The settings of consumers, with ours. Raises `TypeError` or `ValueError` for settings that are refused."""
    require_package("confluent_kafka")
    check_servers(config, "consumer_config")
    settings = {**_DEFAULTS, **config, **_OURS}
    try:
        consumer_of(settings).close()
    except Exception as error:
        raise ValueError(f"consumer_config is refused by librdkafka: {reason_of(error)}; correct it") from error
    return settings


def check_servers(config: Config, name: str) -> None:
    """Raise `TypeError` for settings that are no mapping, `ValueError` for settings without a broker."""
    if not isinstance(config, Mapping):
        raise TypeError(f"{name} must be a dict of librdkafka's settings, got {config!r:.200}")
    if not config.get("bootstrap.servers"):
        raise ValueError(f"{name} names no broker; give 'bootstrap.servers', such as 'localhost:9092'")


def reason_of(error: BaseException) -> str:
    """The message of a librdkafka error."""
    inner = error.args[0] if error.args else error
    message = getattr(inner, "str", None)
    return str(message()) if callable(message) and not isinstance(inner, str) else str(inner)


def consumer_of(settings: Config) -> Consumer:
    """A new consumer. Raises `KafkaException` for settings that librdkafka refuses."""
    from confluent_kafka import Consumer

    return Consumer(dict(settings))


class _Pool:
    """Idle consumers by settings, up to `limit`; each process has a pool of its own."""

    def __init__(self, limit: int = 8) -> None:
        self._limit = limit
        self._idle: list[tuple[bytes, Consumer]] = []
        self._lock = threading.Lock()

    @contextmanager
    def borrow(self, settings: Config) -> Iterator[Consumer]:
        """Lend a consumer to this thread alone; after an error the consumer is not reused."""
        key = pickle.dumps(sorted(settings.items()))
        consumer = self._take(key) or consumer_of(settings)
        try:
            yield consumer
        except BaseException:
            consumer.close()
            raise
        consumer.unassign()
        with self._lock:
            self._idle.append((key, consumer))
            surplus = self._idle[: -self._limit]
            del self._idle[: -self._limit]
        for _, consumer in surplus:
            consumer.close()

    def _take(self, key: bytes) -> Consumer | None:
        with self._lock:
            for index in reversed(range(len(self._idle))):
                if self._idle[index][0] == key:
                    return self._idle.pop(index)[1]
        return None


_pool = _Pool()


class KafkaCluster:
    """Requests to Kafka; all raise `KafkaReadError` if they fail."""

    def __init__(self, settings: Config) -> None:
        self._settings = settings
        self.outages = 0
        """Number of answers so far that a request was repeated for."""

    @contextmanager
    def _request(self, subject: str) -> Iterator[Consumer]:
        from confluent_kafka import KafkaException

        try:
            with _pool.borrow(self._settings) as consumer:
                yield consumer
        except KafkaException as error:
            failure = f"{subject}: the request to Kafka at {self._settings['bootstrap.servers']} failed"
            raise KafkaReadError(f"{failure}: {reason_of(error)}{_remedy(error)}") from error

    def _patiently(self, request: Callable[[], _Answer]) -> _Answer:
        """The answer to a request, which is repeated for `PATIENCE` while it fails with an error that can pass."""
        from confluent_kafka import KafkaException

        until = time.monotonic() + PATIENCE
        while True:
            try:
                return request()
            except KafkaException as error:
                if cast("KafkaError", error.args[0]).name() not in _PASSING or time.monotonic() > until:
                    raise
                self.outages += 1
                time.sleep(_WAIT)

    def partitions(self, topics: Collection[str], known: Collection[Partition] = ()) -> list[Partition]:
        """All partitions of some topics; a name that begins with `^` is a regular expression for topics.

        A broker that does not know the topic of `known` partitions is asked again, as it may have just started.
        """
        partitions: list[Partition] = []
        existing = {topic for topic, _ in known}
        with self._request("partitions") as consumer:
            for topic in self._patiently(partial(_matching_topics, consumer, topics)):
                numbers = self._patiently(partial(self._numbers, consumer, topic, topic in existing))
                partitions += [(topic, number) for number in numbers]
        return partitions

    def _numbers(self, consumer: Consumer, topic: str, is_known: bool) -> list[int]:
        from confluent_kafka import KafkaException

        metadata = consumer.list_topics(topic, timeout=PATIENCE).topics[topic]
        if metadata.error is not None and (is_known or metadata.error.name() != "UNKNOWN_TOPIC_OR_PART"):
            raise KafkaException(metadata.error)
        if metadata.error is not None or not metadata.partitions:
            servers = self._settings["bootstrap.servers"]
            reason = metadata.error.str() if metadata.error else "it has no partitions"
            raise KafkaReadError(f"topic {topic!r} cannot be read at {servers}: {reason}; create it first")
        return sorted(metadata.partitions)

    def bounds(self, partitions: Collection[Partition]) -> dict[Partition, tuple[int, int]]:
        """The first offset of each partition, and the offset after its last record.

        With `isolation.level=read_committed`, the default, the last record is before any open transaction.
        """
        with self._request("offsets") as consumer:
            first = self._offsets(consumer, [_at(partition, _EARLIEST) for partition in partitions])
        last = self.ends(partitions)
        return {partition: (first[partition], last[partition]) for partition in partitions}

    def ends(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        """The offset after the last record of each partition; see `bounds`."""
        with self._request("offsets") as consumer:
            return self._offsets(consumer, [_at(partition, _LATEST) for partition in partitions])

    def _offsets(self, consumer: Consumer, times: list[KafkaPartition]) -> dict[Partition, int]:
        """Offsets of times, which stand in place of offsets in `times`.

        `get_watermark_offsets` also gives the ends of partitions, but returns some errors as if they were offsets.
        """
        if not times:
            return {}
        return self._patiently(lambda: _checked(consumer.offsets_for_times(times, timeout=PATIENCE)))

    def at_time(self, partitions: Sequence[Partition], milliseconds: int) -> dict[Partition, int]:
        """The first offset at or after a time since 1970; partitions without such a record are left out."""
        with self._request("offsets of a time") as consumer:
            offsets = self._offsets(consumer, [_at(partition, milliseconds) for partition in partitions])
        return {partition: offset for partition, offset in offsets.items() if offset >= 0}

    def committed(self, partitions: Sequence[Partition]) -> dict[Partition, int]:
        """The offsets that the consumer group has committed; partitions without a commit are left out."""
        with self._request("committed offsets") as consumer:
            asked = [_at(partition) for partition in partitions]
            offsets = self._patiently(lambda: _checked(consumer.committed(asked, timeout=PATIENCE)))
        return {partition: offset for partition, offset in offsets.items() if offset >= 0}

    def commit(self, offsets: Mapping[Partition, int]) -> None:
        """Commit offsets to the consumer group, for monitoring of its lag."""
        if offsets:
            with self._request("the consumer group") as consumer:
                consumer.commit(offsets=starting_at(offsets), asynchronous=False)

    def marks(self, offsets: Mapping[Partition, int]) -> dict[Partition, RecordMark]:
        """The records at some offsets; partitions whose record was removed, or has not come yet, are left out."""
        if not offsets:
            return {}
        with KafkaCluster({**self._settings, **_ONE_RECORD})._request("records that were read before") as consumer:
            consumer.assign(starting_at(offsets))
            return _marks(consumer, offsets)

    def read(self, offsets: PartitionRange) -> Iterator[list[Message]]:
        """The messages of a range, in lists of up to `_BATCH`."""
        with self._request(str(offsets)) as consumer:
            consumer.assign([_at((offsets.topic, offsets.partition), offsets.start)])
            yield from _messages(consumer, offsets)


def _remedy(error: BaseException) -> str:
    if cast("KafkaError", error.args[0]).name() not in _UNREACHABLE:
        return ""
    return (
        f"; no broker answered within {PATIENCE:.0f} seconds: check that one runs there, and that 'bootstrap.servers' "
        "and the security settings are right"
    )


def _matching_topics(consumer: Consumer, topics: Collection[str]) -> list[str]:
    """The topics of names and patterns."""
    names = [topic for topic in topics if not topic.startswith("^")]
    if patterns := [re.compile(topic) for topic in topics if topic.startswith("^")]:
        existing = sorted(consumer.list_topics(timeout=PATIENCE).topics)
        names += [name for name in existing if any(pattern.match(name) for pattern in patterns)]
    return list(dict.fromkeys(names))


def _checked(answers: Iterable[KafkaPartition]) -> dict[Partition, int]:
    """Offsets by partition. Raises `KafkaException` for a partition with an error."""
    from confluent_kafka import KafkaException

    offsets = {}
    for answer in answers:
        if answer.error is not None:
            raise KafkaException(answer.error)
        offsets[answer.topic, answer.partition] = answer.offset
    return offsets


def starting_at(offsets: Mapping[Partition, int]) -> list[KafkaPartition]:
    """Partitions and offsets, for a consumer to be assigned."""
    return [_at(partition, offset) for partition, offset in offsets.items()]


def _at(partition: Partition, offset: int | None = None) -> KafkaPartition:
    from confluent_kafka import TopicPartition

    return TopicPartition(*partition) if offset is None else TopicPartition(*partition, offset)


def _messages(consumer: Consumer, offsets: PartitionRange) -> Iterator[list[Message]]:
    """The messages of a range; offsets of transaction markers and compacted records have none."""
    position, last = offsets.start, time.monotonic()
    while position < offsets.end:
        messages: list[Message] = []
        for message in consumer.consume(min(_BATCH, offsets.end - position), timeout=_WAIT):
            offset = message.offset()
            error = message.error()
            if message.partition() != offsets.partition and (error is None or error.name() == "_PARTITION_EOF"):
                # The message belongs to an earlier range of this consumer.
                continue
            if error is not None:
                _require_harmless(error, offsets)
                position = max(position, offset or 0) if error.name() == "_PARTITION_EOF" else position
            elif offset is not None:
                position = max(position, offset + 1)
                if offset < offsets.end:
                    messages.append(message)
        if messages:
            last = time.monotonic()
            yield messages
        elif position < offsets.end and time.monotonic() - last > PATIENCE:
            raise KafkaReadError(
                f"{offsets}: no message arrived from offset {position} on within {PATIENCE:g} s; see whether workers "
                "reach the broker, and whether a transaction was left open"
            )


def _marks(consumer: Consumer, offsets: Mapping[Partition, int]) -> dict[Partition, RecordMark]:
    """The marks of the records at exactly these offsets, at which the consumer stands."""
    marks: dict[Partition, RecordMark] = {}
    unanswered, until = set(offsets), time.monotonic() + PATIENCE
    while unanswered and time.monotonic() < until:
        for message in consumer.consume(len(offsets), timeout=_WAIT):
            error, partition = message.error(), (cast(str, message.topic()), cast(int, message.partition()))
            if error is not None and error.name() not in ("_PARTITION_EOF", "_AUTO_OFFSET_RESET"):
                _require_passing(error, "records that were read before")
                continue
            if partition in unanswered and error is None and message.offset() == offsets[partition]:
                marks[partition] = RecordMark.of(message)
            unanswered.discard(partition)
    if unanswered:
        raise KafkaReadError(
            f"{_named(min(unanswered))}: no answer came within {PATIENCE:g} s to a request for the record at offset "
            f"{offsets[min(unanswered)]}, which tells whether the topic is the one that was read before; see whether "
            "the driver reaches the broker"
        )
    return marks


def _named(partition: Partition) -> str:
    return f"topic {partition[0]!r}, partition {partition[1]}"


def _require_passing(error: KafkaError, subject: str) -> None:
    if error.name() not in _PASSING and not error.retriable():
        raise KafkaReadError(f"{subject} cannot be read: {error.str()}")


def _require_harmless(error: KafkaError, offsets: PartitionRange) -> None:
    """Raise `KafkaReadError` unless the error can end by itself."""
    if error.name() == "_AUTO_OFFSET_RESET":
        raise KafkaReadError(
            f"{offsets} no longer exist ({error.str()}): they were removed, or the topic was made anew, before they "
            "were read; keep records longer, or start over on an empty checkpoint"
        )
    if error.name() != "_PARTITION_EOF":
        _require_passing(error, str(offsets))
