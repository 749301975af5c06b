"""How late an injector's records come: what percentile low watermarks are made of (MillWheel paper §7.2).

A record's lateness is how far it is behind the greatest timestamp read before it. Recent ones are counted in buckets
that grow with the lateness, so that the counts are small, can be added up, and tell a quantile to an eighth.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from headrace.lowlevel.time import MIN_TIMESTAMP

RECENT = 65_536
"""Records that count in full; each time that many more have come, those before count half."""
_EXACT = 16
"""Latenesses below this have a bucket each, microseconds."""
_STEPS = 8
"""Buckets for each doubling beyond."""
_LONGEST = 1 << 52
"""More than a hundred years: it counts as that, so that floating-point numbers are exact."""


@dataclass(frozen=True, slots=True)
class Lateness:
    """Counts of records by lateness. Persisted: every field.

    >>> lateness = Lateness.of([100, 90, 110, 109], greatest=95)
    >>> lateness.total, lateness.quantile(50), lateness.quantile(75), lateness.quantile(100)
    (4, 0, 1, 10)
    """

    counts: Mapping[int, int] = field(default_factory=dict)
    """Bucket -> records."""

    @classmethod
    def of(cls, timestamps: Sequence[int] | NDArray[np.int64], greatest: int = MIN_TIMESTAMP) -> Lateness:
        """Of records in the order in which they were read, `greatest` being the greatest timestamp before them."""
        times = np.asarray(timestamps, np.int64)
        reached = np.maximum.accumulate(np.append(np.int64(greatest), times))[1:]
        behind = reached - times
        # Between the ends of time, the difference does not fit and comes out negative.
        behind = np.minimum(np.where(behind < 0, _LONGEST, behind), _LONGEST)
        buckets, counts = np.unique(_buckets(behind), return_counts=True)
        return cls(dict(zip(buckets.tolist(), counts.tolist(), strict=True)))

    @property
    def total(self) -> int:
        """How many records are counted."""
        return sum(self.counts.values())

    def plus(self, other: Lateness) -> Lateness:
        """Both together."""
        counts = dict(self.counts)
        for bucket, count in other.counts.items():
            counts[bucket] = counts.get(bucket, 0) + count
        return Lateness(counts)

    def followed_by(self, newer: Lateness) -> Lateness:
        """With what an epoch brings: what was there before fades."""
        if not newer.counts:
            return self
        fades = self.total + newer.total > RECENT
        older = {bucket: count // 2 for bucket, count in self.counts.items() if count > 1} if fades else self.counts
        return Lateness(older).plus(newer)

    def quantile(self, percentile: float) -> int:
        """A lateness (microseconds) that at least so many of 100 records do not exceed; at most an eighth too great."""
        needed = self.total * percentile / 100
        seen = 0
        for bucket in sorted(self.counts):
            seen += self.counts[bucket]
            if seen >= needed:
                return _greatest_in(bucket)
        return 0


NO_LATENESS = Lateness()
"""Of no records."""


def _buckets(lateness: np.ndarray[tuple[int], np.dtype[np.int64]]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The bucket of each lateness."""
    doublings = np.frexp(np.maximum(lateness, 1).astype(np.float64))[1].astype(np.int64) - 1
    steps = (lateness >> np.maximum(doublings - 3, 0)) & (_STEPS - 1)
    return np.where(lateness < _EXACT, lateness, _EXACT + (doublings - 4) * _STEPS + steps)


def _greatest_in(bucket: int) -> int:
    """The greatest lateness of a bucket."""
    if bucket < _EXACT:
        return bucket
    doublings, step = divmod(bucket - _EXACT, _STEPS)
    return ((_STEPS + step + 1) << (doublings + 1)) - 1
