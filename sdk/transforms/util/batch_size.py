"""Choice of batch sizes, learned from the times that batches take (`BatchElements`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

_REMEMBERED = 100
_GROWTH = 2
_BLIND_GROWTH = 64
"""Greatest ratio of a batch's size to the least size before two sizes were timed."""
_KEPT = 0.8
"""Share of the timings that are used; the slowest ones are noise."""
_GOLDEN = 0.618034
"""The golden ratio's fractional part: the fractional parts of its multiples are spread evenly, for any count."""


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """The rules by which batch sizes are chosen; durations in seconds.

    A batch takes a fixed time and a time for each element. The size of a batch is the greatest one for which the share
    of the fixed time is at least `overhead`, the elements take at most `duration`, and the whole batch takes at most
    `duration_in_all`. `ValueError` is raised for limits that are out of range or contradict each other.
    """

    least: int = 1
    greatest: int = 10_000
    overhead: float | None = 0.05
    duration: float | None = 10
    duration_in_all: float | None = None
    variance: float = 0.25
    """The share by which sizes are varied, to measure the effect of the size."""

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
        """The target size if a batch takes `fixed` seconds and `each` seconds for every element."""
        targets = [float(self.greatest)]
        if self.overhead is not None:
            targets.append(fixed / each * (1 / self.overhead - 1))
        if self.duration is not None:
            targets.append(self.duration / each)
        if self.duration_in_all is not None:
            targets.append((self.duration_in_all - fixed) / each)
        return min(targets)


class BatchSize:
    """Chooses batch sizes from measurements. It is part of a step's function, so measurements stay in one process.

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
        """Start timing a batch; the result is the time of the batch before it in the bundle, in seconds."""
        now = self._clock()
        before, self._begun = self._begun, (size, now)
        if before is None:
            return None
        elapsed = now - before[1]
        self._timings = [*self._timings[1 - _REMEMBERED :], (before[0], elapsed)]
        return elapsed

    def ends(self) -> None:
        """End a bundle, so that the time until the next bundle is not counted."""
        self._begun = None

    def next(self) -> int:
        """The size that the next batch should have."""
        limits = self._limits
        self._chosen += 1
        if limits.least == limits.greatest:
            return limits.least
        if len({size for size, _ in self._timings}) < 2:
            # Nothing can be learned from batches of a single size, so the size grows.
            grown = max(_GROWTH * self._last, limits.least)
            self._last = min(grown, _BLIND_GROWTH * limits.least, limits.greatest)
            return self._last
        fixed, each = self._costs()
        varied = limits.target(fixed, each) * (1 + 2 * limits.variance * (self._chosen * _GOLDEN % 1 - 0.5))
        most = min(limits.greatest, _GROWTH * max(size for size, _ in self._timings))
        self._last = int(max(limits.least, min(varied, most)))
        return self._last

    def _costs(self) -> tuple[float, float]:
        """Fixed time of a batch and time for each element, in seconds, by linear regression of the timings."""
        by_element = sorted(self._timings, key=lambda timing: timing[1] / max(timing[0], 1))
        kept = by_element[: max(2, int(len(by_element) * _KEPT))]
        if len({size for size, _ in kept}) < 2:
            kept = by_element
        sizes, seconds = np.array(kept, float).T
        each, fixed = np.polyfit(sizes, seconds, 1)
        # Noise can make either of them negative.
        return max(float(fixed), 1e-10), max(float(each), 1e-12)
