"""Kafka for tests: librdkafka's own broker, which speaks the protocol inside of this process.

It keeps transactions but hides nothing of those that were aborted, and makes a topic, of four partitions, when
something is written to it.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from hashlib import blake2b

import pytest

QUIET = {"log_level": 0, "log.connection.close": False}
Row = tuple[object, ...]


class Cluster:
    """One broker, for as long as this is alive; or that of another process, at an address."""

    def __init__(self, servers: str | None = None) -> None:
        from confluent_kafka import Producer

        if servers is not None:
            self._connect(servers)
            return
        self._broker = Producer({"bootstrap.servers": "none", "test.mock.num.brokers": 1, **QUIET})
        brokers = self._broker.list_topics(timeout=10).brokers.values()
        self._connect(",".join(f"{broker.host}:{broker.port}" for broker in brokers))

    def _connect(self, servers: str) -> None:
        from confluent_kafka import Producer

        self.servers = servers
        self._producer = Producer({"bootstrap.servers": self.servers, "linger.ms": 0, **QUIET})

    @property
    def config(self) -> dict[str, object]:
        """What a client needs to find it."""
        return {"bootstrap.servers": self.servers, **QUIET}

    def send(self, topic: str, rows: Iterable[tuple[int, object, object, int]], headers: object = None) -> None:
        """Put rows (partition, key, value, milliseconds) into a topic."""
        for partition, key, value, milliseconds in rows:
            self._producer.produce(topic, value, key, partition, timestamp=milliseconds, headers=headers)
        assert not self._producer.flush(10)

    def reading(self, topic: str, **options: object):
        """A source of what is there now."""
        from headrace.io.kafka import ReadFromKafka

        return ReadFromKafka(self.config, [topic], **{"bounded": True, **options})

    def rows(self, topic: str) -> list[tuple[object, object]]:
        """Keys and values of a topic, partition after partition."""
        return [(message.key(), message.value()) for message in self.messages(topic)]

    def messages(self, topic: str) -> list:
        """All that a topic has, partition after partition."""
        from headrace.sdk.io.kafka.client import KafkaCluster as Client
        from headrace.sdk.io.kafka.client import PartitionRange, consumer_settings

        client = Client(consumer_settings(self.config))
        bounds = client.bounds(client.partitions([topic]))
        ranges = [PartitionRange(*partition, *bound) for partition, bound in bounds.items()]
        return [message for wanted in ranges for messages in client.read(wanted) for message in messages]


@cache
def cluster() -> Cluster:
    """The one of this process."""
    return Cluster()


def numbered(partition: int, numbers: Iterable[int]) -> list[tuple[int, bytes, bytes, int]]:
    """Rows to send, a second of event time apart."""
    # To librdkafka 0 is no time.
    return [(partition, b"k%d" % partition, b"%d" % number, max(1, 1000 * number)) for number in numbers]


@pytest.fixture
def kafka() -> Cluster:
    """The broker of this process."""
    return cluster()


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name that no other test has."""
    return f"topic-{blake2b(request.node.nodeid.encode(), digest_size=8).hexdigest()}"
