"""How many records an epoch may have: a fixed number, a number chosen for a latency aim, or a number that is cheap.

With a latency aim, a record waits for the end of the epoch before it, and then for the end of its own epoch, so an
epoch may take half of the aim. The duration of each epoch is measured and suggests a size; the suggestions are
smoothed, so that one unusual epoch has little effect.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

LEAST = 1_000
"""The least number of records of an epoch; in smaller ones, the fixed costs of an epoch would dominate."""
_FIRST = 10_000
_WEIGHT = 0.5
"""Weight of the newest epoch in the mean of the logarithms of sizes."""
_MOST_AT_ONCE = 4.0
"""Largest factor by which one epoch may suggest a larger or a smaller size."""
USUAL = 1_000_000
"""The default number of records of an epoch."""
_QUICK_SECONDS = 0.5
_TIMES_USUAL = 4
_SHARE_HELD = 1 / 8


class Size(Protocol):
    """Chooses the number of records of each epoch of one run."""

    records: int
    """Number of records that an injector may contribute to the next epoch."""

    def took(self, records: int, seconds: float, held: int) -> None:
        """Note the duration of an epoch.

        Args:
            records: Number of records of the injector that contributed most.
            seconds: How long the epoch took.
            held: Number of records, or partial sums of records, that tasks held at once.
        """


@dataclass(slots=True)
class FixedSize:
    """A number of records that the user has chosen."""

    records: int

    def took(self, records: int, seconds: float, held: int) -> None:
        """Do nothing: the size is fixed."""


@dataclass(slots=True)
class CheapSize:
    """A million records, or four million while epochs are quick and tasks hold few records at once.

    In a quick epoch the fixed costs of an epoch matter most, and a larger one saves some of them. Because of the two
    conditions, neither the work that a crash may lose nor the memory of an epoch exceeds that of other epochs.

    >>> size = CheapSize()
    >>> size.took(1_000_000, 0.2, held=50)
    >>> size.records
    4000000
    >>> size.took(1_000_000, 0.2, held=1_000_000)
    >>> size.records
    1000000
    """

    records: int = USUAL

    def took(self, records: int, seconds: float, held: int) -> None:
        """See `Size`."""
        if records < USUAL // 2:
            # The injector had no more records: the epoch says nothing about larger ones.
            return
        is_cheap = seconds * USUAL <= _QUICK_SECONDS * records and held <= _SHARE_HELD * records
        self.records = USUAL * _TIMES_USUAL if is_cheap else USUAL


@dataclass(slots=True)
class EpochSize:
    """The number of records that fits a latency aim, from the measured durations of epochs.

    `aim` is the latency in seconds; `least` and `most` are bounds of the number, which hold for any aim.

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
    """Number of records that an injector may contribute to the next epoch."""

    @classmethod
    def of(cls, aim: float, most: int) -> EpochSize:
        """Return the size for the first epoch of a run; if `most` is less than `LEAST`, it is the lower bound, too."""
        return cls(aim, min(LEAST, most), most, min(_FIRST, most))

    def took(self, records: int, seconds: float, held: int = 0) -> None:
        """See `Size`."""
        ratio = self.aim / 2 / max(seconds, 1e-6)
        if records == 0 or (ratio >= 1 and records < self.records / 2):
            # The injector had no more records: the epoch says nothing about how long a larger one would take.
            return
        # A small epoch that took long, such as one on a busy host, has no more influence than other epochs.
        fitting = max(records * min(ratio, _MOST_AT_ONCE), self.records / _MOST_AT_ONCE)
        # The new size is halfway to the fitting one: as each epoch has fixed costs, full steps would overshoot.
        size = self.records ** (1 - _WEIGHT) * max(fitting, 1.0) ** _WEIGHT
        if ratio >= 1:
            size = max(size, self.records)
        self.records = round(min(max(size, self.least), self.most))
