"""Runs the tasks of an epoch one after another in this process, on copies in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import count

from headrace.lowlevel.checkpoint import (
    CopyPlan,
    DeltaFile,
    DeltaHeader,
    Snapshot,
    SnapshotOrder,
    write_deltas,
    write_snapshot,
)
from headrace.lowlevel.checkpoint.copy_plan import within
from headrace.lowlevel.injector import Split
from headrace.lowlevel.intervals import IntervalMap
from headrace.lowlevel.state import Copy, Delta, MemoryCopy
from headrace.lowlevel.store import Store
from headrace.lowlevel.topology import Topology
from headrace.runners.engine.beside import Call, PlainCall, Release
from headrace.runners.engine.clock import Clock, ManualClock
from headrace.runners.engine.epoch import DRIVER, EpochSpec, Row, Sender, work_rows
from headrace.runners.engine.program import Program
from headrace.runners.engine.task import read_splits, run_level
from headrace.runners.local.scheduler import Scheduler


class LocalExecutor:
    """The executor of the local runner: deterministic, and at the same time the `Host` of its tasks."""

    states = None
    """Nothing is kept decoded."""
    handed = None
    """Tests shall see what travels as bytes."""
    step_begins = None

    def __init__(
        self,
        topology: Topology,
        parallelism: int,
        scheduler: Scheduler,
        store: Store | None,
        generation: int,
        clock: Clock | None = None,
    ) -> None:
        self.parallelism = parallelism
        self._program = Program(topology)
        self._scheduler = scheduler
        self._store = store
        self._generation = generation
        self._clock = clock or ManualClock()
        self._copies: dict[tuple[str, int], MemoryCopy] = {}
        self._uncommitted: list[tuple[int, dict[str, Delta]]] = []
        self._numbers = count(1)
        self._epoch = 0

    # Executor

    def splits(self) -> int:
        """One for each task."""
        return self.parallelism

    def run(self, spec: EpochSpec, splits: Sequence[tuple[str, Split]], rows: Sequence[Row]) -> list[Row]:
        """Level by level, task by task."""
        self._epoch = spec.epoch
        self._uncommitted.clear()
        levels = len(self._program.levels)
        travelling = list(rows)
        work = work_rows(spec, splits)
        for index in self._scheduler.task_order(spec.epoch, 0, range(len(work))):
            self._scheduler.step(f"run level 0 task {index}", spec.epoch)
            travelling += read_splits(self._program, self, index, [work[index]])
        for level in range(1, levels + 1):
            travelling = self._run_level(spec, level, travelling)
        return [row for row in travelling if row[1] == DRIVER]

    def _run_level(self, spec: EpochSpec, level: int, rows: list[Row]) -> list[Row]:
        here: dict[int, list[Row]] = {task: [] for task in range(spec.tasks)}
        out = []
        for row in rows:
            if row[1] == level:
                here[row[0]].append(row)
            else:
                out.append(row)
        for task in self._scheduler.task_order(spec.epoch, level, range(spec.tasks)):
            self._scheduler.step(f"run level {level} task {task}", spec.epoch)
            arrived = self._scheduler.arrival_order(spec.epoch, level, here[task])
            out += run_level(self._program, self, level, task, arrived)
        return out

    def rearrange(self, before: Mapping[int, IntervalMap], after: Mapping[int, IntervalMap]) -> None:
        """Copies of new intervals are made of those that had their keys, as `CopyPlan.origins` has it.

        After a restart they are made of the checkpoint.
        """
        for level, intervals in before.items():
            for name in self._program.levels[level - 1]:
                self._divide(name, intervals, after[level])

    def _divide(self, name: str, before: IntervalMap, after: IntervalMap) -> None:
        if {one.number for one in before} == {one.number for one in after}:
            return
        stay = {one.number for one in before} & {one.number for one in after}
        gone = [old for old in before if old.number not in stay]
        had = {old: copy for old in gone if (copy := self._copies.pop((name, old.number), None)) is not None}
        for interval in (one for one in after if had and one.number not in stay):
            copy = self._copies[name, interval.number] = MemoryCopy()
            for old in filter(interval.overlaps, had):
                for delta in had[old].dump():
                    copy.apply(within(delta, (old.start, old.stop), (interval.start, interval.stop)))

    def committed(self, epoch: int, records: int) -> None:
        """What the tasks saved becomes the committed state."""
        for interval, deltas in self._uncommitted:
            for name, delta in deltas.items():
                self._copies[name, interval].apply(delta)
        self._uncommitted.clear()

    def abandoned(self, epoch: int) -> None:
        """Forget what the tasks saved."""
        self._uncommitted.clear()

    def snapshots(self, orders: Sequence[tuple[SnapshotOrder, CopyPlan]]) -> Callable[[], list[Snapshot] | None]:
        """Made at once from the copies in memory, which are at the last commit."""
        assert self._store is not None
        made = []
        for order, _ in orders:
            names = self._program.levels[order.level - 1]
            copies = {name: self._copies[name, order.interval] for name in names}
            made.append(write_snapshot(self._store, order, copies))
        return lambda: made

    def beside(self, release: Release) -> Call:
        """At once, in this thread: of tasks and of the driver."""
        call = PlainCall(release, self._clock)
        self._scheduler.step("released", self._epoch)
        return call

    def prepare(self, topology: Topology) -> tuple[Topology, Callable[[], None]]:
        """User code that stays lives on; copies are read from the checkpoint again when they are needed."""
        program = Program(topology)

        def switch() -> None:
            self._program.give_way(program)
            self._program = program
            self._copies.clear()

        return topology, switch

    def close(self, at_once: bool = False) -> None:
        """Tear user code down in this process."""
        self._program.teardown()

    # Host

    def token(self) -> str:
        """Tokens in order, so that a run repeats exactly; apart from those of drivers before it."""
        return f"g{self._generation}n{next(self._numbers)}"

    def copy(self, computation: str, level: int, interval: int, epoch: int, plan: CopyPlan | None) -> Copy:
        """The copy in memory; after a restart it is first read from the checkpoint."""
        place = (computation, interval)
        if place not in self._copies:
            loaded = plan.load(self._store, computation) if plan is not None and self._store is not None else {}
            self._copies[place] = loaded.get(computation, MemoryCopy())
        return self._copies[place]

    def seconds(self) -> float:
        """None: what a run does must not depend on how fast the machine is."""
        return 0.0

    def save(self, epoch: int, sender: Sender, interval: int, deltas: dict[str, Delta]) -> DeltaFile | None:
        """Keep the deltas for the commit, and write them if there is a checkpoint."""
        self._uncommitted.append((interval, deltas))
        if self._store is None:
            return None
        header = DeltaHeader(epoch, sender.level, interval, sender.token)
        written = write_deltas(self._store, header, deltas)
        self._scheduler.step(f"saved level {sender.level} task {sender.index}", epoch)
        return written

    def copies(self) -> dict[tuple[str, int], MemoryCopy]:
        """Committed state by computation and interval: for tests that count what is left."""
        return self._copies
