"""Percentile low watermarks, and the lateness of an injector's records, from which they follow.

A record's lateness is how far its timestamp is behind the greatest timestamp read before it, and 0 if it is not behind.
Recent records are counted in buckets whose width grows with the lateness, so there are few counts, they can be added,
and they give a quantile with an error of at most an eighth.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from headrace.lowlevel.time import MIN_TIMESTAMP
from headrace.lowlevel.topology.nodes import Keyed

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


@dataclass(frozen=True, slots=True)
class LowWatermark:
    """How much of the work upstream an input low watermark waits for: hooks that `Propagation` and `explain` call.

    By default it waits for everything. With a percentile it ignores outliers: the latest of the records that heuristic
    injectors read, and the slowest key intervals of senders (MillWheel paper §7.2).

    >>> most = LowWatermark(75)
    >>> most.passed(100, Lateness.of([100, 60, 99, 99])), most.skipped(9), most.hold(1, [4, 1, 3, 9])
    (99, 2, 3)
    """

    percentile: float = 100

    @classmethod
    def of(cls, node: Keyed) -> LowWatermark:
        """The low watermark that a computation asks for."""
        return cls(node.watermark_percentile or 100)

    def passed(self, greatest: int, lateness: Lateness) -> int:
        """The time that a heuristic injector has passed, in addition to the watermark that it states.

        Args:
            greatest: The greatest timestamp that it has delivered.
            lateness: Lateness of its recent records.
        """
        counts = self != STRICT and lateness.counts
        return greatest - lateness.quantile(self.percentile) if counts else MIN_TIMESTAMP

    def skipped(self, count: int) -> int:
        """How many of a sender's `count` key intervals it does not wait for."""
        return int(count * (100 - self.percentile) / 100)

    def hold(self, oldest: int, by_interval: Collection[int]) -> int:
        """The hold of a sender that counts: its oldest, or another one of `by_interval`, if these are known."""
        skipped = self.skipped(len(by_interval))
        return sorted(by_interval)[skipped] if skipped else oldest

    def __str__(self) -> str:
        """What it does not wait for."""
        return f"it ignores the slowest {100 - self.percentile:g} % of records and key intervals"


STRICT = LowWatermark()
"""The low watermark that waits for everything."""


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
