"""Kafka that fails, for tests: librdkafka's own broker, told by its C interface what to answer with errors."""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest

from tests.kafkacluster import Cluster

PRODUCE, FETCH, LIST_OFFSETS, METADATA, FETCH_COMMITTED = 0, 1, 2, 3, 9
INIT_PRODUCER_ID, ADD_PARTITIONS, END_TRANSACTION = 22, 24, 26
"""Requests, by the numbers that the protocol has for them."""
UNKNOWN_TOPIC, NOT_LEADER, TIMED_OUT, NO_COORDINATOR, FORBIDDEN, FORBIDDEN_GROUP = 3, 6, 7, 15, 29, 30
FORGED_EPOCH, CONCURRENT, FENCED = 47, 51, 90
"""Errors, by theirs."""


class FaultyCluster(Cluster):
    """One broker that does what it is told."""

    def __init__(self, library: ctypes.CDLL) -> None:
        for name in ("rd_kafka_conf_new", "rd_kafka_new", "rd_kafka_mock_cluster_new"):
            getattr(library, name).restype = ctypes.c_void_p
        library.rd_kafka_mock_cluster_bootstraps.restype = ctypes.c_char_p
        library.rd_kafka_mock_get_requests.restype = ctypes.POINTER(ctypes.c_void_p)
        library.rd_kafka_mock_request_api_key.argtypes = [ctypes.c_void_p]
        library.rd_kafka_mock_request_api_key.restype = ctypes.c_int16
        self._library = library
        reason, conf = ctypes.create_string_buffer(512), ctypes.c_void_p(library.rd_kafka_conf_new())
        library.rd_kafka_conf_set(conf, b"log_level", b"0", reason, ctypes.c_size_t(512))
        self._client = ctypes.c_void_p(library.rd_kafka_new(0, conf, reason, ctypes.c_size_t(512)))
        self._mock = ctypes.c_void_p(library.rd_kafka_mock_cluster_new(self._client, 1))
        self._connect(library.rd_kafka_mock_cluster_bootstraps(self._mock).decode())

    def fail(self, request: int, *errors: int) -> None:
        """Answer the next requests of a kind with errors."""
        codes = (ctypes.c_int * len(errors))(*errors)
        self._library.rd_kafka_mock_push_request_errors_array(
            self._mock, ctypes.c_int16(request), ctypes.c_size_t(len(errors)), codes
        )

    def stop(self) -> None:
        """Let the broker be gone."""
        self._library.rd_kafka_mock_broker_set_down(self._mock, ctypes.c_int32(1))

    def start(self) -> None:
        """Let it be back."""
        self._library.rd_kafka_mock_broker_set_up(self._mock, ctypes.c_int32(1))

    def requests(self) -> Counter[int]:
        """How many requests of each kind have come since the last call; the first one begins to count."""
        number = ctypes.c_size_t()
        requests = self._library.rd_kafka_mock_get_requests(self._mock, ctypes.byref(number))
        kinds = [self._library.rd_kafka_mock_request_api_key(each) for each in requests[: number.value]]
        self._library.rd_kafka_mock_request_destroy_array(requests, number)
        self._library.rd_kafka_mock_start_request_tracking(self._mock)
        return Counter(kinds)

    def close(self) -> None:
        """End it."""
        self._library.rd_kafka_mock_cluster_destroy(self._mock)
        self._library.rd_kafka_destroy(self._client)


@pytest.fixture
def faulty() -> Iterator[FaultyCluster]:
    """A broker of this test's own."""
    libraries = sorted(Path(confluent_kafka.__file__).parent.parent.glob("confluent_kafka.libs/librdkafka*"))
    if not libraries:
        pytest.skip("confluent-kafka was not installed from a wheel, so its librdkafka is not beside it")
    cluster = FaultyCluster(ctypes.CDLL(str(libraries[0])))
    yield cluster
    cluster.close()
