"""Waits for the next record of partitions that have been read to their ends, so that nobody need keep asking."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from headrace.sdk.io.kafka.client import Config, Partition, consumer_of, reason_of, starting_at

if TYPE_CHECKING:
    from confluent_kafka import Consumer

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
_log = logging.getLogger(__name__)
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
