"""A task of Spark that stays: it runs small epochs one after another, without a Spark job for each.

A job of one task holds one of Spark's slots. Its worker process connects to the driver, gets an epoch's messages, runs
all levels as a `StageFunction` of all levels does, and answers with the messages to the driver. Only plans and reports
travel over the connection; state and output go to the checkpoint, and reports carry the tokens of their attempts, as in
any epoch.

The driver listens on the address at which Spark's executors reach it, for one connection of one job, and both sides
prove that they know a secret, which travels in the function of the task. The connection is not encrypted:
`driver_address` has no address where Spark is told to encrypt.
"""

from __future__ import annotations

import logging
import socket
import struct
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection
from secrets import token_bytes, token_hex
from threading import Event, Lock, Thread
from typing import cast

import pyarrow as pa
from pyspark.sql import SparkSession

from headrace.lowlevel.python_private import prove_each_other
from headrace.runners.engine.messages import Message, pack, unpack
from headrace.runners.spark.cluster.cluster import Cluster, DriverAddress, cluster_of
from headrace.runners.spark.jobs.epoch_job import run_plan
from headrace.runners.spark.jobs.job_error import SparkJobError
from headrace.runners.spark.jobs.stage_function import SCHEMA, run_in_one_task
from headrace.runners.spark.worker.process import PROCESS
from headrace.runners.spark.worker.task_payload import TaskPayload

_log = logging.getLogger(__name__)
_HANDSHAKE_SECONDS = 5
"""How long either side waits for the other to prove that it knows the secret."""
_LOOK_SECONDS = 0.5
"""How often the driver looks whether Spark still runs the task, while it waits for an answer."""
_LEAVE_SECONDS = 5.0
"""How long the driver waits until a task that was asked to leave has left, before it cancels the job."""
_LEAVE = b""
"""The message by which either side ends the stay."""
_LOSSES = 3
"""Lost tasks of a run after which epochs are run as jobs only."""
_ASK_AGAIN_SECONDS = 1.0
"""The least time from one question for the number of slots to the next."""
_COSTS = 100
"""How many times as long as a question for the number of slots takes there is none after it."""
CUT = (EOFError, OSError)
"""Errors of a connection whose other end is gone."""


class LeftError(Exception):
    """The task has left, as it had nothing to do for long."""


class ResidentTask:
    """The task that stays of one run, begun when small epochs come and ended when its slot is needed or nothing comes.

    If the task, its host or its connection is lost, the driver gives the epoch up and runs it as a job.

    Args:
        session: The engine's session.
        payload: The payload of all tasks of the run.
        address: Where the driver listens; None if it may not.
        idle_seconds: How long the task waits for an epoch before it leaves; 0 for no task that stays.
    """

    def __init__(
        self, session: SparkSession, payload: TaskPayload, address: DriverAddress | None, idle_seconds: float
    ) -> None:
        self._session, self._payload, self._address = session, payload, address
        self._idle_seconds = idle_seconds
        self._is_allowed = address is not None and idle_seconds > 0
        self._cluster = cluster_of(session)
        self._slots = _SLOTS.setdefault(self._cluster.application(), Slots())
        self._job: ResidentJob | None = None
        self._losses = 0

    def run(self, epoch: int, messages: Sequence[Message]) -> list[Message] | None:
        """Run an epoch; returns the messages to the driver, or None if it has to be a job of its own.

        Args:
            epoch: Number of the epoch.
            messages: The messages to the engine's tasks.

        Raises:
            SparkJobError: The task's job was cancelled from outside, as at a second signal.
        """
        if (job := self._begun(epoch)) is None:
            return None
        try:
            job.send(messages)
            return job.answer()
        except LeftError:
            self.give_back()
        except CUT as error:
            self._lose(job, epoch, error)
        return None

    def _begun(self, epoch: int) -> ResidentJob | None:
        """The job, which is begun for this epoch if there is none; None if no task may stay."""
        if self._job is not None and not self._slots.are_enough(self._cluster):
            self.give_back()
        if self._job is None and self._address is not None and self._is_allowed and self._slots.take(self._cluster):
            made = self._session, self._payload, self._address, self._idle_seconds, epoch, self._slots.give_back
            self._job = ResidentJob(*made)
        return self._job

    def _lose(self, job: ResidentJob, epoch: int, error: Exception) -> None:
        """Note that the task was lost; too often, and there will be no other."""
        self._job = None
        job.end(at_once=True)
        if job.was_cancelled:
            assert job.error is not None, "a job that was cancelled has ended by an error"
            raise job.error
        self._losses += 1
        self._is_allowed = self._losses < _LOSSES
        _log.log(
            logging.INFO if self._is_allowed else logging.WARNING,
            "epoch %d: the task that stays was lost (%s: %s), so the epoch is run again as a Spark job%s",
            epoch,
            type(error).__name__,
            str(error) or "the connection has ended",
            "" if self._is_allowed else f"; that was so {_LOSSES} times, so there will be no such task in this run",
        )

    def give_back(self, at_once: bool = False) -> None:
        """End the task, so that Spark has its slot for others; with `at_once` its job is cancelled."""
        if (job := self._job) is not None:
            self._job = None
            job.end(at_once)


