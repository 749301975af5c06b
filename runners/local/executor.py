"""Runs the tasks of an epoch one after another in this process, on copies in memory."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from headrace.lowlevel.injector import Split
from headrace.lowlevel.state import Copy, Delta, MemoryCopy
from headrace.lowlevel.topology import Topology
from headrace.runners.engine.epoch import DRIVER, EpochSpec, Row, Sender, work_rows
from headrace.runners.engine.files import DeltaFiles
from headrace.runners.engine.task import Program, read_splits, run_level
from headrace.runners.local.scheduler import Scheduler


class LocalExecutor:
    """The executor of the local runner: deterministic, and at the same time the `Host` of its tasks."""

    def __init__(self, topology: Topology, parallelism: int, scheduler: Scheduler, files: DeltaFiles | None) -> None:
        self.parallelism = parallelism
        self._program = Program(topology)
        self._scheduler = scheduler
        self._files = files
        self._copies: dict[tuple[str, int], MemoryCopy] = {}
        self._uncommitted: list[tuple[int, dict[str, Delta]]] = []
        self._numbers = count(1)
        self._epoch = 0

    # Executor

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
        here: dict[int, list[Row]] = {interval: [] for interval in range(spec.intervals)}
        out = []
        for row in rows:
            if row[1] == level:
                here[row[0]].append(row)
            else:
                out.append(row)
        for interval in self._scheduler.task_order(spec.epoch, level, range(spec.intervals)):
            self._scheduler.step(f"run level {level} task {interval}", spec.epoch)
            arrived = self._scheduler.arrival_order(spec.epoch, level, here[interval])
            out += run_level(self._program, self, level, interval, arrived)
        return out

    def committed(self, epoch: int) -> None:
        """What the tasks saved becomes the committed state."""
        for interval, deltas in self._uncommitted:
            for name, delta in deltas.items():
                self._copies[name, interval].apply(delta)
        self._uncommitted.clear()

    def abandoned(self, epoch: int) -> None:
        """Forget what the tasks saved."""
        self._uncommitted.clear()

    # Host

    def token(self) -> str:
        """Tokens in order: a run repeats exactly."""
        return f"{next(self._numbers)}"

    def copy(self, computation: str, level: int, interval: int, epoch: int, chain: bytes | None) -> Copy:
        """The copy in memory; after a restart it is first read from the checkpoint."""
        place = (computation, interval)
        if place not in self._copies:
            self._copies[place] = MemoryCopy()
            if self._files is not None and chain is not None:
                for delta in self._files.read_chain(chain, computation):
                    self._copies[place].apply(delta)
        return self._copies[place]

    def save(self, epoch: int, sender: Sender, deltas: dict[str, Delta]) -> tuple[str, int]:
        """Keep the deltas for the commit, and write them if there is a checkpoint."""
        self._uncommitted.append((sender.index, deltas))
        if self._files is None:
            return "", 0
        written = self._files.write(epoch, sender, deltas)
        self._scheduler.step(f"saved level {sender.level} task {sender.index}", epoch)
        return written

    def copies(self) -> dict[tuple[str, int], MemoryCopy]:
        """Committed state by computation and interval: for tests that count what is left."""
        return self._copies
