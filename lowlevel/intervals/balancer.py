"""Load distribution: which interval to split, to merge or to give to another task, by what each costs (paper §7.1).

One change at a time and level, and only when it has been worth it for some epochs in a row: a change of bounds is
paid for with a new snapshot of what it touches, and load that comes and goes must not make intervals come and go.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal, NamedTuple, Protocol

from headrace.lowlevel.intervals import Interval, IntervalMap
from headrace.lowlevel.sequencer import Sequencer


class Load(NamedTuple):
    """What one interval cost in one epoch."""

    records: int = 0
    bytes: int = 0
    """Of its state."""
    seconds: float = 0.0
    places: tuple[int, ...] = ()
    """Places of its records' keys, each for the same number of records; empty unless they were asked for."""


Loads = Mapping[int, Load]
"""Number of an interval -> its load."""


class Balancer(Protocol):
    """Decides between two epochs how intervals change."""

    def sampled(self, level: int) -> frozenset[int]:
        """Numbers of the intervals whose `Load.places` it wants to see next."""

    def balanced(self, level: int, intervals: IntervalMap, loads: Loads, tasks: int, now: Sequencer) -> IntervalMap:
        """The intervals of the next epoch; what changes gets the sequencer `now`, and an owner below `tasks`."""


@dataclass(frozen=True, slots=True)
class BalancePolicy:
    """When a change is worth it.

    `by` says what counts: seconds of work, or records (which repeats exactly).
    """

    by: Literal["seconds", "records"] = "seconds"
    least: float = 0.1
    """A task that costs less than this in an epoch (in seconds, or records) is left alone."""
    tolerance: float = 1.3
    """How many times the mean of its level a task may cost."""
    gain: float = 0.1
    """The part of its cost that the busiest task must be rid of by a change."""
    patience: int = 4
    """Epochs in a row for which a change must have been worth it."""
    rest: int = 8
    """Epochs after a change in which nothing else changes on the level."""
    cold: float = 0.2
    """Neighbours that together cost less than this part of a task's mean are merged."""
    most: int = 8
    """Intervals that a level may have for each of its tasks."""
    largest_bytes: int = 4 << 30
    """State of an interval from which on it is split whatever it costs."""


@dataclass(slots=True)
class _Level:
    """What is remembered of a level."""

    costs: dict[int, float] = field(default_factory=dict)
    """Interval -> its cost, smoothed."""
    hot: int = 0
    """Epochs for which a task has been too busy."""
    cold: int = 0
    """Epochs for which neighbours have been worth merging."""
    rest: int = 0
    """Epochs in which nothing may change."""
    wanted: frozenset[int] = frozenset()


class LoadBalancer:
    """The `Balancer` of a run.

    >>> balancer = LoadBalancer(BalancePolicy("records", least=10, patience=1))
    >>> loads = {0: Load(100, places=tuple(range(2**60, 2**62, 2**56))), 1: Load(10)}
    >>> after = balancer.balanced(1, IntervalMap.evenly(2), loads, tasks=2, now=Sequencer(1, 5))
    >>> [(one.number, one.owner) for one in after]
    [(2, 0), (3, 1), (1, 1)]
    """

    def __init__(self, policy: BalancePolicy | None = None) -> None:
        self._policy = policy or BalancePolicy()
        self._levels: dict[int, _Level] = {}

    def sampled(self, level: int) -> frozenset[int]:
        """The busiest interval of a task that has begun to be too busy."""
        return self._levels[level].wanted if level in self._levels else frozenset()

    def balanced(self, level: int, intervals: IntervalMap, loads: Loads, tasks: int, now: Sequencer) -> IntervalMap:
        """See `Balancer`."""
        memory = self._levels.setdefault(level, _Level())
        costs = memory.costs = {one.number: self._smoothed(memory, one.number, loads) for one in intervals}
        if (adopted := _adopted(intervals, tasks, costs, now)) is not intervals:
            return adopted
        view = _View(self._policy, intervals, costs, loads, tasks, now)
        # A single epoch counts once, however much it had; the smoothed cost says what is worth doing about it.
        last = {one.number: self._cost(one.number, loads) for one in intervals}
        uneven = view.is_uneven() and _View(self._policy, intervals, last, loads, tasks, now).is_uneven()
        memory.hot = memory.hot + 1 if uneven else 0
        memory.cold = memory.cold + 1 if view.coldest() is not None else 0
        memory.wanted = view.hottest() if memory.hot else frozenset()
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
        """New intervals cost what they take over, until they have costs of their own."""
        for interval in after:
            if interval.number not in memory.costs:
                parents = [old for old in before if old.overlaps(interval)]
                shares = (min(1.0, (interval.stop - interval.start) / (old.stop - old.start)) for old in parents)
                costs = (memory.costs[old.number] for old in parents)
                memory.costs[interval.number] = sum(cost * share for cost, share in zip(costs, shares, strict=True))


