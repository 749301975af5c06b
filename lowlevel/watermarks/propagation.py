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
from headrace.lowlevel.watermarks.lateness import NO_LATENESS, STRICT, Lateness, LowWatermark


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
    """The lateness of recent records; counted only if a consumer needs it."""

    def with_delivery(
        self, greatest: int, watermark: int, done: bool, lateness: Lateness = NO_LATENESS
    ) -> InjectorProgress:
        """The progress after a delivery.

        Args:
            greatest: The greatest timestamp read.
            watermark: The low watermark that the injector states.
            done: Whether its input has ended.
            lateness: Lateness of the records read.

        >>> InjectorProgress(delay=10).with_delivery(greatest=100, watermark=MIN_TIMESTAMP, done=False).watermark
        90
        """
        greatest = max(greatest, self.greatest)
        reached = MAX_TIMESTAMP if done else max(watermark, heuristic_watermark(greatest, self.delay))
        recent = self.lateness.followed_by(lateness)
        return InjectorProgress(max(reached, self.watermark), greatest, self.delay, recent)

    def low_watermark(self, low: LowWatermark = STRICT) -> int:
        """The watermark as a consumer with this low watermark sees it; all see the same unless it is heuristic."""
        return self.watermark if self.delay is None else max(self.watermark, low.passed(self.greatest, self.lateness))


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
        self.senders = topology.senders(aside=False)
        """Computation -> the computations whose records its low watermark waits for."""
        self.sources = topology.sources(aside=False)
        """Computation -> the injector streams for which its low watermark waits."""
        self._circles = topology.circles()
        self.own = {name: LowWatermark.of(node) for name, node in topology.keyed.items()}
        """Computation -> how much of the work upstream its low watermark waits for."""
        lenient = {name for name, low in self.own.items() if low != STRICT}
        self.spread = frozenset().union(*(self._upstream(name) for name in lenient))
        """Computations whose holds must be known by interval: those upstream of one that does not wait for all."""
        self.asked = frozenset[str]().union(*(self.sources[name] for name in lenient | self.spread))
        """Injector streams whose lateness must be counted, if their watermark is heuristic."""

    def _upstream(self, name: str) -> set[str]:
        """Computations on which a computation's low watermark depends, directly or through others."""
        found, queue = set[str](), [name]
        for computation in queue:
            new = self.senders[computation] - found
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
        # Low watermark of a consumer -> the watermarks that it sees: strict, or without outliers.
        views: dict[LowWatermark, dict[str, int]] = {low: {} for low in {STRICT, *self.own.values()}}
        for names in self._levels:
            for name in names:
                for low, view in views.items():
                    # What a computation does not wait for, none of its consumers waits for.
                    applied = low if self.own[name] == STRICT else self.own[name]
                    view[name] = self._input(name, _Upstream(applied, views[applied], now, before, committed))
        return views[STRICT]

    def _input(self, name: str, view: _Upstream) -> int:
        """The input low watermark of one computation."""
        circle, before, committed = self._circles[name], view.before, view.committed
        known = before if circle else view.now
        bounds = [known.injectors[stream].low_watermark(view.low) for stream in self.sources[name]]
        bounds += [known.pending.get(name, MAX_TIMESTAMP)]
        for sender in self.senders[name]:
            bounds.append(known.hold(sender, view.low))
            if sender not in circle:
                bounds.append(committed.get(sender, MIN_TIMESTAMP) if circle else view.watermarks[sender])
        if circle:
            bounds += [known.pending.get(other, MAX_TIMESTAMP) for other in circle]
            bounds += self._outside(circle, view)
        return max(min(bounds), committed.get(name, MIN_TIMESTAMP))

    def _outside(self, circle: frozenset[str], view: _Upstream) -> list[int]:
        """Bounds that enter a circle through any of its members, as known at the start of the epoch."""
        before, low = view.before, view.low
        sources = {stream for other in circle for stream in self.sources[other]}
        outside = {sender for other in circle for sender in self.senders[other] - circle}
        bounds = [before.injectors[stream].low_watermark(low) for stream in sources]
        bounds += [before.hold(other, low) for other in circle | outside]
        bounds += [view.committed.get(sender, MIN_TIMESTAMP) for sender in outside]
        return bounds


@dataclass(frozen=True, slots=True)
class _Upstream:
    """What consumers with one kind of low watermark see of the topology."""

    low: LowWatermark
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

    def hold(self, name: str, low: LowWatermark) -> int:
        """A computation's oldest hold for which a consumer with this low watermark waits."""
        return low.hold(self.holds.get(name, MAX_TIMESTAMP), self.by_interval.get(name, {}).values())
