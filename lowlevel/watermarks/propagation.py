"""Low watermarks: the recursive definition, and the authority that journals them (MillWheel paper §4.5, §7.2).

    low watermark of A = min(oldest work of A, low watermark of C: C outputs to A)

No record is in flight when an epoch ends, so the unfinished work between epochs consists of holds (of state and timers)
and pending productions. All functions of this module are pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from headrace.lowlevel.injectors.injector import heuristic_watermark
from headrace.lowlevel.time import MAX_TIMESTAMP, MIN_TIMESTAMP, SECOND
from headrace.lowlevel.topology.topology import Topology
from headrace.lowlevel.watermarks.lateness import NO_LATENESS, Lateness


@dataclass(frozen=True, slots=True)
class InjectorProgress:
    """The progress of an injector. Persisted: every field but `delay`."""

    watermark: int = MIN_TIMESTAMP
    """The injector's low watermark."""
    greatest: int = MIN_TIMESTAMP
    """The greatest timestamp that it has delivered."""
    delay: int | None = None
    """Bounded out-of-orderness, microseconds; see `Injector.max_delay`."""
    lateness: Lateness = NO_LATENESS
    """The lateness of recent records; counted only if a consumer has a watermark percentile."""

    def after(self, greatest: int, watermark: int, done: bool, lateness: Lateness = NO_LATENESS) -> InjectorProgress:
        """The progress after a delivery.

        Args:
            greatest: The greatest timestamp read.
            watermark: The low watermark that the injector states.
            done: Whether its input has ended.
            lateness: Lateness of the records read.

        >>> InjectorProgress(delay=10).after(greatest=100, watermark=MIN_TIMESTAMP, done=False).watermark
        90
        """
        greatest = max(greatest, self.greatest)
        reached = MAX_TIMESTAMP if done else max(watermark, heuristic_watermark(greatest, self.delay))
        recent = self.lateness.followed_by(lateness)
        return InjectorProgress(max(reached, self.watermark), greatest, self.delay, recent)

    def low_watermark(self, percentile: float | None = None) -> int:
        """The watermark; with a percentile, one that makes `100 - percentile` % of recent records late.

        The percentile has no effect if the watermark is not heuristic, or if no lateness was counted yet.

        >>> progress = InjectorProgress(40, 100, 60, Lateness.of([100, 60, 99, 99]))
        >>> progress.low_watermark(), progress.low_watermark(75)
        (40, 99)
        """
        if percentile is None or self.delay is None or not self.lateness.counts:
            return self.watermark
        return max(self.watermark, self.greatest - self.lateness.quantile(percentile))


def too_far_ahead(injectors: Mapping[str, InjectorProgress], limit: float | None) -> set[str]:
    """Streams of the injectors that have delivered records more than `limit` seconds past the least watermark.

    The injector with the least watermark is never among them, as the others wait for it. Injectors that have ended
    have the greatest watermark.

    >>> slow, quick = InjectorProgress(watermark=0), InjectorProgress(watermark=90_000_000, greatest=100_000_000)
    >>> [too_far_ahead({"slow": slow, "quick": quick}, limit) for limit in (60, 120)]
    [{'quick'}, set()]
    """
    if limit is None or not injectors:
        return set()
    least = min(progress.watermark for progress in injectors.values())
    return {
        stream
        for stream, progress in injectors.items()
        if progress.watermark > least and progress.greatest - least > limit * SECOND
    }


