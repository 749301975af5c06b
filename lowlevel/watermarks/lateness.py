"""The lateness of an injector's records, from which percentile low watermarks are computed (MillWheel paper §7.2).

A record's lateness is how far its timestamp is behind the greatest timestamp read before it, and 0 if it is not behind.
Recent records are counted in buckets whose width grows with the lateness, so there are few counts, they can be added,
and they give a quantile with an error of at most an eighth.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from headrace.lowlevel.time import MIN_TIMESTAMP

RECENT = 65_536
"""Greatest number of records that count in full; when a delivery would exceed it, the earlier counts are halved."""
_EXACT = 16
"""Each lateness below this many microseconds has its own bucket."""
_STEPS = 8
"""Buckets for each doubling of the lateness above `_EXACT`."""
_LONGEST = 1 << 52
"""The greatest lateness that is counted, more than a hundred years: floating-point numbers are exact up to it."""


@dataclass(frozen=True)
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
        """Count records.

        Args:
            timestamps: Event time of each record in the order of reading, microseconds UTC.
            greatest: The greatest timestamp read before them.
        """
        times = np.asarray(timestamps, np.int64)
        reached = np.maximum.accumulate(np.append(np.int64(greatest), times))[1:]
        behind = reached - times
        # A difference that exceeds 64 bits is negative.
        behind = np.minimum(np.where(behind < 0, _LONGEST, behind), _LONGEST)
        buckets, counts = np.unique(_buckets(behind), return_counts=True)
        return cls(dict(zip(buckets.tolist(), counts.tolist(), strict=True)))

    @property
    def total(self) -> int:
        """The sum of all counts."""
        return sum(self.counts.values())

    def plus(self, other: Lateness) -> Lateness:
        """The sum of both counts."""
        counts = dict(self.counts)
        for bucket, count in other.counts.items():
            counts[bucket] = counts.get(bucket, 0) + count
        return Lateness(counts)

    def followed_by(self, newer: Lateness) -> Lateness:
        """The counts after a delivery, whose counts are `newer`; earlier counts may be halved, see `RECENT`."""
        if not newer.counts:
            return self
        fades = self.total + newer.total > RECENT
        older = {bucket: count // 2 for bucket, count in self.counts.items() if count > 1} if fades else self.counts
        return Lateness(older).plus(newer)

    def quantile(self, percentile: float) -> int:
        """The lateness (microseconds) that `percentile` % of the records do not exceed, or up to an eighth more."""
        needed = self.total * percentile / 100
        count = 0
        for bucket in sorted(self.counts):
            count += self.counts[bucket]
            if count >= needed:
                return _greatest_in(bucket)
        return 0


NO_LATENESS = Lateness()
"""The lateness of no records."""


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
