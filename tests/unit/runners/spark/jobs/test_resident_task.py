"""The connection between the driver and the task that stays, without Spark."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection
from types import SimpleNamespace
from typing import cast

import pytest
from pyspark.sql import SparkSession

from headrace.runners.engine.messages import Message
from headrace.runners.spark.cluster.classic import Classic
from headrace.runners.spark.cluster.cluster import Cluster, DriverAddress
from headrace.runners.spark.cluster.connect import Connect
from headrace.runners.spark.jobs import resident_task
from headrace.runners.spark.jobs.resident_task import ResidentTask, Slots, _EpochLoop, _greeted, _joined
from headrace.runners.spark.session import driver_address
from headrace.runners.spark.worker.task_payload import TaskPayload

SECRET = b"s" * 32


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as made:
        yield made


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as pool:
        yield pool


def greeting(server: socket.socket, threads: ThreadPoolExecutor, secret: bytes = SECRET) -> Future[Connection | None]:
    return threads.submit(lambda: _greeted(server.accept()[0], secret))


def test_both_sides_know_the_secret(server: socket.socket, threads: ThreadPoolExecutor) -> None:
    driver = greeting(server, threads)
    with _joined(server.getsockname(), SECRET) as task:
        accepted = driver.result(10)
        assert accepted is not None
        with accepted:
            accepted.send_bytes(b"an epoch")
            assert task.recv_bytes() == b"an epoch"
            # Neither side gives up while an epoch takes long.
            sizes = [socket.SO_RCVTIMEO]
            for end in (accepted, task):
                with socket.socket(fileno=socket.dup(end.fileno())) as again:
                    assert not any(again.getsockopt(socket.SOL_SOCKET, option, 16).strip(b"\0") for option in sizes)
                    assert again.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_task_with_another_secret_is_cut_off(
    server: socket.socket, threads: ThreadPoolExecutor, caplog: pytest.LogCaptureFixture
) -> None:
    driver = greeting(server, threads)
    with pytest.raises((AuthenticationError, EOFError, ConnectionError)):
        _joined(server.getsockname(), b"x" * 32)
    assert driver.result(10) is None
    assert "did not prove that it is the task that stays" in caplog.text


def test_a_driver_with_another_secret_gets_nothing(server: socket.socket, threads: ThreadPoolExecutor) -> None:
    """A task does not run what somebody sends who listens in the driver's place."""

    def pretend() -> None:
        accepted, _ = server.accept()
        with Connection(accepted.detach()) as connection:
            connection.send_bytes(b"#CHALLENGE#" + b"{sha256}" + b"0" * 40)
            connection.recv_bytes()
            connection.send_bytes(b"#WELCOME#")
            connection.recv_bytes()
            connection.send_bytes(b"0" * 32)

    pretending = threads.submit(pretend)
    with pytest.raises(AuthenticationError):
        _joined(server.getsockname(), SECRET)
    pretending.exception(10)


