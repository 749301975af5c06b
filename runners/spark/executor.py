"""Runs the tasks of an epoch on Spark."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import cast

from pyspark.sql import SparkSession

from headrace.lowlevel.checkpoint import CopyPlan, Snapshot, SnapshotOrder
from headrace.lowlevel.injector import Split
from headrace.lowlevel.intervals import IntervalMap
from headrace.lowlevel.repeatable import obstacle_to_reading_twice
from headrace.lowlevel.topology import Topology
from headrace.runners.engine.beside import Call, Release, Threads
from headrace.runners.engine.epoch import EpochSpec, Row, unpack, work_rows
from headrace.runners.spark.extent import Extent
from headrace.runners.spark.job import EpochJob, fits_one
from headrace.runners.spark.leaving import ask_to_leave
from headrace.runners.spark.level import WORKED
from headrace.runners.spark.onestage import limited, was_too_much, was_unlike
from headrace.runners.spark.shipment import Shipment, packed
from headrace.runners.spark.snapshots import Making
from headrace.runners.spark.streams import close_streams

_log = logging.getLogger(__name__)


class SparkExecutor:
    """The `Executor` of the Spark runner."""

    def __init__(
        self,
        session: SparkSession,
        topology: Topology,
        code: bytes,
        bind: Callable[[Topology], Topology],
        ship: Callable[[bytes], Shipment],
        one_task_epochs: bool,
    ) -> None:
        self.parallelism = session.sparkContext.defaultParallelism
        self._session = session
        self._bind, self._ship = bind, ship
        self._given = topology
        self.topology = bind(topology)
        """With this engine's readers in their places."""
        self._shipment = ship(code)
        self._threads = Threads()
        self._jobs: dict[int, EpochJob] = {}
        self._one_task_epochs = one_task_epochs
        self._extent = self._new_extent()
        self._snapshots: Making | None = None

    def splits(self) -> int:
        """One where each task is likely to read them all: of a file that is cut, each part is opened by itself."""
        return 1 if self._extent.foresees_one_reader() else self.parallelism

    def run(self, spec: EpochSpec, splits: Sequence[tuple[str, Split]], rows: Sequence[Row]) -> list[Row]:
        """One Spark job, or a second one if the epoch turns out not to be for one stage; raises `SparkJobError`."""
        if (found := self._run_in_one_stage(spec, splits, rows)) is not None:
            return found
        self._extent.is_spread()
        began = time.perf_counter()
        found = self._job(spec).run(spec.epoch, [*work_rows(spec, splits), *rows], self.parallelism)
        return self._noted(found, began, is_one=False)

    def _run_in_one_stage(
        self, spec: EpochSpec, splits: Sequence[tuple[str, Split]], rows: Sequence[Row]
    ) -> list[Row] | None:
        """The epoch in one stage, if it seems small and was."""
        reading = [split for _, split in splits]
        is_one = self._extent.is_one(reading)
        if not is_one and not self._extent.is_alike():
            return None
        given = [*work_rows(spec, limited(splits, self._extent.limit(reading))), *rows]
        if not fits_one(given):
            return None
        began = time.perf_counter()
        found = self._job(spec).run_in_one_stage(spec.epoch, given, 1 if is_one else min(spec.tasks, self.parallelism))
        if was_too_much(found):
            self._extent.was_too_much()
            return None
        if was_unlike(found):
            _log.info("epoch %d: what it reads may differ from reader to reader, so it is read once", spec.epoch)
            self._extent.was_unlike()
            return None
        return self._noted(found, began, is_one)

    def _noted(self, rows: Sequence[Row], began: float, is_one: bool) -> list[Row]:
        """Without what tasks say of themselves, which is noted."""
        busy = sum(cast(tuple[float, bytes], unpack(blob))[0] for _, _, kind, blob in rows if kind == WORKED)
        self._extent.took(time.perf_counter() - began, busy, is_one)
        return [row for row in rows if row[2] != WORKED]

    def _new_extent(self) -> Extent:
        alike = obstacle_to_reading_twice(self.topology) is None
        return Extent(len(self.topology.levels()), self.parallelism, self._one_task_epochs, alike)

    def _job(self, spec: EpochSpec) -> EpochJob:
        if (job := self._jobs.get(spec.tasks)) is None:
            job = self._jobs[spec.tasks] = EpochJob(
                self._session, self._shipment, len(self.topology.levels()), spec.tasks
            )
        return job

    def rearrange(self, before: Mapping[int, IntervalMap], after: Mapping[int, IntervalMap]) -> None:
        """Tasks make copies of new intervals when they need them."""

    def committed(self, epoch: int, records: int) -> None:
        """Copies of the state advance when the next task needs them."""
        self._extent.read(records)

    def abandoned(self, epoch: int) -> None:
        """What the tasks wrote is named by no commit."""

    def snapshots(self, orders: Sequence[tuple[SnapshotOrder, CopyPlan]]) -> Callable[[], list[Snapshot] | None]:
        """A job beside the epochs."""
        self._snapshots = Making(self._session, self._shipment, orders)
        return self._snapshots

    def beside(self, release: Release) -> Call:
        """In a thread of the driver."""
        return self._threads.begin(release)

    def prepare(self, topology: Topology) -> tuple[Topology, Callable[[], None]]:
        """Pack it; readers of DataFrames that are given again go on. Raises `ShippingError`."""
        shipment = self._ship(packed(topology))
        own = self._given.injectors
        same = {
            stream: self.topology.injectors[stream]
            for stream, it in topology.injectors.items()
            if it is own.get(stream)
        }
        anew = self._bind(topology)
        ready = replace(anew, injectors=anew.injectors | same)

        def switch() -> None:
            stays = list(map(id, ready.injectors.values()))
            close_streams(one for one in self.topology.injectors.values() if id(one) not in stays)
            self._given, self.topology, self._shipment = topology, ready, shipment
            self._jobs.clear()
            self._extent = self._new_extent()

        return ready, switch

    def close(self, at_once: bool = False) -> None:
        """Let what runs beside the epochs end, and ask workers to tear down, if there is anything.

        As many tasks as run at once reach all workers that wait for work.
        """
        if self._snapshots is not None:
            self._snapshots.end(at_once)
        if not at_once and any(place.computation.has_teardown() for place in self.topology.places()):
            ask_to_leave(self._session, self._shipment, self.parallelism)
