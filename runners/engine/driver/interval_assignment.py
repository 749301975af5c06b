"""Which task works on which keys: the key intervals at the start of a run, and their changes between epochs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headrace.lowlevel.checkpoint import PendingProduction
from headrace.lowlevel.intervals.balancer import Balancer, Loads
from headrace.lowlevel.intervals.interval_map import IntervalMap
from headrace.lowlevel.intervals.sequencer import Sequencer

Intervals = Mapping[int, IntervalMap]
"""Level -> its key intervals."""


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

    def after(self, intervals: Intervals, loads: Mapping[int, Loads], now: Sequencer) -> dict[int, IntervalMap]:
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