@pytest.mark.parametrize("sent", [b"", b"\x00\x00\x00\x04#HEL", b"GET / HTTP/1.1\r\n\r\n"])
def test_a_stranger_is_cut_off_in_time(
    server: socket.socket, threads: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(resident_task, "_HANDSHAKE_SECONDS", 1)
    driver = greeting(server, threads)
    began = time.monotonic()
    with socket.create_connection(server.getsockname()) as stranger:
        stranger.sendall(sent)
        assert driver.result(10) is None
    assert time.monotonic() - began < 8


def test_the_secret_is_not_shown() -> None:
    loop = _EpochLoop(TaskPayload(b"", b""), ("host", 1), SECRET, 1.0)
    assert "ssss" not in repr(loop)


def session(parallelism: int = 2, **settings: str) -> SparkSession:
    given = {name.replace("_", "."): value for name, value in settings.items()}
    profiles = SimpleNamespace(defaultResourceProfile=lambda: None)
    java = SimpleNamespace(resourceProfileManager=lambda: profiles, maxNumConcurrentTasks=lambda profile: parallelism)
    context = SimpleNamespace(_jsc=SimpleNamespace(sc=lambda: java), applicationId=f"{parallelism}")
    return cast(SparkSession, SimpleNamespace(sparkContext=context, conf=given))


@pytest.mark.parametrize(
    ("settings", "address"),
    [
        ({}, DriverAddress("127.0.0.1", "127.0.0.1")),
        ({"spark_driver_host": "driver"}, DriverAddress("driver", "driver")),
        ({"spark_driver_host": "driver", "spark_driver_bindAddress": "0.0.0.0"}, DriverAddress("0.0.0.0", "driver")),
        ({"spark_network_crypto_enabled": "false", "spark_driver_host": "a"}, DriverAddress("a", "a")),
        ({"spark_network_crypto_enabled": "true"}, None),
        ({"spark_ssl_enabled": "true"}, None),
        ({"spark_ssl_rpc_enabled": "TRUE"}, None),
        ({"spark_authenticate_enableSaslEncryption": "true"}, None),
    ],
)
def test_where_the_driver_listens(settings: dict[str, str], address: DriverAddress | None) -> None:
    assert driver_address(session(**settings)) == address


@pytest.mark.parametrize(
    ("parallelism", "address", "idle_seconds"),
    [(1, DriverAddress("127.0.0.1", "127.0.0.1"), 60.0), (2, None, 60.0), (2, DriverAddress("a", "a"), 0.0)],
    ids=["one slot", "encrypted", "told so"],
)
def test_no_task_stays(
    parallelism: int, address: DriverAddress | None, idle_seconds: float, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        resident = ResidentTask(session(parallelism), TaskPayload(b"", b""), address, idle_seconds)
        assert [resident.run(epoch, []) for epoch in range(3)] == [None] * 3
        resident.give_back()
    assert not caplog.records


class Answering:
    """The job of a task, which answers each epoch."""

    made: list[Answering]

    def __init__(self, *arguments: object) -> None:
        self.ended = cast("Callable[[], None]", arguments[-1])
        self.made.append(self)

    def send(self, messages: Sequence[Message]) -> None:
        pass

    def answer(self) -> list[Message]:
        return []

    def end(self, at_once: bool = False) -> None:
        self.ended()


class Changing:
    """A cluster whose executors come and go."""

    def __init__(self, *slots: int) -> None:
        self._slots = list(slots)

    def slots(self) -> int:
        return self._slots.pop(0) if len(self._slots) > 1 else self._slots[0]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What `monotonic` says; a test may change it."""
    now = [1000.0]
    monkeypatch.setattr(resident_task.time, "monotonic", lambda: now[0])
    return now


def test_a_slot_is_left_as_executors_come_and_go(clock: list[float]) -> None:
    cluster, slots = cast(Cluster, Changing(1, 3, 2, 1)), Slots()
    assert not slots.take(cluster), "the only slot is for other jobs"
    assert not slots.take(cluster), "Spark is not asked each time"
    clock[0] += 1
    assert slots.take(cluster) and slots.take(cluster) and slots.are_enough(cluster), "of three"
    clock[0] += 1
    assert not slots.are_enough(cluster), "two tasks hold both"
    slots.give_back()
    assert slots.are_enough(cluster) and not slots.take(cluster)
    clock[0] += 1
    assert not slots.are_enough(cluster), "the last executor but one has gone"


def test_a_costly_question_is_seldom_asked(clock: list[float]) -> None:
    asked = []

    class Slow:
        def slots(self) -> int:
            asked.append(clock[0])
            clock[0] += 0.5
            return 2

    cluster, slots = cast(Cluster, Slow()), Slots()
    for _ in range(100):
        slots.are_enough(cluster)
        clock[0] += 1
    assert len(asked) == 2


def test_a_task_that_stays_leaves_when_it_holds_the_last_slot(
    monkeypatch: pytest.MonkeyPatch, clock: list[float]
) -> None:
    monkeypatch.setattr(Answering, "made", [], raising=False)
    monkeypatch.setattr(resident_task, "ResidentJob", Answering)
    monkeypatch.setattr(resident_task, "_SLOTS", {})
    numbers = [2, 2, 1, 1, 2]
    monkeypatch.setattr(Classic, "slots", lambda self: numbers.pop(0))
    resident = ResidentTask(session(2), TaskPayload(b"", b""), DriverAddress("a", "a"), 60.0)
    found = []
    for epoch in range(5):
        found.append(resident.run(epoch, []) is not None)
        clock[0] += 1
    assert found == [True, True, False, False, True]
    assert len(Answering.made) == 2


@pytest.mark.parametrize(
    ("parallelism", "settings", "slots"),
    [
        (4, {}, 4),
        (4, {"spark.task.cpus": "3"}, 1),
        (2, {}, 1),
        (2, {"spark.master": "local[2]"}, 2),
        (8, {"spark.master": "local[2]", "spark.default.parallelism": "8"}, 2),
        (8, {"spark.master": "local[*]", "spark.sql.leafNodeDefaultParallelism": "8"}, 1),
        (8, {"spark.default.parallelism": "8", "spark.executor.instances": "3", "spark.executor.cores": "2"}, 6),
        (8, {"spark.default.parallelism": "8", "spark.executor.cores": "2"}, 1),
    ],
)
def test_slots_over_connect(
    monkeypatch: pytest.MonkeyPatch, parallelism: int, settings: dict[str, str], slots: int
) -> None:
    monkeypatch.setattr(Connect, "parallelism", lambda self: parallelism)
    assert Connect(cast(SparkSession, SimpleNamespace(conf=settings))).slots() == slots
