"""How many records an epoch may have: what the user says, what an aim for latency allows, or what is cheap.

With an aim, a record waits for the epoch before it to end, and then for its own: an epoch may take half of the aim. How
long epochs take is measured; what each says about the size that would fit is smoothed, so that one odd epoch changes
little.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

LEAST = 1_000
"""Records of an epoch: what every epoch costs would be most of the work of smaller ones."""
_FIRST = 10_000
_WEIGHT = 0.5
"""Of a new epoch, in the mean of the logarithms."""
_MOST_AT_ONCE = 4.0
"""Times that the size may grow or shrink by what one epoch says."""
USUAL = 1_000_000
"""Records of an epoch where the user says nothing."""
_QUICK_SECONDS = 0.5
_TIMES_USUAL = 4
_SHARE_KEPT = 1 / 8


class Size(Protocol):
    """How many records epochs of one run have."""

    records: int
    """That an injector may contribute to the next epoch."""

    def took(self, records: int, seconds: float, kept: int) -> None:
        """An epoch took so long, in which the injector with the most records had so many.

        `kept` is how many of all that came of them tasks held at once: what reached keyed computations and sinks.
        """


@dataclass(slots=True)
class FixedSize:
    """What the user says."""

    records: int

    def took(self, records: int, seconds: float, kept: int) -> None:
        """Nothing changes."""


@dataclass(slots=True)
class CheapSize:
    """As usual, and more where an epoch is done soon and little comes of it: then most of it is what every one costs.

    So neither the work that a crash may lose nor the memory that an epoch takes becomes more than usual.

    >>> size = CheapSize()
    >>> size.took(1_000_000, 0.2, kept=50)
    >>> size.records
    4000000
    >>> size.took(1_000_000, 0.2, kept=1_000_000)
    >>> size.records
    1000000
    """

    records: int = USUAL

    def took(self, records: int, seconds: float, kept: int) -> None:
        """See `Size`."""
        if records < USUAL // 2:
            # There was no more to read.
            return
        is_cheap = seconds * USUAL <= _QUICK_SECONDS * records and kept <= _SHARE_KEPT * records
        self.records = USUAL * _TIMES_USUAL if is_cheap else USUAL


@dataclass(slots=True)
class EpochSize:
    """Of one run. `aim` is the latency in seconds, `most` the bound that holds whatever the aim.

    >>> size = EpochSize.of(1.0, 1_000_000)
    >>> for _ in range(20):
    ...     size.took(size.records, seconds=0.1 + size.records * 1e-5)
    >>> round(size.records, -2)
    40000
    """

    aim: float
    least: int
    most: int
    records: int
    """That an injector may contribute to the next epoch."""

    @classmethod
    def of(cls, aim: float, most: int) -> EpochSize:
        """To begin with; `most` may be less than the least size that is chosen otherwise."""
        return cls(aim, min(LEAST, most), most, min(_FIRST, most))

    def took(self, records: int, seconds: float, kept: int = 0) -> None:
        """See `Size`."""
        ratio = self.aim / 2 / max(seconds, 1e-6)
        if records == 0 or (ratio >= 1 and records < self.records / 2):
            # There was no more to read: this says nothing about how long a larger one would take.
            return
        # An epoch with little to read that took long, as while a host was busy, has no more to say than others.
        fits = max(records * min(ratio, _MOST_AT_ONCE), self.records / _MOST_AT_ONCE)
        # The size that would have been right, halfway there: if every epoch costs something whatever its size, the
        # steps become smaller and do not overshoot.
        wanted = self.records ** (1 - _WEIGHT) * max(fits, 1.0) ** _WEIGHT
        if ratio >= 1:
            wanted = max(wanted, self.records)
        self.records = round(min(max(wanted, self.least), self.most))
