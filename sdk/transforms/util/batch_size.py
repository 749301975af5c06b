"""How large batches should be, learnt from how long they take (`BatchElements`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

_REMEMBERED = 100
_GROWTH = 2
_BLIND_GROWTH = 64
"""How many times the least size a batch may have before any was timed."""
_KEPT = 0.8
"""Share of the timings that count: the slowest are noise."""
_GOLDEN = 0.618034
"""Its multiples, without their whole parts, are spread evenly however many there are."""


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """What a batch's size is chosen by; durations in seconds.

    A batch takes a fixed time and a time for each element. Its size is the greatest for which the share of the fixed
    time is still at least `overhead`, all elements take at most `duration`, and the whole at most `duration_in_all`.
    """

    least: int = 1
    greatest: int = 10_000
    overhead: float | None = 0.05
    duration: float | None = 10
    duration_in_all: float | None = None
    variance: float = 0.25
    """By what share sizes are varied, to learn from the difference."""

    def __post_init__(self) -> None:
        if not 1 <= self.least <= self.greatest:
            raise ValueError(
                f"min_batch_size is {self.least} and max_batch_size {self.greatest}; give 1 <= minimum <= maximum"
            )
        if self.overhead is not None and not 0 < self.overhead <= 1:
            raise ValueError(f"target_batch_overhead is {self.overhead}; give a share above 0, up to 1")
        for name, value in (("", self.duration), ("_including_fixed_cost", self.duration_in_all)):
            if value is not None and value <= 0:
                raise ValueError(f"target_batch_duration_secs{name} is {value}; give more than 0 seconds")
        if self.overhead is None and self.duration is None and self.duration_in_all is None:
            raise ValueError("give a target_batch_overhead, a target_batch_duration_secs, or one including fixed cost")

    def target(self, fixed: float, each: float) -> float:
        """The size for batches that take `fixed` seconds and `each` for every element."""
        targets = [float(self.greatest)]
        if self.overhead is not None:
            targets.append(fixed / each * (1 / self.overhead - 1))
        if self.duration is not None:
            targets.append(self.duration / each)
        if self.duration_in_all is not None:
            targets.append((self.duration_in_all - fixed) / each)
        return min(targets)


class BatchSize:
    """Chooses sizes. It is part of a step's function: what it has learnt stays in its process.

    >>> size = BatchSize(BatchLimits(least=4, greatest=4), clock=lambda: 0.0)
    >>> size.next()
    4
    """

    def __init__(self, limits: BatchLimits, clock: Callable[[], float]) -> None:
        self._limits, self._clock = limits, clock
        self._timings: list[tuple[int, float]] = []
        self._chosen = 0
        self._last = 0
        self._begun: tuple[int, float] | None = None

    def begins(self, size: int) -> float | None:
        """A batch is about to be worked on; the seconds that the one before took, if there was one in this bundle."""
        now = self._clock()
        before, self._begun = self._begun, (size, now)
        if before is None:
            return None
        elapsed = now - before[1]
        self._timings = [*self._timings[1 - _REMEMBERED :], (before[0], elapsed)]
        return elapsed

    def ends(self) -> None:
        """The bundle ends: what comes until the next one is no batch's time."""
        self._begun = None

    def next(self) -> int:
        """How many elements the next batch should have."""
        limits = self._limits
        self._chosen += 1
        if limits.least == limits.greatest:
            return limits.least
        if len({size for size, _ in self._timings}) < 2:
            # Without a difference nothing can be learnt, so there is one.
            grown = max(_GROWTH * self._last, limits.least)
            self._last = min(grown, _BLIND_GROWTH * limits.least, limits.greatest)
            return self._last
        fixed, each = self._costs()
        varied = limits.target(fixed, each) * (1 + 2 * limits.variance * (self._chosen * _GOLDEN % 1 - 0.5))
        most = min(limits.greatest, _GROWTH * max(size for size, _ in self._timings))
        self._last = int(max(limits.least, min(varied, most)))
        return self._last

    def _costs(self) -> tuple[float, float]:
        """Fixed seconds of a batch and seconds for each element: a line through the timings."""
        by_element = sorted(self._timings, key=lambda timing: timing[1] / max(timing[0], 1))
        kept = by_element[: max(2, int(len(by_element) * _KEPT))]
        if len({size for size, _ in kept}) < 2:
            kept = by_element
        sizes, seconds = np.array(kept, float).T
        each, fixed = np.polyfit(sizes, seconds, 1)
        # Noise can make either of them negative.
        return max(float(fixed), 1e-10), max(float(each), 1e-12)
