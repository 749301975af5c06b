"""Low watermarks: the recursive definition, and the authority that journals them (MillWheel paper §4.5, §7.2).

    low watermark of A = min(oldest work of A, low watermark of C: C outputs to A)

Records in flight never outlive an epoch, so the oldest work that an epoch leaves behind is holds (of states and
timers) and pending productions. Everything here is a pure function of those.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from headrace.lowlevel.injector import heuristic_watermark
from headrace.lowlevel.lateness import NO_LATENESS, Lateness
from headrace.lowlevel.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from headrace.lowlevel.topology import Topology


@dataclass(frozen=True, slots=True)
class InjectorProgress:
    """How far an injector is. Persisted: every field but `delay`."""

    watermark: int = MIN_TIMESTAMP
    """Low watermark that it has reached."""
    greatest: int = MIN_TIMESTAMP
    """Greatest timestamp that it has delivered."""
    delay: int | None = None
    """Bounded out-of-orderness, microseconds; see `Injector.max_delay`."""
    lateness: Lateness = NO_LATENESS
    """How late recent records were; counted only where a consumer asks for it."""

    def after(self, greatest: int, watermark: int, done: bool, lateness: Lateness = NO_LATENESS) -> InjectorProgress:
        """Progress after a delivery: the greatest timestamp read and what the injector says of itself.

        >>> InjectorProgress(delay=10).after(greatest=100, watermark=MIN_TIMESTAMP, done=False).watermark
        90
        """
        greatest = max(greatest, self.greatest)
        reached = MAX_TIMESTAMP if done else max(watermark, heuristic_watermark(greatest, self.delay))
        recent = self.lateness.followed_by(lateness)
        return InjectorProgress(max(reached, self.watermark), greatest, self.delay, recent)

    def low_watermark(self, percentile: float | None = None) -> int:
        """The watermark, or with a percentile one that only so many of 100 recent records would have waited for.

        An injector whose watermark is not heuristic has no outliers: it has one watermark for all. Nor has one of
        which nothing is known yet.

        >>> seen = InjectorProgress(40, 100, 60, Lateness.of([100, 60, 99, 99]))
        >>> seen.low_watermark(), seen.low_watermark(75)
        (40, 99)
        """
        if percentile is None or self.delay is None or not self.lateness.counts:
            return self.watermark
        return max(self.watermark, self.greatest - self.lateness.quantile(percentile))


class Propagation:
    """The shape of a topology, prepared for computing its computations' watermarks again and again."""

    def __init__(self, topology: Topology) -> None:
        self._levels = topology.levels()
        self._senders = topology.senders(aside=False)
        self._sources = topology.sources(aside=False)
        self._circles = topology.circles()
        self._own = {name: place.watermark_percentile for name, place in topology.keyed.items()}
        asking = {name for name, percentile in self._own.items() if percentile is not None}
        self.spread = frozenset().union(*(self._above(name) for name in asking))
        """Computations of which it must be known how far each of their intervals is."""
        self.asked = frozenset[str]().union(*(self._sources[name] for name in asking | self.spread))
        """Injector streams of which, if they are heuristic, it must be known how late their records are."""

    def _above(self, name: str) -> set[str]:
        """Computations that hold its low watermark, directly or through others."""
        found, ways = set[str](), [name]
        for at in ways:
            new = self._senders[at] - found
            found |= new
            ways += new
        return found

    @cached_property
    def level_of(self) -> dict[str, int]:
        """Computation -> its level, from 1."""
        return {name: level for level, names in enumerate(self._levels, 1) for name in names}

    def on_circle(self, name: str) -> bool:
        """Whether what the computation sends can come back to it."""
        return bool(self._circles[name])

    def inputs(self, now: Frontier, before: Frontier, committed: Mapping[str, int]) -> dict[str, int]:
        """Input low watermark of every computation.

        `now` is this epoch's knowledge, `before` that at its start, `committed` the input watermarks of the last
        epoch, below which none falls. A computation on a circle follows its outside senders one epoch behind: what
        this epoch sends round the circle is only known when it ends.
        """
        # As each consumer sees those before it: strictly, or without outliers (paper §7.2).
        views: dict[float | None, dict[str, int]] = {percentile: {} for percentile in {None, *self._own.values()}}
        for names in self._levels:
            for name in names:
                for percentile, view in views.items():
                    view[name] = self._input(name, _Seen(percentile, view, now, before, committed))
                own = views[self._own[name]][name]
                for view in views.values():
                    # Whoever chose one has that watermark for everybody.
                    view[name] = own if self._own[name] is not None else view[name]
        return views[None]

    def _input(self, name: str, seen: _Seen) -> int:
        """The input low watermark of one computation."""
        circle, before, committed = self._circles[name], seen.before, seen.committed
        known = before if circle else seen.now
        bounds = [known.injectors[stream].low_watermark(seen.percentile) for stream in self._sources[name]]
        bounds += [known.pending.get(name, MAX_TIMESTAMP)]
        for sender in self._senders[name]:
            bounds.append(known.hold(sender, seen.percentile))
            if sender not in circle:
                bounds.append(committed.get(sender, MIN_TIMESTAMP) if circle else seen.view[sender])
        if circle:
            bounds += [known.pending.get(other, MAX_TIMESTAMP) for other in circle]
            bounds += self._outside(circle, seen)
        return max(min(bounds), committed.get(name, MIN_TIMESTAMP))

    def _outside(self, circle: frozenset[str], seen: _Seen) -> list[int]:
        """Bounds that enter a circle through any of its members, as known at the start of the epoch."""
        before, percentile = seen.before, seen.percentile
        sources = {stream for other in circle for stream in self._sources[other]}
        outside = {sender for other in circle for sender in self._senders[other] - circle}
        bounds = [before.injectors[stream].low_watermark(percentile) for stream in sources]
        bounds += [before.hold(other, percentile) for other in circle | outside]
        bounds += [seen.committed.get(sender, MIN_TIMESTAMP) for sender in outside]
        return bounds


