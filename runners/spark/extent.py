"""How far an epoch's work is spread: level by level over Spark's tasks, or all of it in one task.

Between two levels Spark ends a stage and begins the next one, which takes longer than all the work of an epoch of a few
records. In one task the levels follow each other without that. What decides is measured from epoch to epoch, on the
same machine under the same load: how long the tasks were busy, and what a stage took besides.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf

from headrace.lowlevel.injector import MemorySplit, Split

MOST_RECORDS = 10_000
"""That are read in one task before it gives up."""
MOST_SECONDS = 2.0
"""After which one task begins nothing more of an epoch, so that others can work beside it."""
_FIRST_RECORDS = 1_000
"""In an epoch of which nothing is known but its size."""
_KEEPS_OFF = 8
"""Epochs that are spread after one that turned out too large."""
_FIRST_STAGE = 0.03
"""Seconds that a stage takes, until it is measured."""
_SMOOTHING = 0.3


@dataclass(slots=True)
class Extent:
    """Of one run's epochs, of so many levels behind the first and so many tasks at once.

    >>> extent = Extent(levels=2, width=2)
    >>> extent.is_one([])
    True
    >>> for epoch in range(2):
    ...     extent.took(0.61, busy=0.6, stages=1)
    >>> extent.is_one([])
    False
    """

    levels: int
    width: int
    is_allowed: bool = True
    _stage: float = _FIRST_STAGE
    """Seconds that a stage takes besides the work of its tasks, smoothed."""
    _busy: deque[float] = field(default_factory=lambda: deque(maxlen=2))
    """Of the last two epochs: the first ones of a process load code and open files, which is no work to come."""
    _keeps_off: int = 0

    def is_one(self, splits: Sequence[Split]) -> bool:
        """Whether the next epoch, which reads this, is to be run in one task."""
        if not self.is_allowed or self._keeps_off:
            self._keeps_off = max(0, self._keeps_off - 1)
            return False
        records = _records(splits)
        if not self._busy:
            self._busy.append(0.0 if records <= _FIRST_RECORDS else inf)
        is_large = MOST_RECORDS < records < inf
        return not is_large and self._pays(min(self._busy))

    def _pays(self, busy: float) -> bool:
        """Whether the stages that are spared cost more than what tasks beside each other would gain."""
        gain = busy - busy / self.width if busy < inf else inf
        return gain <= self._stage * self.levels and busy < MOST_SECONDS / 4

    def took(self, seconds: float, busy: float, stages: int) -> None:
        """How long an epoch took, how long its tasks were busy in all, and in how many stages."""
        self._busy.append(busy)
        beside = busy if stages == 1 else busy / self.width
        each = max(seconds - beside, 0.0) / stages
        self._stage += _SMOOTHING * (min(each, 2 * self._stage) - self._stage)

    def was_too_much(self) -> None:
        """One task has given an epoch up."""
        self._keeps_off = _KEEPS_OFF


def _records(splits: Sequence[Split]) -> float:
    """How many records there are; infinite where that is only known when they are read."""
    return sum(len(split.batch) if isinstance(split, MemorySplit) else inf for split in splits)
