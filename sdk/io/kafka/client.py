"""Clients of Kafka: made when they are needed, kept by each process, and asked for partitions, offsets and messages."""

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
"""Topic and number."""
PATIENCE = 30.0
"""Seconds that a broker has to answer."""
_BATCH = 10_000
"""Messages that are taken over at once."""
_WAIT = 0.05
"""Seconds after which fewer will do."""
_EARLIEST, _LATEST = -2, -1
"""Times that stand for the ends of a partition."""
_PASSING = (
    *("LEADER_NOT_AVAILABLE", "NOT_LEADER_FOR_PARTITION", "REPLICA_NOT_AVAILABLE", "OFFSET_NOT_AVAILABLE"),
    *("FENCED_LEADER_EPOCH", "UNKNOWN_LEADER_EPOCH", "REQUEST_TIMED_OUT", "NETWORK_EXCEPTION", "KAFKA_STORAGE_ERROR"),
    *("_TRANSPORT", "_TIMED_OUT", "_ALL_BROKERS_DOWN", "_WAIT_COORD"),
)
"""Errors that pass when another broker has taken over."""
_OURS: dict[str, object] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    # Offsets that are gone are lost records: that must not pass as the next ones.
    "auto.offset.reset": "error",
}
_DEFAULTS: dict[str, object] = {
    "group.id": "headrace",
    "isolation.level": "read_committed",
    "queued.max.messages.kbytes": 16_384,
    # What is asked for is there. A broker that waits for more would keep the next range waiting, too.
    "fetch.wait.max.ms": 10,
    "fetch.queue.backoff.ms": 20,
}


class KafkaReadError(HeadraceError, RuntimeError):
    """Kafka cannot be read as planned; nothing of this epoch is committed."""


class Range(NamedTuple):
    """Offsets of a partition, `end` not included."""

    topic: str
    partition: int
    start: int
    end: int

    def __str__(self) -> str:
        return f"topic {self.topic!r}, partition {self.partition}, offsets {self.start} to {self.end - 1}"


def require_package() -> None:
    """Raise `ImportError` that says how to install the client."""
    try:
        import_module("confluent_kafka")
    except ImportError as error:
        raise ImportError("Kafka is read and written by confluent-kafka: pip install headrace[kafka]") from error


def consumer_settings(config: Config) -> dict[str, object]:
    """The settings of our consumers. Raises `ValueError` for what librdkafka does not know."""
    require_package()
    check_servers(config, "consumer_config")
    settings = {**_DEFAULTS, **config, **_OURS}
    try:
        _make(settings).close()
    except Exception as error:
        raise ValueError(f"consumer_config is refused by librdkafka: {reason_of(error)}; correct it") from error
    return settings


def check_servers(config: Config, name: str) -> None:
    """Refuse settings that are none, or name no broker."""
    if not isinstance(config, Mapping):
        raise TypeError(f"{name} must be a dict of librdkafka's settings, got {config!r:.200}")
    if not config.get("bootstrap.servers"):
        raise ValueError(f"{name} names no broker; give 'bootstrap.servers', such as 'localhost:9092'")


def reason_of(error: BaseException) -> str:
    """What librdkafka says, without its wrapping."""
    inner = error.args[0] if error.args else error
    said = getattr(inner, "str", None)
    return str(said()) if callable(said) and not isinstance(inner, str) else str(inner)


def _make(settings: Config) -> Consumer:
    from confluent_kafka import Consumer

    return Consumer(dict(settings))


class _Pool:
    """Consumers that are not in use, by their settings; each process has its own."""

    def __init__(self, most: int = 8) -> None:
        self._most = most
        self._idle: list[tuple[bytes, Consumer]] = []
        self._lock = threading.Lock()

    @contextmanager
    def borrow(self, settings: Config) -> Iterator[Consumer]:
        """One for this thread alone; after an error it is not used again."""
        name = pickle.dumps(sorted(settings.items()))
        consumer = self._take(name) or _make(settings)
        try:
            yield consumer
        except BaseException:
            consumer.close()
            raise
        consumer.unassign()
        with self._lock:
            self._idle.append((name, consumer))
            closing = self._idle[: -self._most]
            del self._idle[: -self._most]
        for _, one in closing:
            one.close()

    def _take(self, name: bytes) -> Consumer | None:
        with self._lock:
            for at in reversed(range(len(self._idle))):
                if self._idle[at][0] == name:
                    return self._idle.pop(at)[1]
        return None


_pool = _Pool()


