"""Pooled consumers of Kafka, and requests for partitions, offsets and messages."""

from __future__ import annotations

import pickle
import re
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, cast

from headrace.lowlevel.errors import HeadraceError

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Message
    from confluent_kafka import TopicPartition as KafkaPartition

Config: TypeAlias = Mapping[str, object]
"""Settings of librdkafka, by name."""
Partition: TypeAlias = tuple[str, int]
"""Topic and number of a partition."""
PATIENCE = 30.0
"""Seconds within which a broker must answer."""
_BATCH = 10_000
"""Greatest number of messages fetched from the client at a time."""
_WAIT = 0.05
"""Seconds after which fewer messages are returned, or a request is repeated."""
_EARLIEST, _LATEST = -2, -1
"""Special timestamps for the ends of a partition."""
_PASSING = (
    *("LEADER_NOT_AVAILABLE", "NOT_LEADER_FOR_PARTITION", "REPLICA_NOT_AVAILABLE", "OFFSET_NOT_AVAILABLE"),
    *("FENCED_LEADER_EPOCH", "UNKNOWN_LEADER_EPOCH", "REQUEST_TIMED_OUT", "NETWORK_EXCEPTION", "KAFKA_STORAGE_ERROR"),
    *("_TRANSPORT", "_TIMED_OUT", "_ALL_BROKERS_DOWN", "_WAIT_COORD"),
)
"""Errors that end when another broker takes over."""
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


class KafkaReadError(HeadraceError, RuntimeError):
    """Kafka could not be read as planned; nothing of this epoch is committed."""


class OffsetRange(NamedTuple):
    """The offsets from `start` to before `end` of a partition."""

    topic: str
    partition: int
    start: int
    end: int

    def __str__(self) -> str:
        return f"topic {self.topic!r}, partition {self.partition}, offsets {self.start} to {self.end - 1}"


def require_package() -> None:
    """Raise `ImportError`, with the command that installs the client, if the client is not installed."""
    try:
        import_module("confluent_kafka")
    except ImportError as error:
        raise ImportError("Kafka is read and written by confluent-kafka: pip install headrace[kafka]") from error


def consumer_settings(config: Config) -> dict[str, object]:
    """The settings of consumers, with ours. Raises `TypeError` or `ValueError` for settings that are refused."""
    require_package()
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


class Cluster:
    """Requests to Kafka; all raise `KafkaReadError` if they fail."""

    def __init__(self, settings: Config) -> None:
        self._settings = settings

    @contextmanager
    def _request(self, subject: str) -> Iterator[Consumer]:
        from confluent_kafka import KafkaException

        try:
            with _pool.borrow(self._settings) as consumer:
                yield consumer
        except KafkaException as error:
            failure = f"{subject}: the request to Kafka at {self._settings['bootstrap.servers']} failed"
            raise KafkaReadError(f"{failure}: {reason_of(error)}{_remedy(error)}") from error

    def partitions(self, topics: Collection[str]) -> list[Partition]:
        """All partitions of some topics; a name that begins with `^` is a regular expression for topics."""
        partitions: list[Partition] = []
        with self._request("partitions") as consumer:
            for topic in _matching_topics(consumer, topics):
                metadata = consumer.list_topics(topic, timeout=PATIENCE).topics[topic]
                if metadata.error is not None or not metadata.partitions:
                    servers = self._settings["bootstrap.servers"]
                    reason = metadata.error.str() if metadata.error else "it has no partitions"
                    raise KafkaReadError(f"topic {topic!r} cannot be read at {servers}: {reason}; create it first")
                partitions += [(topic, number) for number in sorted(metadata.partitions)]
        return partitions

    def bounds(self, partitions: Collection[Partition]) -> dict[Partition, tuple[int, int]]:
        """The first offset of each partition, and the offset after its last record.

        With `isolation.level=read_committed`, the default, the last record is before any open transaction.
        """
        with self._request("offsets") as consumer:
            first = _offsets(consumer, [_at(partition, _EARLIEST) for partition in partitions])
            last = _offsets(consumer, [_at(partition, _LATEST) for partition in partitions])
        return {partition: (first[partition], last[partition]) for partition in partitions}

    def at_time(self, partitions: Sequence[Partition], milliseconds: int) -> dict[Partition, int]:
        """The first offset at or after a time since 1970; partitions without such a record are left out."""
        with self._request("offsets of a time") as consumer:
            offsets = _offsets(consumer, [_at(partition, milliseconds) for partition in partitions])
        return {partition: offset for partition, offset in offsets.items() if offset >= 0}

    def committed(self, partitions: Sequence[Partition]) -> dict[Partition, int]:
        """The offsets that the consumer group has committed; partitions without a commit are left out."""
        with self._request("committed offsets") as consumer:
            offsets = _checked(consumer.committed([_at(partition) for partition in partitions], timeout=PATIENCE))
        return {partition: offset for partition, offset in offsets.items() if offset >= 0}

    def commit(self, offsets: Mapping[Partition, int]) -> None:
        """Commit offsets to the consumer group, for monitoring of its lag."""
        if offsets:
            with self._request("the consumer group") as consumer:
                consumer.commit(offsets=starting_at(offsets), asynchronous=False)

    def read(self, offsets: OffsetRange) -> Iterator[list[Message]]:
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


def _offsets(consumer: Consumer, times: list[KafkaPartition]) -> dict[Partition, int]:
    """Offsets of times, which stand in place of offsets in `times`.

    `get_watermark_offsets` also gives the ends of partitions, but returns some errors as if they were offsets.
    """
    from confluent_kafka import KafkaException

    if not times:
        return {}
    until = time.monotonic() + PATIENCE
    while True:
        try:
            return _checked(consumer.offsets_for_times(times, timeout=PATIENCE))
        except KafkaException as error:
            if cast("KafkaError", error.args[0]).name() not in _PASSING or time.monotonic() > until:
                raise
            time.sleep(_WAIT)


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


def _messages(consumer: Consumer, offsets: OffsetRange) -> Iterator[list[Message]]:
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


def _require_harmless(error: KafkaError, offsets: OffsetRange) -> None:
    """Raise `KafkaReadError` unless the error can end by itself."""
    if error.name() == "_AUTO_OFFSET_RESET":
        raise KafkaReadError(
            f"{offsets} no longer exist ({error.str()}): they were removed, or the topic was made anew, before they "
            "were read; keep records longer, or start over on an empty checkpoint"
        )
    if error.name() not in ("_PARTITION_EOF", "_ALL_BROKERS_DOWN", "_TRANSPORT", "_RESOLVE") and not error.retriable():
        raise KafkaReadError(f"{offsets} cannot be read: {error.str()}")