class Slots:
    """The slots of Spark that tasks of this process's runs may hold: one is left to other jobs.

    Spark is asked how many slots there are, as executors come and go, but only so often that asking costs little.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._slots = 0
        self._ask_again_at = 0.0
        """From when on (`monotonic`) the number counts as old."""
        self._held = 0

    def take(self, cluster: Cluster) -> bool:
        """Take a slot for the task of a run; False if there is none, or only the last one."""
        with self._lock:
            is_free = self._number(cluster) - self._held > 1
            self._held += is_free
            return is_free

    def are_enough(self, cluster: Cluster) -> bool:
        """Whether the tasks that hold slots still leave one to other jobs, though executors may have gone."""
        with self._lock:
            return self._number(cluster) > self._held

    def give_back(self) -> None:
        """Give back the slot of a task whose job has ended."""
        with self._lock:
            self._held -= 1

    def _number(self, cluster: Cluster) -> int:
        """How many slots there are."""
        if (began := time.monotonic()) >= self._ask_again_at:
            self._slots = cluster.slots()
            ended = time.monotonic()
            self._ask_again_at = ended + max(_ASK_AGAIN_SECONDS, _COSTS * (ended - began))
        return self._slots


_SLOTS: dict[str, Slots] = {}
"""Id of Spark's application -> its slots; several runs may use one session."""


class ResidentJob:
    """The job of a task that stays, and the connection to the task.

    Args:
        session: The engine's session.
        payload: The payload of all tasks of the run.
        address: Where the driver listens.
        idle_seconds: How long the task waits for an epoch before it leaves.
        epoch: The first epoch, for Spark's UI.
        ended: What to call when the job has ended.
    """

    def __init__(
        self,
        session: SparkSession,
        payload: TaskPayload,
        address: DriverAddress,
        idle_seconds: float,
        epoch: int,
        ended: Callable[[], None],
    ) -> None:
        self.error: SparkJobError | None = None
        """The error by which the job has ended."""
        self._session, self._ended = session, ended
        self._tag = f"headrace-resident-{token_hex(8)}"
        self._connection: Connection | None = None
        self._is_there = Event()
        """Set when the task has connected, and when its job has ended."""
        secret = token_bytes(32)
        self._server = socket.create_server((address.bind, 0))
        loop = _EpochLoop(payload, (address.host, self._server.getsockname()[1]), secret, idle_seconds)
        self._greeter = Thread(target=self._greet, args=(secret,), name="headrace-resident-greeter", daemon=True)
        self._job = Thread(target=self._hold, args=(loop, epoch), name="headrace-resident", daemon=True)
        self._greeter.start()
        self._job.start()

    def _hold(self, loop: _EpochLoop, epoch: int) -> None:
        """Run the job; local properties belong to this thread."""
        try:
            cluster_of(self._session).tag(self._tag)
            plan = self._session.range(0, 1, 1, 1).mapInArrow(loop, SCHEMA)
            run_plan(plan, f"small epochs from {epoch} on, in a task that stays")
        except SparkJobError as error:
            self.error = error
        except Exception as error:
            # Whoever waits for the task sees that the job has ended; a Java that is ended by a signal is no news.
            _log.debug("the job of the task that stays has ended: %s", error)
        finally:
            self._ended()
            _close(self._server)
            self._is_there.set()

    def _greet(self, secret: bytes) -> None:
        """Accept connections until one proves that it knows the secret."""
        with self._server:
            while self._connection is None:
                try:
                    accepted, _ = self._server.accept()
                except OSError:
                    return
                self._connection = _greeted(accepted, secret)
        self._is_there.set()

    @property
    def has_ended(self) -> bool:
        """Whether Spark does not run the task any more."""
        return not self._job.is_alive()

    @property
    def was_cancelled(self) -> bool:
        """Whether something else than this object has cancelled the job."""
        # The second word is that of Spark Connect.
        return self.error is not None and any(word in str(self.error) for word in ("cancelled", "OPERATION_CANCELED"))

    def send(self, messages: Sequence[Message]) -> None:
        """Send the messages of an epoch. Raises `EOFError` or `OSError` if the task is lost."""
        connection = self._wait()
        # Where nobody reads any more, there may be a word from when the task left.
        with suppress(ConnectionError):
            connection.send_bytes(pack(list(messages)))

    def answer(self) -> list[Message]:
        """Wait for the messages to the driver.

        Raises `LeftError` if the task has left, and `EOFError` or `OSError` if it is lost.
        """
        answer = self._answer(self._wait())
        if answer == _LEAVE:
            raise LeftError
        return cast("list[Message]", unpack(answer))

    def _wait(self) -> Connection:
        """Wait until the task has connected; like any task, it may have to wait for a slot. Raises `EOFError`."""
        while self._connection is None:
            if self.has_ended:
                raise EOFError("Spark has ended the job")
            self._is_there.wait(_LOOK_SECONDS)
        return self._connection

    def _answer(self, connection: Connection) -> bytes:
        while not connection.poll(_LOOK_SECONDS):
            if self.has_ended:
                raise EOFError("Spark has ended the job")
        return connection.recv_bytes()

    def end(self, at_once: bool = False) -> None:
        """End the task and wait for the end of its job; with `at_once`, or if it does not end, cancel the job."""
        _close(self._server)
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(*CUT), closing(connection):
                if not at_once:
                    connection.send_bytes(_LEAVE)
        # A job that nobody has connected from waits for a slot.
        self._job.join(0.0 if at_once or connection is None else _LEAVE_SECONDS)
        if self._job.is_alive():
            had_error = self.error
            cluster_of(self._session).cancel_tag(self._tag)
            self._job.join(_LEAVE_SECONDS)
            self.error = had_error


