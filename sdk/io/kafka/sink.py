"""What: collections into a topic of Kafka, exactly once: a transaction for each epoch.

The rows of an epoch are part of its commit, and are sent by the driver in one transaction after it. The first record
carries the epoch in a header. A driver that does not know whether the newest epoch was sent fences whoever else sends
under this name, so that nothing of theirs is open, and reads the topic from where it ended before the epoch.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, cast

from headrace.lowlevel.coder import PickleCoder
from headrace.lowlevel.errors import HeadraceError
from headrace.lowlevel.record import Batch
from headrace.lowlevel.time import END_OF_GLOBAL_WINDOW
from headrace.sdk.io.kafka.client import (
    PATIENCE,
    Cluster,
    Config,
    Partition,
    Range,
    check_servers,
    consumer_settings,
    reason_of,
    require_package,
)
from headrace.sdk.io.kafka.record import KafkaRecord, Serializer, serializer_of
from headrace.sdk.transforms.write import Write

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message, Producer

EPOCH_HEADER = "headrace-epoch"
"""Header of an epoch's first record: which epoch of which sink it is."""
_LONGEST = 1_000_000
"""Bytes that librdkafka lets a record have where nothing else is stated."""
_FRAME = 20
"""Bytes that go with a record or header besides what is in it, at least."""
_ATTEMPTS = 3
"""Transactions that are tried where the broker asks to abort one."""
_SHARED = (
    *("bootstrap.servers", "security.protocol", "sasl.", "ssl.", "client.", "enable.ssl", "broker.address"),
    *("socket.", "debug", "log"),
)
"""Beginnings of settings that consumers need, too."""


class KafkaWriteError(HeadraceError, RuntimeError):
    """Kafka did not take an epoch, which is committed; it is sent when the program is started again."""


