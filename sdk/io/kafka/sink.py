"""What: a sink that writes a collection to a topic of Kafka exactly once, with a transaction for each epoch.

The rows of an epoch are part of its commit; after the commit the driver sends them in one transaction. The first record
has the epoch in a header. A driver that does not know whether the newest epoch was sent fences all other producers with
its transactional id, which aborts their open transactions, and looks for the header from the offsets at which the topic
ended when the rows were staged.
"""

from __future__ import annotations

import hashlib
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from math import inf
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, cast

from headrace.lowlevel.coders.coder import PickleCoder
from headrace.lowlevel.errors import HeadraceError
from headrace.lowlevel.records.record import Batch
from headrace.lowlevel.sinks.sink import BaseSink
from headrace.lowlevel.stored_names import named, stored_as
from headrace.lowlevel.time import END_OF_GLOBAL_WINDOW
from headrace.sdk.io.argument_checks import require_package
from headrace.sdk.io.kafka.client import (
    PATIENCE,
    Config,
    KafkaCluster,
    PartitionRange,
    check_servers,
    consumer_settings,
    reason_of,
)
from headrace.sdk.io.kafka.record import KafkaRecord, Serializer, serializer_of
from headrace.sdk.transforms.core.low_level import Write

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Producer

EPOCH_HEADER = "headrace-epoch"
"""Name of the header of an epoch's first record; its value names sink, epoch and rows."""
_LONGEST = 1_000_000
"""Default of librdkafka for the greatest number of bytes of a record."""
_FRAME = 20
"""Least number of bytes that a record or header takes besides its contents."""
_KEPT_SECONDS = 5.0
"""Seconds for which a task keeps the ends of partitions that it was told. What they grew by is read at a restart."""
_ATTEMPTS = 3
"""Greatest number of transactions for an epoch, if the broker asks to abort them."""
_SHARED = (
    *("bootstrap.servers", "security.protocol", "sasl.", "ssl.", "client.", "enable.ssl", "broker.address"),
    *("socket.", "debug", "log"),
)
"""Beginnings of the names of settings that consumers need as well."""


class KafkaWriteError(HeadraceError, RuntimeError):
    """An epoch could not be sent to Kafka. It is committed, and is sent when the program is started again."""


Serialize: TypeAlias = Callable[[object], bytes | None]
Headers: TypeAlias = tuple[tuple[str, bytes | None], ...]


@stored_as("KafkaOutgoing")
class OutgoingRecord(NamedTuple):
    """A record to be sent."""

    key: bytes | None
    value: bytes | None
    headers: Headers
    milliseconds: int
    """Timestamp, milliseconds since 1970 UTC; 0 for the time of sending."""


class StagedRecords(NamedTuple):
    """The records of a task. Persisted as a receipt: every field, as a tuple."""

    token: str
    ends: dict[int, int]
    """Partition -> offset at which it ended when the records were staged."""
    records: list[OutgoingRecord]


