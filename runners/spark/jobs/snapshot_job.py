"""Snapshots of state, made by a Spark job of their own while epochs go on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from secrets import token_hex
from threading import Thread
from typing import cast

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import TaskContext
from pyspark.sql import SparkSession

from headrace.lowlevel.checkpoint import CopyPlan, Snapshot, SnapshotOrder, write_snapshot
from headrace.runners.engine.epoch import DRIVER, Kind, Row, pack, unpack
from headrace.runners.spark.held import HELD
from headrace.runners.spark.host import SparkHost
from headrace.runners.spark.job import collected
from headrace.runners.spark.level import SCHEMA, batches_of, rows_of, table_of
from headrace.runners.spark.shipment import Contents, Shipment

Orders = Sequence[tuple[SnapshotOrder, CopyPlan]]
_LONGEST = 5.0
"""Seconds that the end of a run waits for snapshots that nobody will name, and as long again for their job to give up:
less than a run has to end in that a signal has stopped."""


@dataclass(frozen=True, slots=True)
class _MakeSnapshots:
    """The function of the job's `mapInArrow`: a row is an order, a row of the result the snapshot made."""

    shipment: Shipment

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        contents, host = HELD.take(self.shipment)
        task = TaskContext.get()
        assert task is not None, "Spark calls this inside a task"
        host.begin(task.attemptNumber())
        return batches_of(host.finish(_snapshot(contents, host, row) for row in rows_of(batches)))


def _snapshot(contents: Contents, host: SparkHost, row: Row) -> Row:
    order, plan = cast(tuple[SnapshotOrder, CopyPlan], unpack(row[3]))
    names = contents.program.levels[order.level - 1]
    # A copy that is further holds what the plan's later deltas say; a reader applies them once more.
    copies = {name: host.copy_no_older(name, plan) for name in names}
    return (row[0], DRIVER, Kind.REPORT, pack(write_snapshot(contents.store, order, copies)))


class Making:
    """Snapshots that are being made by a job of its own; calling it gives them once all are made, None before.

    A job that fails raises its error there: the state is safe without.
    """

    def __init__(self, session: SparkSession, shipment: Shipment, orders: Orders) -> None:
        self._session, self._shipment, self._orders = session, shipment, orders
        self._made: list[Snapshot] = []
        self._error: Exception | None = None
        self._tag = f"headrace-snapshots-{token_hex(8)}"
        self._thread = Thread(target=self._make, name="headrace-snapshots", daemon=True)
        self._thread.start()

    def _make(self) -> None:
        try:
            # Local properties of this thread alone.
            self._session.sparkContext.addJobTag(self._tag)
            rows: list[Row] = [
                (order.interval, order.level, Kind.CHAIN, pack((order, plan))) for order, plan in self._orders
            ]
            given = self._session.createDataFrame(table_of([row] for row in rows))
            plan = given.mapInArrow(_MakeSnapshots(self._shipment), SCHEMA)
            made = collected(plan, f"snapshots of epoch {self._orders[0][0].epoch}")
            self._made = [_made(row) for row in made]
        except Exception as error:
            self._error = error

    def __call__(self) -> list[Snapshot] | None:
        """The snapshots, if they are ready. Raises what kept them from being made."""
        if self._thread.is_alive():
            return None
        if self._error is not None:
            raise self._error
        return self._made

    def end(self, at_once: bool) -> None:
        """Let the job end, or end it, so that nothing is written once the run is over."""
        self._thread.join(0.0 if at_once else _LONGEST)
        if self._thread.is_alive():
            # A Java process that a signal has ended, too, cannot be told.
            with suppress(Py4JError, OSError):
                self._session.sparkContext.cancelJobsWithTag(self._tag)
            self._thread.join(0.0 if at_once else _LONGEST)


def _made(row: Row) -> Snapshot:
    """What a task says of an order. Raises what kept it from being written."""
    told = unpack(row[3])
    if row[2] == Kind.FAILURE:
        raise cast(Exception, told)
    return cast(Snapshot, told)