class Cluster:
    """What a driver or sink asks of Kafka. Everything raises `KafkaReadError` if there is no answer."""

    def __init__(self, settings: Config) -> None:
        self._settings = settings

    @contextmanager
    def _asking(self, what: str) -> Iterator[Consumer]:
        from confluent_kafka import KafkaException

        try:
            with _pool.borrow(self._settings) as consumer:
                yield consumer
        except KafkaException as error:
            servers = self._settings["bootstrap.servers"]
            raise KafkaReadError(f"{what} cannot be had from Kafka at {servers}: {reason_of(error)}") from error

    def partitions(self, topics: Collection[str]) -> list[Partition]:
        """All partitions of some topics; a name that begins with `^` stands for all that it is a pattern of."""
        found: list[Partition] = []
        with self._asking("partitions") as consumer:
            for topic in _named_topics(consumer, topics):
                known = consumer.list_topics(topic, timeout=PATIENCE).topics[topic]
                if known.error is not None or not known.partitions:
                    servers = self._settings["bootstrap.servers"]
                    reason = known.error.str() if known.error else "it has no partitions"
                    raise KafkaReadError(f"topic {topic!r} cannot be read at {servers}: {reason}; create it first")
                found += [(topic, number) for number in sorted(known.partitions)]
        return found

    def bounds(self, partitions: Collection[Partition]) -> dict[Partition, tuple[int, int]]:
        """Of each partition the first offset and that behind its last record.

        Where transactions are hidden, as is usual, the last record is one before any open transaction.
        """
        with self._asking("offsets") as consumer:
            first = _offsets(consumer, [_named(one, _EARLIEST) for one in partitions])
            last = _offsets(consumer, [_named(one, _LATEST) for one in partitions])
        return {one: (first[one], last[one]) for one in partitions}

    def at_time(self, partitions: Sequence[Partition], milliseconds: int) -> dict[Partition, int]:
        """Of each partition the first offset whose record is not older; those that have none are left out."""
        with self._asking("offsets of a time") as consumer:
            found = _offsets(consumer, [_named(partition, milliseconds) for partition in partitions])
        return {one: offset for one, offset in found.items() if offset >= 0}

    def committed(self, partitions: Sequence[Partition]) -> dict[Partition, int]:
        """The offsets that the consumer group has committed, where it has."""
        with self._asking("committed offsets") as consumer:
            found = _known(consumer.committed([_named(partition) for partition in partitions], timeout=PATIENCE))
        return {one: offset for one, offset in found.items() if offset >= 0}

    def commit(self, offsets: Mapping[Partition, int]) -> None:
        """Let the consumer group say that all before these offsets was read: for those who watch its lag."""
        if offsets:
            with self._asking("the consumer group") as consumer:
                named = [_named(partition, offset) for partition, offset in offsets.items()]
                consumer.commit(offsets=named, asynchronous=False)

    def read(self, wanted: Range) -> Iterator[list[Message]]:
        """The messages of a range, some at a time."""
        with self._asking(str(wanted)) as consumer:
            consumer.assign([_named((wanted.topic, wanted.partition), wanted.start)])
            yield from _messages(consumer, wanted)


def _named_topics(consumer: Consumer, topics: Collection[str]) -> list[str]:
    """The topics that names and patterns stand for."""
    names = [topic for topic in topics if not topic.startswith("^")]
    if patterns := [re.compile(topic) for topic in topics if topic.startswith("^")]:
        there = sorted(consumer.list_topics(timeout=PATIENCE).topics)
        names += [name for name in there if any(pattern.match(name) for pattern in patterns)]
    return list(dict.fromkeys(names))


def _offsets(consumer: Consumer, asked: list[KafkaPartition]) -> dict[Partition, int]:
    """The offsets of times. `get_watermark_offsets` would do for ends, but takes some errors for answers."""
    from confluent_kafka import KafkaException

    if not asked:
        return {}
    until = time.monotonic() + PATIENCE
    while True:
        try:
            return _known(consumer.offsets_for_times(asked, timeout=PATIENCE))
        except KafkaException as error:
            if cast("KafkaError", error.args[0]).name() not in _PASSING or time.monotonic() > until:
                raise
            time.sleep(_WAIT)


def _known(found: Iterable[KafkaPartition]) -> dict[Partition, int]:
    """Offsets by partition. Raises `KafkaException` where there is no answer, which is not to pass for none."""
    from confluent_kafka import KafkaException

    offsets = {}
    for one in found:
        if one.error is not None:
            raise KafkaException(one.error)
        offsets[one.topic, one.partition] = one.offset
    return offsets


def _named(partition: Partition, offset: int | None = None) -> KafkaPartition:
    from confluent_kafka import TopicPartition

    return TopicPartition(*partition) if offset is None else TopicPartition(*partition, offset)


def _messages(consumer: Consumer, wanted: Range) -> Iterator[list[Message]]:
    """Offsets that nothing is at, of transactions or compacted away, are passed over."""
    position, last = wanted.start, time.monotonic()
    while position < wanted.end:
        messages: list[Message] = []
        for message in consumer.consume(min(_BATCH, wanted.end - position), timeout=_WAIT):
            offset = message.offset()
            error = message.error()
            if message.partition() != wanted.partition and (error is None or error.name() == "_PARTITION_EOF"):
                # Left over from what this consumer read before.
                continue
            if error is not None:
                _require_harmless(error, wanted)
                position = max(position, offset or 0) if error.name() == "_PARTITION_EOF" else position
            elif offset is not None:
                position = max(position, offset + 1)
                if offset < wanted.end:
                    messages.append(message)
        if messages:
            last = time.monotonic()
            yield messages
        elif position < wanted.end and time.monotonic() - last > PATIENCE:
            raise KafkaReadError(
                f"{wanted}: nothing came from offset {position} on within {PATIENCE:g} s; is the broker reachable from "
                "the workers, or a transaction left open?"
            )


def _require_harmless(error: KafkaError, wanted: Range) -> None:
    """Raise for what waiting does not mend."""
    if error.name() == "_AUTO_OFFSET_RESET":
        raise KafkaReadError(
            f"{wanted} are no longer there ({error.str()}): the topic was cut off or made anew before they were read; "
            "keep records longer, or start over on an empty checkpoint"
        )
    if error.name() not in ("_PARTITION_EOF", "_ALL_BROKERS_DOWN", "_TRANSPORT", "_RESOLVE") and not error.retriable():
        raise KafkaReadError(f"{wanted} cannot be read: {error.str()}")
