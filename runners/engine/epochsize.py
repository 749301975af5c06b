"""How many records an epoch may have, so that it takes as long as the user's aim for latency allows.

A record waits for the epoch before it to end, and then for its own: an epoch may take half of the aim. How long epochs
take is measured; what each says about the size that would fit is smoothed, so that one odd epoch changes little.
"""

from __future__ import annotations

from dataclasses import dataclass

LEAST = 1_000
"""Records of an epoch: what every epoch costs would be most of the work of smaller ones."""
_FIRST = 10_000
_WEIGHT = 0.5
"""Of a new epoch, in the mean of the logarithms."""
_MOST_AT_ONCE = 4.0
"""Times that the size may grow or shrink by what one epoch says."""


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

    def took(self, records: int, seconds: float) -> None:
        """An epoch took so long, in which the injector with the most records had so many."""
        ratio = self.aim / 2 / max(seconds, 1e-6)
        if records == 0 or (ratio >= 1 and records < self.records / 2):
            # There was no more to read: this says nothing about how long a larger one would take.
            return
        fits = records * min(max(ratio, 1 / _MOST_AT_ONCE), _MOST_AT_ONCE)
        # The size that would have been right, halfway there: if every epoch costs something whatever its size, the
        # steps become smaller and do not overshoot.
        wanted = self.records ** (1 - _WEIGHT) * max(fits, 1.0) ** _WEIGHT
        if ratio >= 1:
            wanted = max(wanted, self.records)
        self.records = round(min(max(wanted, self.least), self.most))
