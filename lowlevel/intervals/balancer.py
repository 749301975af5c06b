"""Load balancing: split, merge and move key intervals by their measured cost (MillWheel paper §7.1).

A level changes one interval (or two neighbours) at a time, and only after the change has been worthwhile for several
epochs in a row: new bounds need a new snapshot of the interval, and a short peak of load must not change intervals.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal, NamedTuple, Protocol

from headrace.lowlevel.intervals.interval_map import Interval, IntervalMap
from headrace.lowlevel.intervals.sequencer import Sequencer


class Load(NamedTuple):
    """The measured cost of one interval in one epoch."""

    records: int = 0
    bytes: int = 0
    """Size of the interval's state."""
    seconds: float = 0.0
    key_positions: tuple[int, ...] = ()
    """A sample of the records' positions in the key space; empty unless `Balancer.sampled` asked for it."""


Loads = Mapping[int, Load]
"""Number of an interval -> its load."""


class Balancer(Protocol):
    """A policy that changes the intervals of a level between two epochs."""

    def sampled(self, level: int) -> frozenset[int]:
        """Numbers of the intervals that need `Load.key_positions` in the next epoch."""

    def balanced(self, level: int, intervals: IntervalMap, loads: Loads, tasks: int, now: Sequencer) -> IntervalMap:
        """The intervals of the next epoch.

        Args:
            level: The level, from 1.
            intervals: Its intervals in the last epoch.
            loads: The loads of the last epoch; an interval without an entry had none.
            tasks: Number of tasks; all owners in the result are below it.
            now: The sequencer of changed intervals.
        """


@dataclass(frozen=True, slots=True)
class BalancePolicy:
    """The thresholds of `LoadBalancer`.

    `by` selects the measure of cost: seconds of work, or number of records, which is reproducible.
    """

    by: Literal["seconds", "records"] = "seconds"
    least: float = 0.1
    """If the busiest task costs less than this in an epoch (seconds or records), the load is not distributed."""
    tolerance: float = 1.3
    """The cost that a task may have, as a multiple of the mean cost of a task."""
    gain: float = 0.1
    """The least saving of a change, as a fraction of the busiest task's cost."""
    patience: int = 4
    """Epochs in a row in which the load must be uneven before a change; a merge needs four times as many."""
    rest: int = 8
    """Epochs after a change in which the level stays unchanged."""
    cold: float = 0.2
    """Neighbours are merged if their total cost is at most this fraction of the mean cost of a task."""
    most: int = 8
    """The greatest number of intervals for each task of a level."""
    largest_bytes: int = 4 << 30
    """An interval with a larger state is split, whatever its cost."""


@dataclass(slots=True)
class _Level:
    """The memory of the balancer for one level."""

    costs: dict[int, float] = field(default_factory=dict)
    """Interval -> its smoothed cost."""
    hot: int = 0
    """Epochs in a row in which a task was too busy."""
    cold: int = 0
    """Epochs in a row in which two neighbours could be merged."""
    rest: int = 0
    """Epochs left in which the level stays unchanged."""
    sampled: frozenset[int] = frozenset()
    """Numbers of the intervals whose keys are sampled in the next epoch."""