def _close(server: socket.socket) -> None:
    """End the wait for connections; closing alone does not end `accept` in another thread."""
    with suppress(OSError):
        server.shutdown(socket.SHUT_RDWR)
    server.close()


def _greeted(accepted: socket.socket, secret: bytes) -> Connection | None:
    """The connection of a task that knows the secret; None for anybody else, who is cut off."""
    _tune(accepted, _HANDSHAKE_SECONDS)
    connection = Connection(accepted.detach())
    try:
        prove_each_other(connection, secret, asks_first=True)
    except (*CUT, AuthenticationError) as error:
        _log.warning("a connection to the driver did not prove that it is the task that stays: %s", error)
        connection.close()
        return None
    with socket.socket(fileno=socket.dup(connection.fileno())) as again:
        _tune(again, 0)
    return connection


def _joined(address: tuple[str, int], secret: bytes) -> Connection:
    """The task's end of the connection."""
    made = socket.create_connection(address, timeout=_HANDSHAKE_SECONDS)
    made.settimeout(None)
    _tune(made, 0)
    connection = Connection(made.detach())
    prove_each_other(connection, secret, asks_first=False)
    return connection


def _tune(connected: socket.socket, receive_seconds: int) -> None:
    """Send short messages at once, and wait so long for an answer; 0 for no limit."""
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", receive_seconds, 0))


@dataclass(frozen=True, slots=True)
class _EpochLoop:
    """The function of the job's `mapInArrow`: runs the epochs that the driver sends."""

    payload: TaskPayload
    address: tuple[str, int]
    secret: bytes = field(repr=False)
    idle_seconds: float

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            # The batches are empty: they exist because every plan begins with a DataFrame.
            continue
        with suppress(*CUT), _joined(self.address, self.secret) as connection, PROCESS.tuned(self.payload):
            self._stay(connection)
        return iter(())

    def _stay(self, connection: Connection) -> None:
        while connection.poll(self.idle_seconds):
            request = connection.recv_bytes()
            if request == _LEAVE:
                return
            messages = cast("list[Message]", unpack(request))
            with PROCESS.epoch(self.payload) as (contents, host):
                answer = list(run_in_one_task(contents.program, host, messages))
            connection.send_bytes(pack(answer))
        connection.send_bytes(_LEAVE)
