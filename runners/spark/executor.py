"""The executor of the Spark runner: runs the tasks of each epoch as Spark jobs."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import cast

from pyspark.sql import SparkSession

from headrace.lowlevel.checkpoint import FileChain, SnapshotOrder, SnapshotParts
from headrace.lowlevel.injectors.injector import Split
from headrace.lowlevel.intervals.interval_map import IntervalMap
from headrace.lowlevel.topology.topology import Topology
from headrace.runners.engine.background_calls import PendingCall, Release, Threads
from headrace.runners.engine.messages import EpochSpec, Message, MessageKind, unpack, work_messages
from headrace.runners.spark.cluster.cluster import cluster_of, tasks_to_come
from headrace.runners.spark.dataframe.injectors import close_streams
from headrace.runners.spark.jobs.epoch_job import EpochJob, fits_one
from headrace.runners.spark.jobs.resident_task import ResidentTask
from headrace.runners.spark.jobs.side_jobs import SnapshotJob, ask_to_leave
from headrace.runners.spark.jobs.stage_function import WORKED, was_too_much
from headrace.runners.spark.jobs.stage_policy import StageExtent
from headrace.runners.spark.session import driver_address
from headrace.runners.spark.worker.last_step import noted_step
from headrace.runners.spark.worker.printed_output import PrintedOutput
from headrace.runners.spark.worker.task_payload import TaskPayload, packed

_log = logging.getLogger(__name__)


class SparkExecutor:
    """The `Executor` of the Spark runner: one Spark job for an epoch, two if the first gave up.

    Args:
        session: The engine's session.
        topology: The topology as the program gave it.
        code: What `packed` made of the topology.
        bind: Returns a topology with injectors of the Spark runner in place of DataFrames.
        pack_payload: Makes the payload of tasks from what `packed` returned.
        one_task_epochs: Whether an epoch of little work may run in one task.
        task_idle_seconds: How long a task that runs such epochs stays without one; 0 if each has a job of its own.
        run: Name of the run on the hosts of its workers.
        printed: What takes the output of tasks; None if that goes to Spark's logs.
    """

    def __init__(
        self,
        session: SparkSession,
        topology: Topology,
        code: bytes,
        bind: Callable[[Topology], Topology],
        pack_payload: Callable[[bytes], TaskPayload],
        one_task_epochs: bool,
        task_idle_seconds: float,
        run: str,
        printed: PrintedOutput | None = None,
    ) -> None:
        self._run_name, self._printed = run, printed
        cluster = cluster_of(session)
        self.parallelism = max(cluster.parallelism(), tasks_to_come(cluster.setting))
        self._session = session
        self._bind, self._pack_payload = bind, pack_payload
        self._given = topology
        """The topology as the program gave it."""
        self.topology = bind(topology)
        """The topology in which injectors of the Spark runner have replaced the DataFrames."""
        self._payload = pack_payload(code)
        self._threads = Threads()
        self._jobs: dict[int, EpochJob] = {}
        self._one_task_epochs, self._task_idle_seconds = one_task_epochs, task_idle_seconds
        self._resident = self._new_resident()
        self._merged: tuple[Mapping[int, IntervalMap], Mapping[int, IntervalMap]] = ({}, {})
        """Intervals by level, and the same as one task owns them."""
        self._extent = self._new_extent()
        self._snapshots: SnapshotJob | None = None

    def splits(self) -> int:
        """Return into how many splits input should be cut.

        The number is 1 if the next epoch is likely to run in one task, as each part of a file is opened separately;
        else it is the number of tasks that run at once.
        """
        return 1 if self._extent.foresees_one_task() else self.parallelism

    def run(self, spec: EpochSpec, splits: Sequence[tuple[str, Split]], messages: Sequence[Message]) -> list[Message]:
        """Run an epoch as a Spark job. Raises `SparkJobError`.

        If the epoch is tried in one task and turns out to be too large for it, a second job runs it with shuffles.
        """
        if (results := self._run_in_one_task(spec, splits, messages)) is not None:
            return results
        self._resident.give_back()
        began = time.perf_counter()
        results = self._job(spec).run(spec.epoch, [*work_messages(spec, splits), *messages], self.parallelism)
        return self._noted(results, began, is_one=False)

    def _run_in_one_task(
        self, spec: EpochSpec, splits: Sequence[tuple[str, Split]], messages: Sequence[Message]
    ) -> list[Message] | None:
        """Run an epoch in one task if the expected amount of work suits that.

        Returns None if it does not, or if the task gave up because the epoch is too large.
        """
        reading = [split for _, split in splits]
        if not self._extent.choose_one_task(reading):
            return None
        # One task of the engine at each level, as each has costs of its own; it works out the watermarks itself.
        if spec.intervals is not self._merged[0]:
            merged = {level: intervals.of_one_owner() for level, intervals in spec.intervals.items()}
            self._merged = spec.intervals, merged
        spec = spec.alone(self._merged[1], self._extent.limit(reading))
        messages = [(0, *message[1:]) for message in messages if message[2] != MessageKind.CONTROL]
        inputs = [*work_messages(spec, splits), *messages]
        if not fits_one(inputs):
            return None
        began = time.perf_counter()
        results = self._resident.run(spec.epoch, inputs)
        if results is None:
            results = self._job(spec).run_in_one_task(spec.epoch, inputs)
        if was_too_much(results):
            self._extent.avoid_one_task()
            return None
        return self._noted(results, began, is_one=True)

    def _noted(self, messages: Sequence[Message], began: float, is_one: bool) -> list[Message]:
        """Return the messages except those of kind `WORKED`, whose times are passed to the stage policy."""
        if self._printed is not None:
            # Before what the driver prints of the epoch.
            self._printed.drain()
        busy = sum(cast(float, unpack(blob)) for _, _, kind, blob in messages if kind == WORKED)
        self._extent.took(time.perf_counter() - began, busy, is_one)
        return [message for message in messages if message[2] != WORKED]

    def _new_extent(self) -> StageExtent:
        return StageExtent(len(self.topology.levels()), self.parallelism, self._one_task_epochs)

    def _new_resident(self) -> ResidentTask:
        address = driver_address(self._session)
        if address is None and self._one_task_epochs and self._task_idle_seconds > 0:
            _log.info("Spark encrypts its connections, so no task stays for small epochs: each of them is a job")
        idle_seconds = self._task_idle_seconds if self._one_task_epochs else 0.0
        return ResidentTask(self._session, self._payload, address, idle_seconds)

    def _job(self, spec: EpochSpec) -> EpochJob:
        if (job := self._jobs.get(spec.tasks)) is None:
            job = self._jobs[spec.tasks] = EpochJob(
                self._session, self._payload, len(self.topology.levels()), spec.tasks
            )
        return job

    def running_step(self) -> str:
        """Return the steps that worker processes of this host run; nothing is known of those of other hosts."""
        return noted_step(self._run_name)

    def rearrange(self, before: Mapping[int, IntervalMap], after: Mapping[int, IntervalMap]) -> None:
        """Do nothing: tasks make the state stores of new intervals when they need them."""

    def committed(self, epoch: int, records: int) -> None:
        """Note the number of records; state stores apply the commit when the next task needs them."""
        self._extent.read(records)

    def abandoned(self, epoch: int) -> None:
        """Do nothing: no commit names the files that the tasks of the epoch wrote."""

    def snapshots(self, orders: Sequence[tuple[SnapshotOrder, FileChain]]) -> Callable[[], list[SnapshotParts] | None]:
        """Start a Spark job beside the epochs that makes the snapshots; returns what `SnapshotJob` returns."""
        self._snapshots = SnapshotJob(self._session, self._payload, orders)
        return self._snapshots

    def begin_release(self, release: Release) -> PendingCall:
        """Start a release in a thread of the driver."""
        return self._threads.begin(release)

    def prepare(self, topology: Topology) -> tuple[Topology, Callable[[], None]]:
        """Pack another topology; returns it with its injectors, and a function that makes the executor use it.

        An injector of a DataFrame that both topologies have goes on where it is. Raises `ShippingError`.
        """
        payload = self._pack_payload(packed(topology))
        kept = {
            stream: self.topology.injectors[stream]
            for stream, injector in topology.injectors.items()
            if injector is self._given.injectors.get(stream)
        }
        bound = self._bind(topology)
        ready = replace(bound, injectors=bound.injectors | kept)

        def switch() -> None:
            used = set(map(id, ready.injectors.values()))
            close_streams(injector for injector in self.topology.injectors.values() if id(injector) not in used)
            self._given, self.topology, self._payload = topology, ready, payload
            self._jobs.clear()
            self._resident.give_back()
            self._resident = self._new_resident()
            self._extent = self._new_extent()

        return ready, switch

    def close(self, at_once: bool = False) -> None:
        """End the snapshot job, and run a job that lets workers tear down, if a computation has a teardown.

        The job has as many tasks as Spark runs at once, so it reaches all idle workers. With `at_once` there is no
        teardown, and the snapshot job is cancelled.
        """
        self._resident.give_back(at_once)
        if self._snapshots is not None:
            self._snapshots.end(at_once)
        if not at_once and any(node.computation.has_teardown() for node in self.topology.nodes()):
            ask_to_leave(self._session, self._payload, self.parallelism)
