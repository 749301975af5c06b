"""Spark jobs beside those of epochs: snapshots of state while epochs go on, and the end of user code in the workers."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from secrets import token_hex
from threading import Thread
from typing import cast

import pyarrow as pa
from pyspark.sql import SparkSession

from headrace.lowlevel.checkpoint import FileChain, SnapshotOrder, SnapshotParts, write_snapshot
from headrace.runners.engine.messages import DRIVER, Message, MessageKind, pack, unpack
from headrace.runners.spark.cluster.cluster import cluster_of
from headrace.runners.spark.errors import spark_errors
from headrace.runners.spark.jobs.epoch_job import run_plan
from headrace.runners.spark.jobs.job_error import SparkJobError
from headrace.runners.spark.jobs.stage_function import SCHEMA, batches_of, messages_of, table_of
from headrace.runners.spark.worker.host import SparkHost
from headrace.runners.spark.worker.process import PROCESS
from headrace.runners.spark.worker.task_payload import PayloadContents, TaskPayload

Orders = Sequence[tuple[SnapshotOrder, FileChain]]
_LONGEST = 5.0
"""Seconds that the end of a run waits for the job, and again after cancelling the job: together less than the time in
which a run must end after a signal."""


@dataclass(frozen=True, slots=True)
class _MakeSnapshots:
    """The function of the job's `mapInArrow`: from messages with orders to messages with snapshots."""

    payload: TaskPayload

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        contents, host = PROCESS.begin(self.payload)
        return batches_of(host.finish(_snapshot(contents, host, message) for message in messages_of(batches)))


def _snapshot(contents: PayloadContents, host: SparkHost, message: Message) -> Message:
    order, chain = cast(tuple[SnapshotOrder, FileChain], unpack(message[3]))
    names = contents.program.levels[order.level - 1]
    # A store may contain changes of later deltas; whoever reads the snapshot applies these deltas once more.
    stores = {name: host.state_store_no_older(name, chain) for name in names}
    return (message[0], DRIVER, MessageKind.REPORT, pack(write_snapshot(contents.store, order, stores)))


class SnapshotJob:
    """A job that makes snapshots. Calling the object returns the snapshots, or None until all are made.

    If the job fails, the call raises its error. The state is safe without snapshots.
    """

    def __init__(self, session: SparkSession, payload: TaskPayload, orders: Orders) -> None:
        self._session, self._payload, self._orders = session, payload, orders
        self._snapshots: list[SnapshotParts] = []
        self._error: Exception | None = None
        self._tag = f"headrace-snapshots-{token_hex(8)}"
        self._thread = Thread(target=self._make, name="headrace-snapshots", daemon=True)
        self._thread.start()

    def _make(self) -> None:
        try:
            # Local properties belong to this thread.
            cluster = cluster_of(self._session)
            cluster.tag(self._tag)
            messages: list[Message] = [
                (order.interval, order.level, MessageKind.CHAIN, pack((order, chain))) for order, chain in self._orders
            ]
            table = cluster.partitioned(table_of([message] for message in messages))
            plan = table.mapInArrow(_MakeSnapshots(self._payload), SCHEMA)
            output = run_plan(plan, f"snapshots of epoch {self._orders[0][0].epoch}")
            self._snapshots = [_snapshot_in(message) for message in output]
        except Exception as error:
            self._error = error

    def __call__(self) -> list[SnapshotParts] | None:
        """The snapshots, if they are ready. Raises the error of the job."""
        if self._thread.is_alive():
            return None
        if self._error is not None:
            raise self._error
        return self._snapshots

    def end(self, at_once: bool) -> None:
        """Wait for the end of the job, or cancel it, so that the job writes nothing after the run."""
        self._thread.join(0.0 if at_once else _LONGEST)
        if self._thread.is_alive():
            cluster_of(self._session).cancel_tag(self._tag)
            self._thread.join(0.0 if at_once else _LONGEST)


def _snapshot_in(message: Message) -> SnapshotParts:
    """The snapshot in a message of a task. Raises the error in a message of kind `FAILURE`."""
    value = unpack(message[3])
    if message[2] == MessageKind.FAILURE:
        raise cast(Exception, value)
    return cast(SnapshotParts, value)


_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Leave:
    """The function of the job's `mapInArrow`: tears a run down, and returns no batches."""

    payload: TaskPayload

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        PROCESS.leave(self.payload)
        for _ in batches:
            continue
        return iter(())


def ask_to_leave(session: SparkSession, payload: TaskPayload, parallelism: int) -> None:
    """Let worker processes tear down a run.

    Spark gives tasks to the processes that have waited longest, so the job reaches most of them; the other processes
    tear the run down when they end, unless they are killed. A job that fails is only a warning.
    """
    try:
        tasks = session.range(0, parallelism, 1, parallelism)
        run_plan(tasks.mapInArrow(_Leave(payload), SCHEMA), "the end of a run")
    except spark_errors(SparkJobError) as error:
        _log.warning("DoFn.teardown was not called in all worker processes: %s", error)