class Outgoing(NamedTuple):
    """A record to be sent."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    milliseconds: int
    """Its timestamp, since 1970; 0 for the time of sending."""


class Staged(NamedTuple):
    """What a task had. Persisted as a receipt."""

    token: str
    ends: dict[int, int]
    """Where each partition of the topic ended before this was sent."""
    records: list[Outgoing]


class KafkaSink:
    """Sends each epoch in a transaction.

    Args:
        config: librdkafka's settings, with a `transactional.id`.
        topic: Where to.
        key: From a key to bytes.
        value: From a value to bytes.
    """

    _coder = PickleCoder()

    def __init__(self, config: Config, topic: str, key: Serializer, value: Serializer) -> None:
        self._config = dict(config)
        self._topic = topic
        self._key, self._value = key, value
        seen = {name: given for name, given in config.items() if name.startswith(_SHARED)}
        self._committed = consumer_settings(seen)
        self._producer: Producer | None = None
        self._most = int(str(config.get("message.max.bytes", _LONGEST)))

    def __getstate__(self) -> dict[str, object]:
        """The producer stays on the driver: tasks only stage."""
        return {**self.__dict__, "_producer": None}

    # In the task

    def stage(self, batch: Batch, epoch: int, interval: int, token: str) -> bytes | None:
        """The records are the receipt, with where the topic ends now."""
        if not len(batch):
            return None
        records = [self._outgoing(value, timestamp) for value, timestamp in batch.rows()]
        return zlib.compress(self._coder.encode(tuple(Staged(token, self._ends(), records))), 1)

    def _outgoing(self, element: object, timestamp: int) -> Outgoing:
        milliseconds = timestamp // 1000 if 0 <= timestamp < END_OF_GLOBAL_WINDOW else 0
        if isinstance(element, KafkaRecord):
            headers = tuple(header for header in element.headers if header[0] != EPOCH_HEADER)
            key, value = self._bytes(element.key, 0), self._bytes(element.value, 1)
            return self._fitting(Outgoing(key, value, headers, milliseconds))
        if not isinstance(element, tuple) or len(element) != 2:
            raise TypeError(f"{element!r:.200} is no pair (key, value); map it to one, with None for no key")
        return self._fitting(Outgoing(self._bytes(element[0], 0), self._bytes(element[1], 1), (), milliseconds))

    def _fitting(self, record: Outgoing) -> Outgoing:
        """Refuse before the commit what could never be sent after it."""
        size = _FRAME + len(record.key or b"") + len(record.value or b"")
        size += sum(_FRAME + len(name) + len(value or b"") for name, value in record.headers)
        if size > self._most:
            raise ValueError(
                f"a record of {size} bytes with key {record.key!r:.80} is longer than producer_config's "
                f"message.max.bytes, {self._most}; make it greater, and the broker's, or the record smaller"
            )
        return record

    def _bytes(self, given: object, which: int) -> bytes | None:
        if given is None:
            return None
        made: object = (self._key, self._value)[which](given)
        if not isinstance(made, bytes):
            name = ("key_serializer", "value_serializer")[which]
            raise TypeError(f"{name} made {made!r:.200} of {given!r:.200}; it must give bytes")
        return made

    def _partitions(self) -> list[Partition]:
        return Cluster(self._committed).partitions([self._topic])

    def _ends(self) -> dict[int, int]:
        """Offsets behind everything that is there, be it in an open transaction."""
        everything = Cluster({**self._committed, "isolation.level": "read_uncommitted"})
        return {number: end for (_, number), (_, end) in everything.bounds(self._partitions()).items()}

    # On the driver

    def deliver(self, epoch: int, receipts: Sequence[bytes]) -> None:
        """Send an epoch, unless it was sent by the driver before. Raises `KafkaWriteError`."""
        staged = [Staged(*cast("tuple[str, dict[int, int], list[Outgoing]]", self._unpacked(one))) for one in receipts]
        digest = hashlib.blake2b(b"".join(receipts), digest_size=16).hexdigest()
        mark = f"{self._config['transactional.id']}/{epoch}/{digest}".encode()
        try:
            if self._producer is None:
                self._producer = self._open()
                if self._was_sent(mark, staged):
                    return
            self._send(self._producer, [record for one in staged for record in one.records], mark)
        except Exception as error:
            # What became of the transaction shows when the next producer begins.
            self._producer = None
            raise KafkaWriteError(
                f"epoch {epoch} was not taken by topic {self._topic!r}: {reason_of(error)}; the epoch is committed and "
                "is sent when the program is started again, unless it turns out to be there"
            ) from error

    def _unpacked(self, receipt: bytes) -> object:
        return self._coder.decode(zlib.decompress(receipt))

    def _open(self) -> Producer:
        """A producer that is the only one of its name: what others of that name have open is given up."""
        from confluent_kafka import Producer

        producer = Producer(dict(self._config))
        producer.init_transactions(PATIENCE)
        return producer

    def _was_sent(self, mark: bytes, staged: Sequence[Staged]) -> bool:
        """Whether the epoch is in the topic, behind where that ended when the rows were staged."""
        cluster, ends = Cluster(self._committed), self._ends()
        begin = {number: min((one.ends.get(number, 0) for one in staged), default=end) for number, end in ends.items()}
        # Retention may have taken away what was there then.
        first = cluster.bounds([(self._topic, number) for number in ends])
        ranges = [
            Range(self._topic, number, max(begin[number], first[self._topic, number][0]), end)
            for number, end in ends.items()
        ]
        return any(
            _carries(message, mark) for wanted in ranges for messages in cluster.read(wanted) for message in messages
        )

    def _send(self, producer: Producer, records: Sequence[Outgoing], mark: bytes) -> None:
        from confluent_kafka import KafkaException

        for attempt in range(1, _ATTEMPTS + 1):
            try:
                producer.begin_transaction()
                self._produce(producer, records, mark)
                producer.commit_transaction(PATIENCE)
                return
            except KafkaException as error:
                if attempt == _ATTEMPTS or not cast("KafkaError", error.args[0]).txn_requires_abort():
                    raise
                producer.abort_transaction(PATIENCE)

    def _produce(self, producer: Producer, records: Sequence[Outgoing], mark: bytes) -> None:
        for at, record in enumerate(records):
            headers: list[tuple[str, str | bytes | None]] = [
                *record.headers,
                *([(EPOCH_HEADER, mark)] if not at else []),
            ]
            while True:
                try:
                    producer.produce(
                        self._topic, record.value, record.key, headers=headers, timestamp=record.milliseconds
                    )
                    break
                except BufferError:
                    # The queue is full: let some go out.
                    producer.poll(0.1)
            producer.poll(0)


def _carries(message: Message, mark: bytes) -> bool:
    return (EPOCH_HEADER, mark) in (message.headers() or ())


class WriteToKafka(Write):
    """Pairs (key, value) or `KafkaRecord`s into a topic, one transaction for each epoch.

    Who reads with `isolation.level=read_committed` sees each epoch once and whole, also after a crash. The records of
    an epoch pass through its commit and the driver. Needs `pip install headrace[kafka]`.

    Args:
        producer_config: librdkafka's settings, at least `bootstrap.servers` and `transactional.id`: a name that stays
            the same for as long as the checkpoint and that no other sink has, as one fences the other.
        topic: Name of the topic, which must be there.
        key_serializer: From a key to bytes; by default bytes stay and text becomes UTF-8. None stays none.
        value_serializer: The same for values.

    Raises:
        ImportError: confluent-kafka is not installed.
        ValueError: The settings are refused.
    """

    def __init__(
        self,
        producer_config: Mapping[str, object],
        topic: str,
        key_serializer: Serializer | str | None = None,
        value_serializer: Serializer | str | None = None,
    ) -> None:
        require_package()
        _check_producer(producer_config)
        if not topic:
            raise ValueError("topic is empty; name one")
        key = serializer_of(key_serializer, "key_serializer")
        value = serializer_of(value_serializer, "value_serializer")
        super().__init__(KafkaSink(producer_config, topic, key, value))


def _check_producer(config: Config) -> None:
    from confluent_kafka import Producer

    check_servers(config, "producer_config")
    if not config.get("transactional.id"):
        raise ValueError(
            "producer_config has no 'transactional.id'; give a name that stays the same for as long as the checkpoint "
            "and that no other sink has"
        )
    try:
        Producer(dict(config))
    except Exception as error:
        raise ValueError(f"producer_config is refused by librdkafka: {reason_of(error)}; correct it") from error
