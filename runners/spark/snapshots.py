"""Snapshots of state, made by a Spark job of their own while epochs go on."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from threading import Thread
from typing import cast

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession

from headrace.lowlevel.checkpoint import CopyPlan, Snapshot, SnapshotOrder, write_snapshot
from headrace.runners.engine.epoch import DRIVER, Kind, Row, pack, unpack
from headrace.runners.spark.held import HELD
from headrace.runners.spark.host import SparkHost
from headrace.runners.spark.job import collected
from headrace.runners.spark.joberror import SparkJobError
from headrace.runners.spark.level import SCHEMA, batches_of, rows_of, table_of
from headrace.runners.spark.shipment import Contents, Shipment

Orders = Sequence[tuple[SnapshotOrder, CopyPlan]]
_LONGEST = 60.0
"""Seconds that the end of a run waits for snapshots that nobody will name."""


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


@dataclass(frozen=True, slots=True)
class Making:
    """Snapshots that are being made; calling it gives them once all are made, None before."""

    thread: Thread
    made: list[Snapshot]

    def __call__(self) -> list[Snapshot] | None:
        """The snapshots, if they are ready."""
        return None if self.thread.is_alive() else self.made

    def wait(self) -> None:
        """Let the job end, so that nothing is written once the run is over."""
        self.thread.join(_LONGEST)


def begin_snapshots(session: SparkSession, shipment: Shipment, orders: Orders) -> Making:
    """Start making snapshots.

    A job that fails gives none and a warning: the state is safe without.
    """
    made: list[Snapshot] = []

    def run() -> None:
        rows: list[Row] = [(order.interval, order.level, Kind.CHAIN, pack((order, plan))) for order, plan in orders]
        given = session.createDataFrame(table_of([row] for row in rows))
        plan = given.mapInArrow(_MakeSnapshots(shipment), SCHEMA)
        try:
            rows = collected(plan, f"snapshots of epoch {orders[0][0].epoch}")
        except SparkJobError as error:
            warnings.warn(f"no snapshot was made, restarts will take longer: {error}", RuntimeWarning, stacklevel=1)
            return
        made.extend(cast(Snapshot, unpack(blob)) for *_, blob in rows)

    thread = Thread(target=run, name="headrace-snapshots", daemon=True)
    thread.start()
    return Making(thread, made)