class Propagation:
    """Computes the low watermarks of a topology's computations; made once for all epochs."""

    def __init__(self, topology: Topology) -> None:
        self._levels = topology.levels()
        self._senders = topology.senders(aside=False)
        self._sources = topology.sources(aside=False)
        self._circles = topology.circles()
        self._own = {name: node.watermark_percentile for name, node in topology.keyed.items()}
        with_percentile = {name for name, percentile in self._own.items() if percentile is not None}
        self.spread = frozenset().union(*(self._upstream(name) for name in with_percentile))
        """Computations whose holds must be known by interval: those upstream of a computation with a percentile."""
        self.asked = frozenset[str]().union(*(self._sources[name] for name in with_percentile | self.spread))
        """Injector streams whose lateness must be counted, if their watermark is heuristic."""

    def _upstream(self, name: str) -> set[str]:
        """Computations on which a computation's low watermark depends, directly or through others."""
        found, queue = set[str](), [name]
        for computation in queue:
            new = self._senders[computation] - found
            found |= new
            queue += new
        return found

    @cached_property
    def level_of(self) -> dict[str, int]:
        """Computation -> its level, from 1."""
        return {name: level for level, names in enumerate(self._levels, 1) for name in names}

    def on_circle(self, name: str) -> bool:
        """Whether records can return to the computation that sent them."""
        return bool(self._circles[name])

    def inputs(self, now: Frontier, before: Frontier, committed: Mapping[str, int]) -> dict[str, int]:
        """Input low watermark of every computation.

        A computation on a circle follows its senders outside the circle one epoch behind, as the records that an epoch
        sends round the circle are only known when the epoch ends.

        Args:
            now: The unfinished work as known in this epoch.
            before: The unfinished work at the start of the epoch.
            committed: Input watermarks of the last epoch; no watermark falls below them.
        """
        # Percentile of a consumer -> the watermarks that it sees: strict, or without outliers (MillWheel paper §7.2).
        views: dict[float | None, dict[str, int]] = {percentile: {} for percentile in {None, *self._own.values()}}
        for names in self._levels:
            for name in names:
                for percentile, view in views.items():
                    view[name] = self._input(name, _View(percentile, view, now, before, committed))
                own = views[self._own[name]][name]
                for view in views.values():
                    # A computation's own percentile applies for all its consumers.
                    view[name] = own if self._own[name] is not None else view[name]
        return views[None]

    def _input(self, name: str, view: _View) -> int:
        """The input low watermark of one computation."""
        circle, before, committed = self._circles[name], view.before, view.committed
        known = before if circle else view.now
        bounds = [known.injectors[stream].low_watermark(view.percentile) for stream in self._sources[name]]
        bounds += [known.pending.get(name, MAX_TIMESTAMP)]
        for sender in self._senders[name]:
            bounds.append(known.hold(sender, view.percentile))
            if sender not in circle:
                bounds.append(committed.get(sender, MIN_TIMESTAMP) if circle else view.watermarks[sender])
        if circle:
            bounds += [known.pending.get(other, MAX_TIMESTAMP) for other in circle]
            bounds += self._outside(circle, view)
        return max(min(bounds), committed.get(name, MIN_TIMESTAMP))

    def _outside(self, circle: frozenset[str], view: _View) -> list[int]:
        """Bounds that enter a circle through any of its members, as known at the start of the epoch."""
        before, percentile = view.before, view.percentile
        sources = {stream for other in circle for stream in self._sources[other]}
        outside = {sender for other in circle for sender in self._senders[other] - circle}
        bounds = [before.injectors[stream].low_watermark(percentile) for stream in sources]
        bounds += [before.hold(other, percentile) for other in circle | outside]
        bounds += [view.committed.get(sender, MIN_TIMESTAMP) for sender in outside]
        return bounds


@dataclass(frozen=True, slots=True)
class _View:
    """What consumers with one percentile, or with none, see of the topology."""

    percentile: float | None
    watermarks: Mapping[str, int]
    """Computation -> input low watermark; computations of deeper levels are absent."""
    now: Frontier
    before: Frontier
    committed: Mapping[str, int]


@dataclass(slots=True)
class Frontier:
    """The unfinished work of a topology at one instant."""

    injectors: dict[str, InjectorProgress] = field(default_factory=dict)
    holds: dict[str, int] = field(default_factory=dict)
    """Computation -> its oldest hold; computations without holds are absent."""
    pending: dict[str, int] = field(default_factory=dict)
    """Computation -> timestamp of the oldest pending production for it."""
    by_interval: dict[str, dict[int, int]] = field(default_factory=dict)
    """Computation -> interval -> oldest hold, `MAX_TIMESTAMP` for an interval without holds; only for computations in
    `Propagation.spread`."""

    def hold(self, name: str, percentile: float | None = None) -> int:
        """A computation's oldest hold, with a percentile the oldest without those of the slowest intervals.

        >>> Frontier(holds={"a": 1}, by_interval={"a": {0: 4, 1: 1, 2: 3, 3: 9}}).hold("a", 75)
        3
        """
        if percentile is None or name not in self.by_interval:
            return self.holds.get(name, MAX_TIMESTAMP)
        holds = sorted(self.by_interval[name].values())
        return holds[ignored(len(holds), percentile)]


def ignored(count: int, percentile: float) -> int:
    """How many of `count` intervals a consumer with a percentile does not wait for.

    >>> ignored(200, 99), ignored(99, 99)
    (2, 0)
    """
    return int(count * (100 - percentile) / 100)
