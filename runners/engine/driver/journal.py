"""The state of a run between epochs, and the journal of its commits (paper §6.2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from headrace.lowlevel.checkpoint import (
    Consent,
    DeltaFile,
    FileChain,
    PendingProduction,
    SnapshotOrder,
    SnapshotParts,
    TopologyDifference,
)
from headrace.lowlevel.checkpoint.manifest.manifest import oldest_by_consumer
from headrace.lowlevel.injectors.source_objects import SourceObjects
from headrace.lowlevel.intervals.interval_map import IntervalMap
from headrace.lowlevel.metric import MetricValues
from headrace.lowlevel.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from headrace.lowlevel.topology.topology import Topology
from headrace.lowlevel.watermarks.authority import Holder
from headrace.lowlevel.watermarks.explain import WatermarkState
from headrace.lowlevel.watermarks.propagation import Frontier, InjectorProgress
from headrace.runners.engine.messages import SINK, Message


@dataclass(slots=True)
class JournalState:
    """The outcome of all epochs so far, as one value. Persisted: every field.

    A `Manifest` is the form in which a checkpoint stores this value: positions and metrics as bytes, with the files of
    the state and the fingerprint of the topology (`checkpoint_journal` converts). A run in memory cannot use
    manifests, as its positions may be any objects.
    """

    epoch: int = 0
    """The last committed epoch; 0 before the first."""
    intervals: dict[int, IntervalMap] = field(default_factory=dict)
    """Level -> its key intervals."""
    clock: int = 0
    """Wall clock of the last committed epoch, microseconds UTC; the clock of the next epoch is not less."""
    positions: dict[str, object] = field(default_factory=dict)
    """Injector stream -> where its next delivery starts."""
    done: set[str] = field(default_factory=set)
    """Injector streams whose input has ended."""
    injectors: dict[str, InjectorProgress] = field(default_factory=dict)
    skew_limit: float | None = None
    """Seconds that an injector may be ahead of the one that is furthest behind; None for no limit. It is stored for
    `explain`; a run goes by its options."""
    watermarks: dict[str, int] = field(default_factory=dict)
    """Computation -> input low watermark."""
    journal: dict[str, bytes] = field(default_factory=dict)
    """Computation -> low watermarks of its intervals: `Authority.journal`."""
    holds: dict[str, dict[int, int]] = field(default_factory=dict)
    """Computation -> interval -> oldest hold."""
    holders: dict[str, Holder] = field(default_factory=dict)
    """Computation -> its oldest hold: timestamp, encoded key, tag."""
    wall_timers: dict[str, dict[int, int]] = field(default_factory=dict)
    """Computation -> interval -> time of the earliest wall-time timer, microseconds UTC."""
    pending: list[PendingProduction] = field(default_factory=list)
    counters: dict[str, dict[str, int]] = field(default_factory=dict)
    metrics: MetricValues = field(default_factory=dict)
    """Metrics of user code."""
    receipts: dict[str, list[bytes]] = field(default_factory=dict)
    """Sink -> receipts of the last epoch, in the order of tasks."""

    def watermark_state(self) -> WatermarkState:
        """The state as `explain` takes it."""
        return WatermarkState(
            watermarks=self.watermarks,
            injectors=self.injectors,
            skew_limit=self.skew_limit,
            positions=self.positions,
            holders=self.holders,
            pending=oldest_by_consumer(self.pending),
            holds=self.holds,
            intervals=self.intervals,
        )

    def arriving(self) -> list[PendingProduction]:
        """Productions of the last epoch that arrive with the next one; stragglers go to sinks, beside the epochs."""
        return [item for item in self.pending if item.level != SINK]

    def frontier(self) -> Frontier:
        """Unfinished work at the start of the next epoch."""
        holds = {name: min(by_interval.values()) for name, by_interval in self.holds.items() if by_interval}
        return Frontier(dict(self.injectors), holds, oldest_by_consumer(self.pending))

    def is_over(self, topology: Topology) -> bool:
        """Whether all input has ended and nothing is left to do; as `Manifest.is_over`."""
        if len(self.done) < len(topology.injectors) or self.pending:
            return False
        # A timer of a computation with a hold may still produce something, even if only for sinks.
        if any(self.holds.get(name) and self.wall_timers.get(name) for name in topology.keyed):
            return False
        return all(self.watermarks.get(name) == MAX_TIMESTAMP for name in topology.keyed)

    def has_no_watermark(self) -> bool:
        """Whether no injector has stated a watermark yet, as those of bounded input do not before its end."""
        return all(progress.watermark == MIN_TIMESTAMP for progress in self.injectors.values())

    @classmethod
    def beginning(cls, topology: Topology) -> JournalState:
        """The state before the first epoch."""
        positions = {stream: injector.start() for stream, injector in topology.injectors.items()}
        return cls(positions=positions, injectors=dict.fromkeys(positions, InjectorProgress()))


class Journal:
    """The commits of a run. An epoch that is not in the journal never happened.

    This one is of a run in memory, which stores nothing.
    """

    generation = 1
    """Generation of the driver that writes the journal."""

    @property
    def change(self) -> TopologyDifference | None:
        """The change from the topology of the last commit to that of this driver; None once the two are equal."""
        return None

    def recover(self) -> JournalState | None:
        """The newest committed state; None at the very beginning."""
        return None

    def commit(
        self, state: JournalState, deltas: Mapping[tuple[int, int], DeltaFile], snapshots: Iterable[SnapshotParts] = ()
    ) -> None:
        """Commit an epoch, with the delta file of each (level, interval) that changed.

        `snapshots` take the place of earlier files of their intervals. Raises `FencedError` if another driver has
        taken over. In memory the driver has the state.
        """

    def continued(self, topology: Topology) -> Topology:
        """The topology whose keys are spelled as in the last commit."""
        return topology

    def change_to(self, state: JournalState, topology: Topology, consent: Consent) -> TopologyDifference:
        """The change to another topology. Raises `TopologyChangeError` if the stored state cannot go on with it."""
        raise RuntimeError("the topology of a run without a checkpoint cannot change; give the run a checkpoint")

    def succeed(self, state: JournalState, change: TopologyDifference, topology: Topology, tasks: int) -> JournalState:
        """Commit a change of topology as an epoch of its own, which follows `state`; returns the new state.

        `tasks` is the number of tasks of a level that is new.
        """
        raise AssertionError("change_to has refused the change")

    def chains(self, intervals: Mapping[int, IntervalMap]) -> list[Message]:
        """Messages from which tasks bring state stores of these intervals, which may be new, to the last commit."""
        return []

    def snapshots_due(self) -> list[tuple[SnapshotOrder, FileChain]]:
        """Orders for snapshots that are worth their cost now, each with the files of its state."""
        return []

    def tidy(self, epoch: int, is_last: bool = False) -> None:
        """Delete files that no commit needs, from time to time; called after each delivery. Never raises."""

    def source_objects(self, stream: str) -> SourceObjects:
        """The objects in which the injector of a stream keeps what its positions name."""
        return SourceObjects.in_memory()

    def ensure_driving(self) -> None:
        """Raise `FencedError` if another driver has taken over; called before sinks finish, and after an error."""
