"""Who works on which keys from epoch to epoch: the intervals that a run begins with, and what becomes of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headrace.lowlevel.balance import Balancer, Loads
from headrace.lowlevel.intervals import IntervalMap
from headrace.lowlevel.sequencer import Sequencer
from headrace.runners.engine.epoch import Pending

Intervals = Mapping[int, IntervalMap]
"""Level -> its key intervals."""


class Ownership:
    """The intervals of a run's levels, and the number of tasks that own them."""

    def __init__(self, levels: int, wanted: int | None, parallelism: int, balancer: Balancer | None) -> None:
        self.tasks = 0
        """Of every level."""
        self._levels = range(1, levels + 1)
        self._wanted, self._parallelism = wanted, parallelism
        self._balancer = balancer

    def begin(self, committed: Intervals, now: Sequencer) -> dict[int, IntervalMap]:
        """The intervals of a driver that goes on from a commit, or from nothing.

        They stay as they were unless another number is wanted; whoever owned them before is stale.
        """
        had = max((intervals.tasks for intervals in committed.values()), default=self._parallelism)
        self.tasks = self._wanted or had
        return {level: self._begun(committed.get(level), now) for level in self._levels}

    def _begun(self, old: IntervalMap | None, now: Sequencer) -> IntervalMap:
        if old is None:
            return IntervalMap.evenly(self.tasks, now)
        if old.tasks != self.tasks:
            return IntervalMap.evenly(self.tasks, now, old.unused)
        return old.taken_over(now)

    def sampled(self) -> dict[int, frozenset[int]]:
        """Level -> intervals of which the balancer wants to see where their records lie."""
        if self._balancer is None:
            return {}
        wanted = {level: self._balancer.sampled(level) for level in self._levels}
        return {level: numbers for level, numbers in wanted.items() if numbers}

    def after(self, intervals: Intervals, loads: Mapping[int, Loads], now: Sequencer) -> dict[int, IntervalMap]:
        """The intervals of the next epoch, given what each cost in the last one."""
        if self._balancer is None:
            return dict(intervals)
        return {
            level: self._balancer.balanced(level, old, loads.get(level, {}), self.tasks, now)
            for level, old in intervals.items()
        }


def divided(pending: Iterable[Pending], intervals: Intervals) -> list[Pending]:
    """Productions that wait for delivery, each again for one interval."""
    found: list[Pending] = []
    for item in pending:
        here = intervals.get(item.level)
        # What goes to sinks belongs to no interval.
        stays = here is None or any(interval.number == item.interval for interval in here)
        found += [item] if stays or here is None else item.divided(here)
    return found
