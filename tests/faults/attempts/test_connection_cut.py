"""The connection between the driver and the task that stays is cut after any byte: an epoch is answered, or a job."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from threading import Lock, Thread, enumerate
from types import SimpleNamespace
from typing import cast

import pytest
from pyspark.sql import SparkSession

from headrace.runners.engine.messages import DRIVER, Message, MessageKind
from headrace.runners.spark.cluster.cluster import DriverAddress
from headrace.runners.spark.jobs import resident_task
from headrace.runners.spark.jobs.resident_task import ResidentTask
from headrace.runners.spark.worker.task_payload import TaskPayload
from tests.depth import faults
from tests.faults.fulldisk import spread
from tests.faults.tally import Tally

pytestmark = pytest.mark.faults

EPOCHS = 4
"""Epochs that the task answers."""
HERE = DriverAddress("127.0.0.1", "127.0.0.1")
_connect = socket.create_connection


class Wire:
    """Joins tasks with the driver. The first connection is cut after so many bytes, either way; -1 for none."""

    def __init__(self, cut_after: int) -> None:
        self._left, self._lock = cut_after, Lock()
        self.passed = 0
        self.was_cut = False

    def connect(self, address: tuple[str, int], timeout: float) -> socket.socket:
        """What the task calls for a connection."""
        far = _connect(address)
        with socket.create_server(("127.0.0.1", 0)) as middle:
            task, (near, _) = _connect(middle.getsockname()), middle.accept()
        for source, target in ((near, far), (far, near)):
            Thread(target=self._pass_on, args=(source, target), name="wire", daemon=True).start()
        return task

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError), source:
            while (not self._is_cut()) and (data := source.recv(4096)):
                target.sendall(data[: self._may_pass(len(data))])
            for end in (source, target):
                end.shutdown(socket.SHUT_RDWR)

    def _is_cut(self) -> bool:
        with self._lock:
            self.was_cut |= (cut_now := self._left == 0)
            self._left = -1 if cut_now else self._left
            return cut_now

    def _may_pass(self, size: int) -> int:
        with self._lock:
            size = size if self._left < 0 else min(size, self._left)
            self._left -= size if self._left > 0 else 0
            self.passed += size
            return size


def answer_to(messages: Iterable[Message]) -> list[Message]:
    return [(0, DRIVER, MessageKind.REPORT, b"answer to " + blob) for *_, blob in messages]


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Iterator[SparkSession]:
    """A session whose one job runs its task in this process; without an engine: the task answers each message."""

    @contextmanager
    def epoch(payload: TaskPayload) -> Iterator[tuple[SimpleNamespace, None]]:
        yield SimpleNamespace(program=None), None

    def run_in_one_task(program: None, host: None, messages: list[Message]) -> list[Message]:
        return answer_to(messages)

    monkeypatch.setattr(resident_task, "PROCESS", SimpleNamespace(epoch=epoch))
    monkeypatch.setattr(resident_task, "run_in_one_task", run_in_one_task)
    monkeypatch.setattr(resident_task, "run_plan", lambda plan, description: list(plan([])))
    monkeypatch.setattr(resident_task, "_SLOTS", {})
    frame = SimpleNamespace(mapInArrow=lambda loop, schema: loop)
    context = SimpleNamespace(
        applicationId="application",
        defaultParallelism=2,
        addJobTag=lambda tag: None,
        cancelJobsWithTag=lambda tag: None,
    )
    yield cast(SparkSession, SimpleNamespace(sparkContext=context, range=lambda *numbers: frame))


def live(session: SparkSession) -> tuple[list[int], list[int]]:
    """Epochs until the task has answered some, in the order of epochs: those answered, and those that are jobs."""
    resident = ResidentTask(session, TaskPayload(b"", b""), HERE, 60.0)
    answered: list[int] = []
    jobs: list[int] = []
    for epoch in range(400):
        messages = [(0, 1, MessageKind.SPLIT, b"%d of %d" % (number, epoch)) for number in range(2)]
        if (got := resident.run(epoch, messages)) is None:
            jobs.append(epoch)
            time.sleep(0.005)
        else:
            assert got == answer_to(messages)
            answered.append(epoch)
        if len(answered) == EPOCHS:
            break
    resident.give_back()
    return answered, jobs


def test_the_connection_is_cut_after_every_byte(
    session: SparkSession, monkeypatch: pytest.MonkeyPatch, tally: Callable[[int], Tally]
) -> None:
    run = tally(20)
    monkeypatch.setattr(socket, "create_connection", (whole := Wire(-1)).connect)
    live(session)
    for at in spread(whole.passed, faults(100, whole.passed)):
        run.plan()
        monkeypatch.setattr(socket, "create_connection", (wire := Wire(at)).connect)
        answered, jobs = live(session)
        run.fire(wire.was_cut)
        assert len(answered) == EPOCHS, f"after {at} bytes no other task has come"
        run.compare(range(len(answered) + len(jobs)), answered + jobs, "epochs")
        assert resident_task._SLOTS["application"].take(), f"after {at} bytes the slot was not given back"
        resident_task._SLOTS["application"].give_back()
    deadline = time.monotonic() + 10
    while left := [each.name for each in enumerate() if each.name.startswith(("wire", "headrace-resident"))]:
        assert time.monotonic() < deadline, left
        time.sleep(0.05)
