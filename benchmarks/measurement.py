"""What was measured: seconds of repeated runs, their median, and ratios of one system to another."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import TypeVar

T = TypeVar("T")


@dataclass(slots=True)
class Measurement:
    """Repeated runs of one thing. Runs of things to compare are interleaved: run n of each saw the same machine.

    >>> ours, theirs = Measurement("ours", 10, [1.0, 2.0, 4.0]), Measurement("theirs", 10, [3.0, 4.0, 20.0])
    >>> ours.rate
    5.0
    >>> ours.times_faster(theirs)
    3.0
    """

    name: str
    events: int
    """How many events each run works through."""
    seconds: list[float] = field(default_factory=list)
    note: str = ""
    megabytes: dict[str, float] = field(default_factory=dict)
    """Kind of process -> its peak in any run."""

    def took(self, seconds: float, megabytes: Mapping[str, float]) -> None:
        """Note one run."""
        self.seconds.append(seconds)
        for kind, peak in megabytes.items():
            self.megabytes[kind] = max(peak, self.megabytes.get(kind, 0.0))

    @property
    def median(self) -> float:
        """Seconds of the run in the middle."""
        return median(self.seconds)

    @property
    def rate(self) -> float:
        """Events a second in the run in the middle."""
        return self.events / self.median

    def times_faster(self, other: Measurement) -> float:
        """How many times the other's time an event takes there: the median over pairs of runs of one round."""
        pairs = zip(self.seconds, other.seconds, strict=True)
        return median(theirs * self.events / (ours * other.events) for ours, theirs in pairs)


def timed(run: Callable[[], T]) -> tuple[T, float]:
    """What the function returns, and the seconds that it took."""
    start = time.perf_counter()
    result = run()
    return result, time.perf_counter() - start
