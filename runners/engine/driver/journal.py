"""What a driver remembers between epochs, and where it is written: the commit (paper §6.2, DESIGN: checkpoint)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from headrace.lowlevel.checkpoint import Change, Consent, CopyPlan, DeltaFile, Holder, Snapshot, SnapshotOrder
from headrace.lowlevel.explain import Standing
from headrace.lowlevel.intervals import IntervalMap
from headrace.lowlevel.metric import Cells
from headrace.lowlevel.time import MAX_TIMESTAMP
from headrace.lowlevel.topology import Topology
from headrace.lowlevel.watermark import Frontier, InjectorProgress
from headrace.runners.engine.epoch import SINK, Pending, Row


@dataclass(slots=True)
class State:
    """The outcome of all epochs so far, as one value. Persisted: every field."""

    epoch: int = 0
    """The last committed epoch; 0 before the first."""
    intervals: dict[int, IntervalMap] = field(default_factory=dict)
    """Level -> its key intervals."""
    clock: int = 0
    """Reading of the wall clock in that epoch, microseconds UTC; the next is not before it."""
    positions: dict[str, object] = field(default_factory=dict)
    """Injector stream -> where its next delivery starts."""
    done: set[str] = field(default_factory=set)
    """Injector streams whose input has ended."""
    injectors: dict[str, InjectorProgress] = field(default_factory=dict)
    watermarks: dict[str, int] = field(default_factory=dict)
    """Computation -> input low watermark."""
    journal: dict[str, bytes] = field(default_factory=dict)
    """Computation -> low watermarks of its intervals: `Authority.journal`."""
    holds: dict[str, dict[int, int]] = field(default_factory=dict)
    """Computation -> interval -> oldest hold."""
    holders: dict[str, tuple[int, bytes, str]] = field(default_factory=dict)
    """Computation -> its oldest hold: timestamp, encoded key, tag."""
    wall_timers: dict[str, dict[int, int]] = field(default_factory=dict)
    """Computation -> interval -> when its earliest wall-time timer is due."""
    pending: list[Pending] = field(default_factory=list)
    counters: dict[str, dict[str, int]] = field(default_factory=dict)
    metrics: Cells = field(default_factory=dict)
    """What user code counted."""
    receipts: dict[str, list[bytes]] = field(default_factory=dict)
    """Sink -> receipts of the last epoch, in the order of tasks."""

    def standing(self) -> Standing:
        """What `explain` needs of it."""
        pending: dict[str, int] = {}
        for item in self.arriving():
            pending[item.consumer] = min(item.oldest, pending.get(item.consumer, item.oldest))
        holders = {name: Holder(*holder) for name, holder in self.holders.items()}
        return Standing(self.watermarks, self.injectors, self.positions, holders, pending, self.holds, self.intervals)

    def arriving(self) -> list[Pending]:
        """Productions of the last epoch that arrive with the next one; stragglers go to sinks, beside the epochs."""
        return [item for item in self.pending if item.level != SINK]

    def frontier(self) -> Frontier:
        """Unfinished work at the start of the next epoch."""
        pending: dict[str, int] = {}
        for item in self.arriving():
            pending[item.consumer] = min(pending.get(item.consumer, MAX_TIMESTAMP), item.oldest)
        holds = {name: min(by_interval.values()) for name, by_interval in self.holds.items() if by_interval}
        return Frontier(dict(self.injectors), holds, pending)

    def is_over(self, topology: Topology) -> bool:
        """Whether all input has ended and nothing is left to do; as `Manifest.is_over`."""
        if len(self.done) < len(topology.injectors) or self.pending:
            return False
        # A timer that holds has more to say, be it to sinks alone.
        if any(self.holds.get(name) and self.wall_timers.get(name) for name in topology.keyed):
            return False
        return all(self.watermarks.get(name) == MAX_TIMESTAMP for name in topology.keyed)

    @classmethod
    def beginning(cls, topology: Topology) -> State:
        """That of a run that starts from nothing."""
        positions = {stream: injector.start() for stream, injector in topology.injectors.items()}
        return cls(positions=positions, injectors=dict.fromkeys(positions, InjectorProgress()))


class Journal(Protocol):
    """The place of the commits. A commit that is not there never happened."""

    generation: int
    """Of the driver that writes it."""

    @property
    def change(self) -> Change | None:
        """From the topology of the last commit to that of this driver, until it is committed; None if it is that."""

    def recover(self) -> State | None:
        """The newest committed state; None at the very beginning."""

    def commit(
        self, state: State, deltas: Mapping[tuple[int, int], DeltaFile], snapshots: Iterable[Snapshot] = ()
    ) -> None:
        """Make an epoch happen, with the delta file of each (level, interval) that changed.

        Snapshots given count from now on. Raises `FencedError` if another driver has taken over.
        """

    def change_to(self, state: State, topology: Topology, consent: Consent) -> Change:
        """What it would mean to go on with another topology. Raises `TopologyChangeError` if it cannot be."""

    def succeed(self, state: State, change: Change, topology: Topology, tasks: int) -> State:
        """Commit a change of topology as an epoch of its own, which follows `state`; returns what is true then.

        `tasks` is the number of tasks of a level that is new.
        """

    def chains(self, intervals: Mapping[int, IntervalMap]) -> list[Row]:
        """Rows that tell tasks how to bring copies of these intervals, which may be new, to the last commit."""

    def snapshots_due(self) -> list[tuple[SnapshotOrder, CopyPlan]]:
        """Snapshots that are worth their cost now, with what makes up the state that they are to hold."""

    def tidy(self, epoch: int) -> None:
        """Delete what no commit needs any more, if it is time to, when an epoch has been delivered. Never raises."""

    def ensure_driving(self) -> None:
        """Raise `FencedError` if another driver has taken over: asked before sinks finish, and when anything failed."""


class NoJournal:
    """Remembers nothing: for runs in memory, which end with their process."""

    generation = 1

    @property
    def change(self) -> Change | None:
        """There was none before."""
        return None

    def recover(self) -> State | None:
        """Nothing to recover."""
        return None

    def commit(
        self, state: State, deltas: Mapping[tuple[int, int], DeltaFile], snapshots: Iterable[Snapshot] = ()
    ) -> None:
        """The driver's own memory is enough."""

    def change_to(self, state: State, topology: Topology, consent: Consent) -> Change:
        """There is nothing that another topology could go on with."""
        raise RuntimeError("a run without a checkpoint keeps its topology; give it one")

    def succeed(self, state: State, change: Change, topology: Topology, tasks: int) -> State:
        """See `change_to`."""
        raise RuntimeError("a run without a checkpoint keeps its topology; give it one")

    def chains(self, intervals: Mapping[int, IntervalMap]) -> list[Row]:
        """Copies are in memory and always up to date."""
        return []

    def snapshots_due(self) -> list[tuple[SnapshotOrder, CopyPlan]]:
        """There is nothing that could be replayed."""
        return []

    def tidy(self, epoch: int) -> None:
        """There is nothing that could be deleted."""

    def ensure_driving(self) -> None:
        """Nobody else can have taken over."""