class LoadBalancer:
    """A `Balancer` that relieves the busiest task, splits large intervals and merges cheap neighbours.

    >>> balancer = LoadBalancer(BalancePolicy("records", least=10, patience=1))
    >>> loads = {0: Load(100, key_positions=tuple(range(2**60, 2**62, 2**56))), 1: Load(10)}
    >>> after = balancer.balanced(1, IntervalMap.evenly(2), loads, tasks=2, now=Sequencer(1, 5))
    >>> [(interval.number, interval.owner) for interval in after]
    [(2, 0), (3, 1), (1, 1)]
    """

    def __init__(self, policy: BalancePolicy | None = None) -> None:
        self._policy = policy or BalancePolicy()
        self._levels: dict[int, _Level] = {}

    def sampled(self, level: int) -> frozenset[int]:
        """See `Balancer`; the costliest interval of a task that is too busy."""
        return self._levels[level].sampled if level in self._levels else frozenset()

    def balanced(self, level: int, intervals: IntervalMap, loads: Loads, tasks: int, now: Sequencer) -> IntervalMap:
        """See `Balancer`."""
        memory = self._levels.setdefault(level, _Level())
        numbers = [interval.number for interval in intervals]
        costs = memory.costs = {number: self._smoothed(memory, number, loads) for number in numbers}
        if (adopted := _adopted(intervals, tasks, costs, now)) is not intervals:
            return adopted
        view = _LevelCosts(self._policy, intervals, costs, loads, tasks, now)
        # Both the last epoch and the smoothed cost must be uneven, so one costly epoch does not count as several.
        last = {number: self._cost(number, loads) for number in numbers}
        uneven = view.is_uneven() and _LevelCosts(self._policy, intervals, last, loads, tasks, now).is_uneven()
        memory.hot = memory.hot + 1 if uneven else 0
        memory.cold = memory.cold + 1 if view.coldest() is not None else 0
        memory.sampled = view.hottest() if memory.hot else frozenset()
        memory.rest = max(0, memory.rest - 1)
        if memory.rest:
            return intervals
        after = view.parted()
        if after is None and memory.hot >= self._policy.patience:
            after = view.relieved()
        if after is None and memory.cold >= 4 * self._policy.patience:
            after = view.merged()
        if after is None:
            return intervals
        memory.hot = memory.cold = 0
        memory.rest = self._policy.rest
        self._inherit(memory, intervals, after)
        return after

    def _smoothed(self, memory: _Level, number: int, loads: Loads) -> float:
        cost = self._cost(number, loads)
        return (memory.costs.get(number, cost) + cost) / 2

    def _cost(self, number: int, loads: Loads) -> float:
        return float(getattr(loads.get(number, Load()), self._policy.by))

    @staticmethod
    def _inherit(memory: _Level, before: IntervalMap, after: IntervalMap) -> None:
        """Give new intervals the costs of the old intervals that they overlap, in proportion to the overlap."""
        for interval in after:
            if interval.number not in memory.costs:
                parents = [old for old in before if old.overlaps(interval)]
                shares = (min(1.0, (interval.stop - interval.start) / (old.stop - old.start)) for old in parents)
                costs = (memory.costs[old.number] for old in parents)
                memory.costs[interval.number] = sum(cost * share for cost, share in zip(costs, shares, strict=True))


def _adopted(intervals: IntervalMap, tasks: int, costs: Mapping[int, float], now: Sequencer) -> IntervalMap:
    """Move intervals whose owner does not exist (any more) to the task with the least cost."""
    for interval in intervals:
        if interval.owner >= tasks:
            spent = _spent(intervals, costs, tasks)
            intervals = intervals.move(interval.number, spent.index(min(spent)), now)
    return intervals


def _spent(intervals: IntervalMap, costs: Mapping[int, float], tasks: int) -> list[float]:
    """Total cost of each task's intervals."""
    spent = [0.0] * tasks
    for interval in intervals:
        if interval.owner < tasks:
            spent[interval.owner] += costs[interval.number]
    return spent


