"""The current topology of a driver, with its intervals and their owners, watermarks, and stragglers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from headrace.lowlevel.checkpoint import PendingProduction
from headrace.lowlevel.injectors.injector import CommittedInjector
from headrace.lowlevel.intervals.balancer import Balancer, Loads
from headrace.lowlevel.intervals.interval_map import IntervalMap
from headrace.lowlevel.intervals.sequencer import Sequencer
from headrace.lowlevel.sinks.sink import AgreeingSink, HoldingSink
from headrace.lowlevel.time import MAX_TIMESTAMP
from headrace.lowlevel.topology.topology import Topology
from headrace.lowlevel.watermarks.authority import Authority
from headrace.lowlevel.watermarks.propagation import Propagation
from headrace.runners.engine.clock import Clock
from headrace.runners.engine.driver.journal import JournalState
from headrace.runners.engine.driver.outcome import Outcome
from headrace.runners.engine.executor import Executor
from headrace.runners.engine.messages import EpochSpec
from headrace.runners.engine.options import RunOptions
from headrace.runners.engine.productions import Stragglers

Intervals = Mapping[int, IntervalMap]
"""Level -> its key intervals."""
MANY_TASKS = 128
"""Tasks of a level from which on the driver, and no other task, tells each task how far the others are."""


class RunningTopology:
    """What a driver derives from a topology and from a commit; made anew when the topology changes.

    The state of the run is an argument of the methods; `begin` and `rearrange` change it.
    """

    def __init__(
        self, topology: Topology, executor: Executor, generation: int, clock: Clock, options: RunOptions
    ) -> None:
        self.topology = topology
        # Looked up once: Python takes a hundredth of an almost empty epoch to see whether an object has a protocol.
        self.agreeing = {name: sink for name, sink in topology.sinks.items() if isinstance(sink[1], AgreeingSink)}
        self.holding = {name: sink for name, sink in topology.sinks.items() if isinstance(sink[1], HoldingSink)}
        self.told_of_commits = {
            stream: injector
            for stream, injector in topology.injectors.items()
            if isinstance(injector, CommittedInjector)
        }
        self.propagation = Propagation(topology)
        self.id_slacks = topology.id_slacks()
        self.generation = generation
        self._executor, self._clock = executor, clock
        balancer = None if options.balancer is None else options.balancer()
        self.ownership = IntervalAssignment(len(topology.levels()), options.intervals, executor.parallelism, balancer)
        self.straggler_delay = round(options.straggler_delay * 1e6)
        """Microseconds."""
        self.stragglers = Stragglers(topology, executor.begin_release, self.straggler_delay)
        self._authority = Authority()
        self._sequencer = Sequencer(generation, 0)
        """The sequencer of the current owners of intervals."""
        self.unsettled = False
        """Whether the committed watermarks differ from those that this topology computes."""

    def begin(self, state: JournalState) -> None:
        """Go on from a commit: every interval has a new owner. Raises `CheckpointError`, see `Stragglers.take`."""
        state.injectors = {
            stream: replace(progress, delay=self.topology.injectors[stream].max_delay)
            for stream, progress in state.injectors.items()
        }
        self.stragglers.take(state.pending, due=self._clock.now())
        self._sequencer = Sequencer(self.generation, state.epoch)
        for name, level in self.propagation.level_of.items():
            if (watermarks := state.journal.get(name)) is not None:
                self._authority.restore({name: watermarks}, {name: state.intervals[level]}, self._sequencer)
        self.rearrange(state, self.ownership.begin(state.intervals, self._next_sequencer(state)))
        self.unsettled = self._moves_watermarks(state)

    def moves_on(self, state: JournalState) -> bool:
        """Whether an epoch without input would still move a watermark: those of circles and many tasks lag behind."""
        if not self.has_many_tasks and not any(self.propagation.on_circle(name) for name in self.topology.keyed):
            return state.epoch == 0
        return self._moves_watermarks(state)

    def _moves_watermarks(self, state: JournalState) -> bool:
        return self.next_watermarks(state) != state.watermarks

    @property
    def has_many_tasks(self) -> bool:
        """See `EpochSpec.has_many_tasks`."""
        return self.ownership.tasks >= MANY_TASKS

    def next_watermarks(self, state: JournalState) -> dict[str, int]:
        """Computation -> input low watermark that follows from a commit alone, whatever the next epoch reads."""
        frontier = state.frontier()
        if self.has_many_tasks:
            frontier.by_interval = {name: self._hold_by_interval(state, name) for name in self.propagation.spread}
        return self.propagation.inputs(frontier, frontier, state.watermarks)

    def _hold_by_interval(self, state: JournalState, name: str) -> dict[int, int]:
        held, intervals = state.holds.get(name, {}), state.intervals[self.propagation.level_of[name]]
        return {interval.number: held.get(interval.number, MAX_TIMESTAMP) for interval in intervals}

    # From epoch to epoch

    def report_watermarks(self, spec: EpochSpec, outcome: Outcome) -> dict[str, bytes]:
        """Report the low watermark of each interval to the authority; returns its journal, a part of the commit."""
        for name, watermark in outcome.watermarks.items():
            holds, intervals = outcome.holds.get(name, {}), spec.intervals[self.propagation.level_of[name]]
            numbers, values = intervals.numbers, np.full(len(intervals), watermark)
            if holds:
                held = np.fromiter((holds.get(number, MAX_TIMESTAMP) for number in numbers.tolist()), np.int64)
                np.minimum(values, held, out=values)
            self._authority.report_all(name, numbers, self._sequencer, values)
        return self.watermark_journal()

    def watermark_journal(self) -> dict[str, bytes]:
        """Computation -> low watermarks of its intervals, as bytes."""
        return self._authority.journal()

    def balance(self, state: JournalState, outcome: Outcome) -> None:
        """Split, merge and move intervals for the next epoch, by their loads in the last one."""
        self.rearrange(state, self.ownership.balanced(state.intervals, outcome.loads, self._next_sequencer(state)))

    def rearrange(self, state: JournalState, intervals: dict[int, IntervalMap]) -> None:
        """Let the next epoch run on these intervals; the commit of that epoch makes them those of the run."""
        if intervals == state.intervals:
            return
        self._executor.rearrange(state.intervals, intervals)
        state.intervals, state.pending = intervals, divided(state.pending, intervals)
        self._sequencer = self._next_sequencer(state)
        for name, level in self.propagation.level_of.items():
            self._authority.assign(name, intervals[level], self._sequencer)

    def _next_sequencer(self, state: JournalState) -> Sequencer:
        """The sequencer of changes that take effect with the next epoch."""
        return Sequencer(self.generation, state.epoch + 1)


class IntervalAssignment:
    """The key intervals of each level, and the number of tasks that own them."""

    def __init__(self, levels: int, tasks: int | None, parallelism: int, balancer: Balancer | None) -> None:
        self.tasks = 0
        """Number of tasks of every level."""
        self._levels = range(1, levels + 1)
        self._required_tasks, self._parallelism = tasks, parallelism
        self._balancer = balancer

    def begin(self, committed: Intervals, now: Sequencer) -> dict[int, IntervalMap]:
        """The intervals at the start of a driver, from its last commit if there is one.

        Committed intervals stay unless the options ask for another number; their earlier owners become stale.
        """
        committed_tasks = max((intervals.tasks for intervals in committed.values()), default=self._parallelism)
        self.tasks = self._required_tasks or committed_tasks
        return {level: self._begun(committed.get(level), now) for level in self._levels}

    def _begun(self, old: IntervalMap | None, now: Sequencer) -> IntervalMap:
        if old is None:
            return IntervalMap.evenly(self.tasks, now)
        if old.tasks != self.tasks:
            return IntervalMap.evenly(self.tasks, now, old.unused)
        return old.taken_over(now)

    def sampled(self) -> dict[int, frozenset[int]]:
        """Level -> intervals of which the balancer needs a sample of key hashes."""
        if self._balancer is None:
            return {}
        sampled = {level: self._balancer.sampled(level) for level in self._levels}
        return {level: numbers for level, numbers in sampled.items() if numbers}

    def balanced(self, intervals: Intervals, loads: Mapping[int, Loads], now: Sequencer) -> dict[int, IntervalMap]:
        """The intervals of the next epoch, given the load of each in the last one."""
        if self._balancer is None:
            return dict(intervals)
        return {
            level: self._balancer.balanced(level, old, loads.get(level, {}), self.tasks, now)
            for level, old in intervals.items()
        }


def divided(pending: Iterable[PendingProduction], intervals: Intervals) -> list[PendingProduction]:
    """Pending productions, split so that each is for one interval."""
    parts: list[PendingProduction] = []
    for item in pending:
        interval_map = intervals.get(item.level)
        # Productions for sinks have no interval.
        if interval_map is None or any(interval.number == item.interval for interval in interval_map):
            parts.append(item)
        else:
            parts += item.divided(interval_map)
    return parts