def _adopted(intervals: IntervalMap, tasks: int, costs: Mapping[int, float], now: Sequencer) -> IntervalMap:
    """Intervals whose owner is not there (any more) get one."""
    for interval in intervals:
        if interval.owner >= tasks:
            spent = _spent(intervals, costs, tasks)
            intervals = intervals.move(interval.number, spent.index(min(spent)), now)
    return intervals


def _spent(intervals: IntervalMap, costs: Mapping[int, float], tasks: int) -> list[float]:
    """What each task costs."""
    spent = [0.0] * tasks
    for interval in intervals:
        if interval.owner < tasks:
            spent[interval.owner] += costs[interval.number]
    return spent


class _View:
    """One level after one epoch, and the changes that it may need."""

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
        """Whether a task costs so much more than the others that something should be done."""
        top = self.spent[self.busiest]
        return top >= self.policy.least and top > self.policy.tolerance * self.mean

    def hottest(self) -> frozenset[int]:
        """The interval that costs the busiest task most."""
        owned = self.intervals.owned(self.busiest)
        return frozenset([max(owned, key=lambda one: self.costs[one.number]).number] if owned else ())

    def relieved(self) -> IntervalMap | None:
        """The busiest task gives a part of its work to the idlest: whole intervals if that does nearly as well."""
        if not self.is_uneven():
            return None
        excess = (self.spent[self.busiest] - self.spent[self.idlest]) / 2
        owned = self.intervals.owned(self.busiest)
        moved = min(owned, key=lambda one: abs(self.costs[one.number] - excess))
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
        """How much less the busier of the two tasks costs when one gives `cost` to the other."""
        top, low = self.spent[self.busiest], self.spent[self.idlest]
        return top - max(top - cost, low + cost)

    def _cut(self, interval: Interval, part: float) -> tuple[int, float]:
        """A place that leaves about `part` of the interval's records behind it, and the part that it really leaves."""
        places = sorted(self.loads.get(interval.number, Load()).places)
        if not places:
            return interval.start, 0.0
        wanted = places[min(len(places) - 1, max(0, round(len(places) * (1 - min(part, 1.0)))))]
        # One key is never divided: the cut goes before it or behind it.
        cuts = [at for at in (wanted, wanted + 1) if interval.start < at < interval.stop]
        parts = [(at, sum(place >= at for place in places) / len(places)) for at in cuts]
        return min(parts, key=lambda cut: abs(cut[1] - part), default=(interval.start, 0.0))

    def parted(self) -> IntervalMap | None:
        """An interval whose state has become too large is cut in the middle."""
        large = [one for one in self.intervals if self._bytes(one) > self.policy.largest_bytes]
        if not large or len(self.intervals) >= self._most:
            return None
        largest = max(large, key=self._bytes)
        middle = (largest.start + largest.stop) // 2
        return self.intervals.split(largest.number, middle, self.idlest, self.now)

    def _bytes(self, interval: Interval) -> int:
        return self.loads.get(interval.number, Load()).bytes

    def coldest(self) -> Interval | None:
        """The first of the two neighbours that are most worth merging; None where none are."""
        if len(self.intervals) <= self.tasks or self.spent[self.busiest] < self.policy.least:
            return None
        pairs = [pair for pair in pairwise(self.intervals) if self._together(pair) <= self.policy.cold * self.mean]
        return min(pairs, key=self._together)[0] if pairs else None

    def _together(self, pair: tuple[Interval, Interval]) -> float:
        if self._bytes(pair[0]) + self._bytes(pair[1]) > self.policy.largest_bytes / 2:
            return float("inf")
        return self.costs[pair[0].number] + self.costs[pair[1].number]

    def merged(self) -> IntervalMap | None:
        """The coldest neighbours become one, of that owner of theirs which costs less."""
        if (first := self.coldest()) is None:
            return None
        second = self.intervals.of(first.stop.to_bytes(8, "big"))
        owner = min(first.owner, second.owner, key=lambda task: self.spent[task])
        return self.intervals.merge(first.number, owner, self.now)