class _LevelCosts:
    """The costs of one level after one epoch, and the changes to choose from."""

    def __init__(
        self,
        policy: BalancePolicy,
        intervals: IntervalMap,
        costs: Mapping[int, float],
        loads: Loads,
        tasks: int,
        now: Sequencer,
    ) -> None:
        self.policy, self.intervals, self.costs, self.loads, self.now = policy, intervals, costs, loads, now
        self.spent = _spent(intervals, costs, tasks)
        self.tasks = tasks
        self.busiest = self.spent.index(max(self.spent))
        self.idlest = self.spent.index(min(self.spent))

    @property
    def mean(self) -> float:
        return sum(self.spent) / self.tasks

    def is_uneven(self) -> bool:
        """Whether the busiest task costs more than the policy tolerates."""
        top = self.spent[self.busiest]
        return top >= self.policy.least and top > self.policy.tolerance * self.mean

    def hottest(self) -> frozenset[int]:
        """Number of the costliest interval of the busiest task."""
        owned = self.intervals.owned(self.busiest)
        return frozenset([max(owned, key=lambda interval: self.costs[interval.number]).number] if owned else ())

    def relieved(self) -> IntervalMap | None:
        """Move work from the busiest task to the idlest; None if that is not worthwhile.

        A whole interval is moved if that saves nearly as much as a split.
        """
        if not self.is_uneven():
            return None
        excess = (self.spent[self.busiest] - self.spent[self.idlest]) / 2
        owned = self.intervals.owned(self.busiest)
        moved = min(owned, key=lambda interval: abs(self.costs[interval.number] - excess))
        by_move = self._gain(self.costs[moved.number])
        (number,) = self.hottest()
        at, part = self._cut(self.intervals[number], excess / self.costs[number])
        by_split = self._gain(part * self.costs[number]) if len(self.intervals) < self._most else 0.0
        enough = self.policy.gain * self.spent[self.busiest]
        if by_move >= enough and by_move >= 0.7 * by_split:
            return self.intervals.move(moved.number, self.idlest, self.now)
        if by_split >= enough:
            return self.intervals.split(number, at, self.idlest, self.now)
        return None

    @property
    def _most(self) -> int:
        return self.policy.most * self.tasks

    def _gain(self, cost: float) -> float:
        """By how much the cost of the busier of the two tasks falls if `cost` moves from the busiest to the idlest."""
        top, low = self.spent[self.busiest], self.spent[self.idlest]
        return top - max(top - cost, low + cost)

    def _cut(self, interval: Interval, part: float) -> tuple[int, float]:
        """A position to split at, and the fraction of the records from it on, which is close to `part`."""
        sample = sorted(self.loads.get(interval.number, Load()).key_positions)
        if not sample:
            return interval.start, 0.0
        nearest = sample[min(len(sample) - 1, max(0, round(len(sample) * (1 - min(part, 1.0)))))]
        # A key cannot be divided: the split is before or behind it.
        cuts = [at for at in (nearest, nearest + 1) if interval.start < at < interval.stop]
        parts = [(at, sum(key_position >= at for key_position in sample) / len(sample)) for at in cuts]
        return min(parts, key=lambda cut: abs(cut[1] - part), default=(interval.start, 0.0))

    def parted(self) -> IntervalMap | None:
        """Split the largest interval in the middle if its state is too large; otherwise None."""
        large = [interval for interval in self.intervals if self._bytes(interval) > self.policy.largest_bytes]
        if not large or len(self.intervals) >= self._most:
            return None
        largest = max(large, key=self._bytes)
        middle = (largest.start + largest.stop) // 2
        return self.intervals.split(largest.number, middle, self.idlest, self.now)

    def _bytes(self, interval: Interval) -> int:
        return self.loads.get(interval.number, Load()).bytes

    def coldest(self) -> Interval | None:
        """The first of the two cheapest neighbours that may be merged; None if there are none."""
        if len(self.intervals) <= self.tasks or self.spent[self.busiest] < self.policy.least:
            return None
        pairs = [pair for pair in pairwise(self.intervals) if self._together(pair) <= self.policy.cold * self.mean]
        return min(pairs, key=self._together)[0] if pairs else None

    def _together(self, pair: tuple[Interval, Interval]) -> float:
        if self._bytes(pair[0]) + self._bytes(pair[1]) > self.policy.largest_bytes / 2:
            return float("inf")
        return self.costs[pair[0].number] + self.costs[pair[1].number]

    def merged(self) -> IntervalMap | None:
        """Merge the two cheapest neighbours, for the owner with the lower cost; None if no pair may be merged."""
        if (first := self.coldest()) is None:
            return None
        second = self.intervals.of(first.stop.to_bytes(8, "big"))
        owner = min(first.owner, second.owner, key=lambda task: self.spent[task])
        return self.intervals.merge(first.number, owner, self.now)
