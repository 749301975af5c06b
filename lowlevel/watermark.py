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

    def after(self, greatest: int, watermark: int, done: bool) -> InjectorProgress:
        """Progress after a delivery: the greatest timestamp read and what the injector says of itself.

        >>> InjectorProgress(delay=10).after(greatest=100, watermark=MIN_TIMESTAMP, done=False).watermark
        90
        """
        greatest = max(greatest, self.greatest)
        reached = MAX_TIMESTAMP if done else max(watermark, heuristic_watermark(greatest, self.delay))
        return InjectorProgress(max(reached, self.watermark), greatest, self.delay)


class Propagation:
    """The shape of a topology, prepared for computing its computations' watermarks again and again."""

    def __init__(self, topology: Topology) -> None:
        self._levels = topology.levels()
        self._senders = topology.senders(aside=False)
        self._sources = topology.sources(aside=False)
        self._circles = topology.circles()

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
        watermarks: dict[str, int] = {}
        for names in self._levels:
            for name in names:
                circle = self._circles[name]
                known = before if circle else now
                bounds = [known.injectors[stream].watermark for stream in self._sources[name]]
                bounds += [known.pending.get(name, MAX_TIMESTAMP)]
                for sender in self._senders[name]:
                    held = known.holds.get(sender, MAX_TIMESTAMP)
                    bounds.append(held)
                    if sender not in circle:
                        reached = committed.get(sender, MIN_TIMESTAMP) if circle else watermarks[sender]
                        bounds.append(reached)
                if circle:
                    bounds += [known.pending.get(other, MAX_TIMESTAMP) for other in circle]
                    bounds += self._outside(circle, before, committed)
                watermarks[name] = max(min(bounds), committed.get(name, MIN_TIMESTAMP))
        return watermarks

    def _outside(self, circle: frozenset[str], before: Frontier, committed: Mapping[str, int]) -> list[int]:
        """Bounds that enter a circle through any of its members, as known at the start of the epoch."""
        bounds = [before.injectors[stream].watermark for other in circle for stream in self._sources[other]]
        bounds += [before.holds.get(other, MAX_TIMESTAMP) for other in circle]
        for other in circle:
            bounds += [committed.get(sender, MIN_TIMESTAMP) for sender in self._senders[other] - circle]
            bounds += [before.holds.get(sender, MAX_TIMESTAMP) for sender in self._senders[other] - circle]
        return bounds


@dataclass(slots=True)
class Frontier:
    """What is known of the unfinished work at one instant."""

    injectors: dict[str, InjectorProgress] = field(default_factory=dict)
    holds: dict[str, int] = field(default_factory=dict)
    """Computation -> its oldest hold; absent where there is none."""
    pending: dict[str, int] = field(default_factory=dict)
    """Computation -> the oldest production that waits for delivery to it in this epoch."""
