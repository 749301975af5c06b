"""Snapshots of state, made by a Spark job of their own while epochs go on."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from threading import Thread
from typing import cast

import pyarrow as pa
from pyspark.sql import SparkSession

from headrace.lowlevel.checkpoint import CopyPlan, Snapshot, SnapshotOrder, write_snapshot
from headrace.runners.engine.epoch import DRIVER, Row, pack, unpack
from headrace.runners.spark.job import SparkJobError, collected
from headrace.runners.spark.level import SCHEMA, batches_of, process, rows_of, table_of
from headrace.runners.spark.shipment import Shipment

Orders = Sequence[tuple[SnapshotOrder, CopyPlan]]


@dataclass(frozen=True, slots=True)
class _MakeSnapshots:
    """The function of the job's `mapInArrow`: a row is an order, a row of the result the snapshot made."""

    shipment: Shipment

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return batches_of(map(self._make, rows_of(batches)))

    def _make(self, row: Row) -> Row:
        contents, host = process(self.shipment)
        order, plan = cast(tuple[SnapshotOrder, CopyPlan], unpack(row[3]))
        try:
            names = contents.program.levels[order.level - 1]
            # A copy that is further holds what the plan's later deltas say; a reader applies them once more.
            copies = {name: host.copy_no_older(name, plan) for name in names}
            snapshot = write_snapshot(contents.store, order, copies)
        finally:
            host.finish()
        return (row[0], DRIVER, row[2], pack(snapshot))


def begin_snapshots(session: SparkSession, shipment: Shipment, orders: Orders) -> Callable[[], list[Snapshot] | None]:
    """Start making snapshots; the result gives them once all are made, None before.

    A job that fails gives none and a warning: the state is safe without.
    """
    made: list[Snapshot] = []

    def run() -> None:
        groups = [[(order.interval, order.level, 0, pack((order, plan)))] for order, plan in orders]
        plan = session.createDataFrame(table_of(groups)).mapInArrow(_MakeSnapshots(shipment), SCHEMA)
        try:
            rows = collected(plan, f"snapshots of epoch {orders[0][0].epoch}")
        except SparkJobError as error:
            warnings.warn(f"no snapshot was made, restarts will take longer: {error}", RuntimeWarning, stacklevel=1)
            return
        made.extend(cast(Snapshot, unpack(blob)) for *_, blob in rows)

    thread = Thread(target=run, name="headrace-snapshots", daemon=True)
    thread.start()
    return lambda: None if thread.is_alive() else made
