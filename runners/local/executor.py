"""The executor of the local runner: runs the tasks of an epoch one by one in this process, with state in memory.

A scheduler, by which a test chooses the order of tasks and messages, the size of bundles, and crashes, can be given.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from itertools import count

from headrace.lowlevel.checkpoint import (
    DeltaFile,
    DeltaHeader,
    FileChain,
    SnapshotOrder,
    SnapshotParts,
    write_snapshot,
)
from headrace.lowlevel.checkpoint.files.delta_file import MOST_BYTES, delta_object
from headrace.lowlevel.checkpoint.files.file_chain import within
from headrace.lowlevel.injectors.injector import Split
from headrace.lowlevel.intervals.interval_map import IntervalMap
from headrace.lowlevel.metric import Where
from headrace.lowlevel.processing.state_cache import StateCache
from headrace.lowlevel.state.memory_store import MemoryStateStore
from headrace.lowlevel.state.state_store import Delta, StateStore
from headrace.lowlevel.storage.object_store import ObjectStorage
from headrace.lowlevel.topology.topology import Topology
from headrace.runners.engine.background_calls import PendingCall, PlainCall, Release
from headrace.runners.engine.clock import Clock, ManualClock
from headrace.runners.engine.messages import DRIVER, EpochSpec, Message, Sender, work_messages
from headrace.runners.engine.options import Hooks
from headrace.runners.engine.task.prepared_topology import PreparedTopology
from headrace.runners.engine.task.task import read_splits, run_level


class Crash(BaseException):
    """A crash that a scheduler has chosen: the driver stops at once, as if its process had been killed.

    >>> class DiesAtCommit(Scheduler):
    ...     def step(self, name, epoch):
    ...         if name == "commit":
    ...             raise Crash
    >>> from headrace.lowlevel import BoundedInjector, Topology
    >>> from headrace.runners.local import LocalRunner
    >>> topology = Topology()
    >>> topology.injector("numbers", BoundedInjector([(1, 10)]))
    >>> LocalRunner(scheduler=DiesAtCommit()).run_topology(topology)
    Traceback (most recent call last):
      ...
    headrace.runners.local.executor.Crash
    """


class Scheduler(Hooks):
    """Keeps tasks and messages in order, allows the largest bundles, and never crashes; subclasses choose otherwise.

    >>> class OneByOne(Scheduler):
    ...     def bundle_size(self, epoch, limit):
    ...         return 1
    >>> from headrace.lowlevel import BoundedInjector, Topology
    >>> from headrace.runners.local import LocalRunner
    >>> topology = Topology()
    >>> topology.injector("numbers", BoundedInjector([(1, 10), (2, 20), (3, 30)]))
    >>> LocalRunner(scheduler=OneByOne()).run_topology(topology).epochs
    3
    """

    def task_order(self, epoch: int, level: int, tasks: Sequence[int]) -> Sequence[int]:
        """Return the order in which the tasks of a level run."""
        return tasks

    def arrival_order(self, epoch: int, level: int, messages: list[Message]) -> list[Message]:
        """Return the order in which messages reach a task."""
        return messages

    def step(self, name: str, epoch: int) -> None:
        """Called before and after every step of the protocol; an override may raise `Crash` to stop the run there.

        The steps are `plan`, `run level K task I`, `saved level K task I`, `released` (by a task, or stragglers by the
        driver), `commit`, `committed`, `deliver` and `delivered`.
        """


class LocalExecutor:
    """The `Executor` of the local runner, which is deterministic; it is also the `Host` of its tasks."""

    local_exchange = None
    """Blocks travel as bytes, so that tests cover their encoding."""

    def __init__(
        self,
        topology: Topology,
        parallelism: int,
        scheduler: Scheduler,
        storage: ObjectStorage | None,
        generation: int,
        clock: Clock | None = None,
        cache_bytes: int = 0,
    ) -> None:
        self.parallelism = parallelism
        self.states = StateCache(cache_bytes)
        self._program = PreparedTopology(topology)
        self._scheduler = scheduler
        self._storage = storage
        self._generation = generation
        self._clock = clock or ManualClock()
        self._stores: dict[tuple[str, int], MemoryStateStore] = {}
        self._uncommitted: list[tuple[int, dict[str, Delta]]] = []
        self._numbers = count(1)
        self._epoch = 0
        self._where: Where = ""
        self._thread = threading.get_ident()

    # Executor

    def splits(self) -> int:
        """Return the number of tasks."""
        return self.parallelism

    def run(self, spec: EpochSpec, splits: Sequence[tuple[str, Split]], messages: Sequence[Message]) -> list[Message]:
        """Run an epoch level by level, and the tasks of a level one by one in the scheduler's order."""
        self._epoch, self._thread = spec.epoch, threading.get_ident()
        self._uncommitted.clear()
        levels = len(self._program.levels)
        in_flight = list(messages)
        work = work_messages(spec, splits)
        for index in self._scheduler.task_order(spec.epoch, 0, range(len(work))):
            self._scheduler.step(f"run level 0 task {index}", spec.epoch)
            in_flight += read_splits(self._program, self, index, [work[index]])
        for level in range(1, levels + 1):
            in_flight = self._run_level(spec, level, in_flight)
        return [message for message in in_flight if message[1] == DRIVER]

    def _run_level(self, spec: EpochSpec, level: int, messages: list[Message]) -> list[Message]:
        """Run the tasks of a level on its messages; returns their output and the messages for deeper levels."""
        by_task: dict[int, list[Message]] = {task: [] for task in range(spec.tasks)}
        output: list[Message] = []
        for message in messages:
            target, target_level, *_ = message
            (by_task[target] if target_level == level else output).append(message)
        for task in self._scheduler.task_order(spec.epoch, level, range(spec.tasks)):
            self._scheduler.step(f"run level {level} task {task}", spec.epoch)
            arrivals = self._scheduler.arrival_order(spec.epoch, level, by_task[task])
            output += run_level(self._program, self, level, task, arrivals)
        return output

    def running_step(self) -> str:
        """Return the step whose code runs in the thread of this run now."""
        where = self._where
        return where if isinstance(where, str) else where(sys._current_frames().get(self._thread))

    def rearrange(self, before: Mapping[int, IntervalMap], after: Mapping[int, IntervalMap]) -> None:
        """Make the state stores of new intervals from the stores that had their keys, as with `FileChain.origins`.

        After a restart, `state_store` makes them from the checkpoint instead.
        """
        for level, intervals in before.items():
            for name in self._program.levels[level - 1]:
                self._divide(name, intervals, after[level])

    def _divide(self, name: str, before: IntervalMap, after: IntervalMap) -> None:
        """Move the state of a computation from intervals that are removed to those that take their keys."""
        if {interval.number for interval in before} == {interval.number for interval in after}:
            return
        kept = {interval.number for interval in before} & {interval.number for interval in after}
        removed = [old for old in before if old.number not in kept]
        old_stores = {
            old: store for old in removed if (store := self._stores.pop((name, old.number), None)) is not None
        }
        for interval in (interval for interval in after if old_stores and interval.number not in kept):
            store = self._stores[name, interval.number] = MemoryStateStore()
            for old in filter(interval.overlaps, old_stores):
                for delta in old_stores[old].dump():
                    store.apply(within(delta, (old.start, old.stop), (interval.start, interval.stop)))

    def committed(self, epoch: int, records: int) -> None:
        """Apply the deltas of the tasks to the state stores."""
        for interval, deltas in self._uncommitted:
            for name, delta in deltas.items():
                self._stores[name, interval].apply(delta)
        self._uncommitted.clear()

    def abandoned(self, epoch: int) -> None:
        """Drop the deltas of the tasks."""
        self._uncommitted.clear()

    def snapshots(self, orders: Sequence[tuple[SnapshotOrder, FileChain]]) -> Callable[[], list[SnapshotParts] | None]:
        """Make the snapshots at once from the stores in memory, which are at the last commit."""
        assert self._storage is not None
        snapshots = []
        for order, _ in orders:
            names = self._program.levels[order.level - 1]
            stores = {name: self._stores[name, order.interval] for name in names}
            snapshots.append(write_snapshot(self._storage, order, stores))
        return lambda: snapshots

    def begin_release(self, release: Release) -> PendingCall:
        """Release at once in this thread, both for tasks and for the driver."""
        call = PlainCall(release, self._clock)
        self._scheduler.step("released", self._epoch)
        return call

    def prepare(self, topology: Topology) -> tuple[Topology, Callable[[], None]]:
        """Prepare to run another topology. Instances of computations that are in both topologies are kept.

        After the change, state stores are read from the checkpoint again when they are needed.
        """
        program = PreparedTopology(topology)

        def switch() -> None:
            self._program.give_way(program)
            self._program = program
            self._stores.clear()
            # Classes of decoded values may have changed.
            self.states = StateCache(self.states.limit)

        return topology, switch

    def close(self, at_once: bool = False) -> None:
        """Tear user code down in this process."""
        self._program.teardown()

    # Host

    def step_begins(self, where: Where) -> None:
        """Note the step whose code runs from now on."""
        self._where = where

    def token(self) -> str:
        """Return the next token. Tokens are consecutive, so that runs can be repeated, and unique among drivers."""
        return f"g{self._generation}n{next(self._numbers)}"

    def state_store(
        self, computation: str, level: int, interval: int, epoch: int, chain: FileChain | None
    ) -> StateStore:
        """Return the state store in memory; if there is none, as after a restart, it is read from the checkpoint."""
        key = (computation, interval)
        if key not in self._stores:
            loaded = chain.load(self._storage, computation) if chain is not None and self._storage is not None else {}
            self._stores[key] = loaded.get(computation, MemoryStateStore())
        return self._stores[key]

    def seconds(self) -> float:
        """Return 0, because a run must not depend on the speed of the machine."""
        return 0.0

    def save(self, epoch: int, sender: Sender, interval: int, deltas: dict[str, Delta]) -> DeltaFile | None:
        """Keep the deltas for the commit; if there is a checkpoint, write them, or let the commit carry them.

        The commit carries small ones of an executor with one task.
        """
        self._uncommitted.append((interval, deltas))
        if self._storage is None:
            return None
        header = DeltaHeader(epoch, sender.level, interval, sender.token)
        path, data, file = delta_object(header, deltas)
        if self.parallelism == 1 and len(data) <= MOST_BYTES:
            file = file._replace(contents=data)
        else:
            self._storage.put(path, data)
        self._scheduler.step(f"saved level {sender.level} task {sender.index}", epoch)
        return file

    def failed(self, error: Exception) -> None:
        """Do nothing: state in memory cannot be damaged."""

    def stores(self) -> dict[tuple[str, int], MemoryStateStore]:
        """Return the committed state by computation and interval, for tests that count the remaining state."""
        return self._stores
