"""What carries the rows of an epoch from task to task: the part of a run that differs from runner to runner."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from headrace.lowlevel.checkpoint import FileChain, SnapshotOrder, SnapshotParts
from headrace.lowlevel.injectors.injector import Split
from headrace.lowlevel.intervals.interval_map import IntervalMap
from headrace.lowlevel.topology.topology import Topology
from headrace.runners.engine.background_calls import PendingCall, Release
from headrace.runners.engine.messages import EpochSpec, Message


class Executor(Protocol):
    """Runs the tasks of an epoch, level by level. The engine is the same for all runners; the executor differs."""

    parallelism: int
    """Number of tasks that run at once, and the default number of key intervals."""

    def splits(self) -> int:
        """Return how many splits to ask an injector for: the number of tasks likely to read the next epoch."""

    def run(self, spec: EpochSpec, splits: Sequence[tuple[str, Split]], messages: Sequence[Message]) -> list[Message]:
        """Run one epoch: read the splits, deliver the messages to tasks, and return the messages to the driver.

        A split comes with the stream of its injector. No effect of the epoch may be visible outside until the driver
        commits the epoch.
        """

    def running_step(self) -> str:
        """Return the step whose code runs in a task now, as far as this process can see; else an empty text.

        Threads of reporters call this while the driver waits in `run`.
        """

    def rearrange(self, before: Mapping[int, IntervalMap], after: Mapping[int, IntervalMap]) -> None:
        """Change the intervals of tasks from the next epoch on; called when all earlier epochs are committed.

        Both arguments map a level to the intervals of its tasks.
        """

    def committed(self, epoch: int, records: int) -> None:
        """Note that an epoch, which has read `records` records, is committed: state stores may apply its changes."""

    def abandoned(self, epoch: int) -> None:
        """Note that an epoch will not be committed: its changes to state are dropped."""

    def snapshots(self, orders: Sequence[tuple[SnapshotOrder, FileChain]]) -> Callable[[], list[SnapshotParts] | None]:
        """Start to make snapshots beside the epochs. The returned function returns them, or None until all are ready.

        Both this method and the returned function may raise if the snapshots cannot be made.
        """

    def begin_release(self, release: Release) -> PendingCall:
        """Start to release stragglers on the driver, beside the epochs."""

    def prepare(self, topology: Topology) -> tuple[Topology, Callable[[], None]]:
        """Prepare to run another topology. Nothing changes yet; a topology that cannot run is refused with an error.

        Returns the topology with the runner's own injectors in place, and a function to call once the change is
        committed.
        """

    def close(self, at_once: bool = False) -> None:
        """End the executor, even after a failed run: user code is torn down in the processes that can be reached.

        With `at_once`, long work that no later run depends on is left out, as the user waits for the end.
        """