@named("KafkaSink")
class KafkaSink(BaseSink):
    """Sends each epoch in a transaction.

    Args:
        config: librdkafka's settings, with a `transactional.id`.
        topic: Name of the topic.
        key: Serializer of keys.
        value: Serializer of values.
    """

    _coder = PickleCoder()

    def __init__(self, config: Config, topic: str, key: Serialize, value: Serialize) -> None:
        self._config = dict(config)
        self._topic = topic
        self._key, self._value = key, value
        shared = {name: setting for name, setting in config.items() if name.startswith(_SHARED)}
        self._consumer_settings = consumer_settings(shared)
        self._producer: Producer | None = None
        self._ends: dict[int, int] = {}
        self._ends_until = -inf
        """When the broker is asked for `_ends` again; seconds of `time.monotonic`."""
        self._max_bytes = int(str(config.get("message.max.bytes", _LONGEST)))

    def __getstate__(self) -> dict[str, object]:
        """The producer stays on the driver: tasks only stage. Each process asks for ends itself."""
        return {**self.__dict__, "_producer": None, "_ends": {}, "_ends_until": -inf}

    # In the task

    def stage(self, batch: Batch, epoch: int, interval: int, token: str) -> bytes | None:
        """The receipt: the records, and offsets at which the topic has ended a moment ago; None without rows."""
        if not len(batch):
            return None
        records = [self._outgoing(value, timestamp) for value, timestamp in batch.rows()]
        if time.monotonic() > self._ends_until:
            self._ends = self._ask_ends()
            self._ends_until = time.monotonic() + _KEPT_SECONDS
        return zlib.compress(self._coder.encode(tuple(StagedRecords(token, self._ends, records))), 1)

    def _outgoing(self, element: object, timestamp: int) -> OutgoingRecord:
        milliseconds = timestamp // 1000 if 0 <= timestamp < END_OF_GLOBAL_WINDOW else 0
        if isinstance(element, KafkaRecord):
            headers = tuple(header for header in element.headers if header[0] != EPOCH_HEADER)
            return self._outgoing_pair(element.key, element.value, headers, milliseconds)
        if not isinstance(element, tuple) or len(element) != 2:
            raise TypeError(f"{element!r:.200} is no pair (key, value); map it to one, with None for no key")
        return self._outgoing_pair(*element, (), milliseconds)

    def _outgoing_pair(self, key: object, value: object, headers: Headers, milliseconds: int) -> OutgoingRecord:
        """The record. Raises `ValueError` before the commit for a record that is too long to be sent after it."""
        key_bytes, value_bytes = _serialized(key, self._key, "key"), _serialized(value, self._value, "value")
        record = OutgoingRecord(key_bytes, value_bytes, headers, milliseconds)
        size = _FRAME + len(record.key or b"") + len(record.value or b"")
        size += sum(_FRAME + len(name) + len(value or b"") for name, value in record.headers)
        if size > self._max_bytes:
            raise ValueError(
                f"a record of {size} bytes with key {record.key!r:.80} is longer than producer_config's "
                f"message.max.bytes, {self._max_bytes}; make it greater, and the broker's, or the record smaller"
            )
        return record

    def _uncommitted(self) -> KafkaCluster:
        """Requests that see records of open and aborted transactions as well."""
        return KafkaCluster({**self._consumer_settings, "isolation.level": "read_uncommitted"})

    def _ask_ends(self) -> dict[int, int]:
        """Partition -> offset after all records, including records in open transactions."""
        cluster = self._uncommitted()
        return {number: end for (_, number), end in cluster.ends(cluster.partitions([self._topic])).items()}

    # On the driver

    def deliver(self, epoch: int, receipts: Sequence[bytes]) -> None:
        """Send an epoch, unless an earlier driver has sent it. Raises `KafkaWriteError`."""
        staged = [self._decoded(receipt) for receipt in receipts]
        digest = hashlib.blake2b(b"".join(receipts), digest_size=16).hexdigest()
        mark = f"{self._config['transactional.id']}/{epoch}/{digest}".encode()
        try:
            if self._producer is None:
                self._producer = self._open()
                if self._was_sent(mark, staged):
                    return
            self._send(self._producer, [record for part in staged for record in part.records], mark)
        except Exception as error:
            # The next producer finds out whether the transaction was committed.
            self._producer = None
            raise KafkaWriteError(
                f"epoch {epoch} was not taken by topic {self._topic!r}: {reason_of(error)}; the epoch is committed and "
                "is sent when the program is started again, unless the topic has it already"
            ) from error

    def _decoded(self, receipt: bytes) -> StagedRecords:
        fields = self._coder.decode(zlib.decompress(receipt))
        return StagedRecords(*cast("tuple[str, dict[int, int], list[OutgoingRecord]]", fields))

    def _open(self) -> Producer:
        """A producer that fences all others with its transactional id, and aborts their open transactions."""
        from confluent_kafka import Producer

        producer = Producer(dict(self._config))
        producer.init_transactions(PATIENCE)
        return producer

    def _was_sent(self, mark: bytes, staged: Sequence[StagedRecords]) -> bool:
        """Whether the epoch is in the topic, after the offset at which the topic ended when the rows were staged.

        Records behind an open transaction of another producer are hidden from readers of committed records. So the
        mark is sought among all records; only where it is found does it matter whether its transaction was committed.
        """
        cluster, ends = self._uncommitted(), self._ask_ends()
        start = {
            number: min((part.ends.get(number, 0) for part in staged), default=end) for number, end in ends.items()
        }
        # Retention may have removed these records.
        first = cluster.bounds([(self._topic, number) for number in ends])
        ranges = [
            PartitionRange(self._topic, number, max(start[number], first[self._topic, number][0]), end)
            for number, end in ends.items()
        ]
        marked = [
            PartitionRange(self._topic, offsets.partition, offset, offset + 1)
            for offsets in ranges
            for offset in _marked(cluster, offsets, mark)
        ]
        committed = KafkaCluster(self._consumer_settings)
        return any(True for offsets in marked for _ in _marked(committed, offsets, mark))

    def _send(self, producer: Producer, records: Sequence[OutgoingRecord], mark: bytes) -> None:
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

    def _produce(self, producer: Producer, records: Sequence[OutgoingRecord], mark: bytes) -> None:
        for index, record in enumerate(records):
            headers: list[tuple[str, str | bytes | None]] = [*record.headers]
            if index == 0:
                headers.append((EPOCH_HEADER, mark))
            while True:
                try:
                    producer.produce(
                        self._topic, record.value, record.key, headers=headers, timestamp=record.milliseconds
                    )
                    break
                except BufferError:
                    # The queue is full; wait until some records are sent.
                    producer.poll(0.1)
            producer.poll(0)