@dataclass(frozen=True, slots=True)
class _Seen:
    """What a consumer of a percentile goes by."""

    percentile: float | None
    view: Mapping[str, int]
    """Computation -> its low watermark as that consumer sees it, so far."""
    now: Frontier
    before: Frontier
    committed: Mapping[str, int]


@dataclass(slots=True)
class Frontier:
    """What is known of the unfinished work at one instant."""

    injectors: dict[str, InjectorProgress] = field(default_factory=dict)
    holds: dict[str, int] = field(default_factory=dict)
    """Computation -> its oldest hold; absent where there is none."""
    pending: dict[str, int] = field(default_factory=dict)
    """Computation -> the oldest production that waits for delivery to it in this epoch."""
    by_interval: dict[str, dict[int, int]] = field(default_factory=dict)
    """Computation -> interval -> its oldest hold, `MAX_TIMESTAMP` where there is none; only where some consumer asks
    for a percentile."""

    def hold(self, name: str, percentile: float | None = None) -> int:
        """A computation's oldest hold, or with a percentile the oldest but for the slowest intervals.

        >>> Frontier(holds={"a": 1}, by_interval={"a": {0: 4, 1: 1, 2: 3, 3: 9}}).hold("a", 75)
        3
        """
        if percentile is None or name not in self.by_interval:
            return self.holds.get(name, MAX_TIMESTAMP)
        holds = sorted(self.by_interval[name].values())
        return holds[ignored(len(holds), percentile)]


def ignored(count: int, percentile: float) -> int:
    """How many of so many intervals a consumer of a percentile does not wait for.

    >>> ignored(200, 99), ignored(99, 99)
    (2, 0)
    """
    return int(count * (100 - percentile) / 100)