def _serialized(element: object, serializer: Serialize, role: str) -> bytes | None:
    """The bytes of a key or value; None stays None. Raises `TypeError` if the serializer does not return bytes."""
    if element is None:
        return None
    serialized: object = serializer(element)
    if not isinstance(serialized, bytes):
        raise TypeError(f"{role}_serializer made {serialized!r:.200} of {element!r:.200}; it must give bytes")
    return serialized


def _marked(cluster: KafkaCluster, offsets: PartitionRange, mark: bytes) -> Iterator[int]:
    """The offsets of records with the mark of an epoch."""
    for message in chain.from_iterable(cluster.read(offsets)):
        if (EPOCH_HEADER, mark) in (message.headers() or ()):
            yield cast(int, message.offset())


class WriteToKafka(Write):
    """Writes pairs (key, value) or `KafkaRecord`s to a topic, with one transaction for each epoch.

    Readers with `isolation.level=read_committed` see each epoch once and whole, also after a crash. The records of an
    epoch pass through its commit and the driver. Needs `pip install 'headrace[kafka]'`.

    >>> import headrace as beam
    >>> settings = {"bootstrap.servers": "broker:9092", "transactional.id": "sums"}
    >>> pipeline = beam.Pipeline("LocalRunner")
    >>> _ = pipeline | beam.Create([("red", "12")]) | WriteToKafka(settings, "sums")

    Args:
        producer_config: librdkafka's settings, at least `bootstrap.servers` and `transactional.id`: a name that stays
            the same for as long as the checkpoint and that no other sink has, as one fences the other.
        topic: Name of the topic, which must exist.
        key_serializer: Function from a key to bytes, a format of `headrace.io.kafka_values`, or the name of one of
            Kafka's Java classes; by default bytes stay and text becomes UTF-8. A key None is sent as none.
        value_serializer: The same for values.

    Raises:
        ImportError: confluent-kafka is not installed.
        TypeError: The settings are no mapping, or a serializer is no function.
        ValueError: The settings are refused, or the topic is empty.
    """

    def __init__(
        self,
        producer_config: Mapping[str, object],
        topic: str,
        key_serializer: Serializer | str | None = None,
        value_serializer: Serializer | str | None = None,
    ) -> None:
        require_package("confluent_kafka")
        _check_producer(producer_config)
        if not topic:
            raise ValueError("topic is empty; name one")
        key = serializer_of(key_serializer, "key_serializer", topic)
        value = serializer_of(value_serializer, "value_serializer", topic)
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
