"""How far an epoch's work is spread: over Spark's tasks, level by level or after each has read it, or all in one task.

Between two levels Spark ends a stage, writes what goes from task to task, and begins the next one. In one task the
levels follow each other without that, but only one processor works. Where it makes no difference who reads, several
tasks may each read all of an epoch that is not large, and work on what is theirs: that takes less than the stage. What
decides between one task and several is measured from epoch to epoch, on the same machine under the same load: how long
tasks were busy, and what epochs of either way took besides. Now and then the other way is tried, so that a wrong
estimate heals.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf

from headrace.lowlevel.injector import SizedSplit, Split, TellingSplit

MOST_SECONDS = 2.0
"""After which one task begins nothing more of an epoch, so that others can work beside it."""
LEAST_LIMIT = 10_000
"""Records that one task always reads before it gives up."""
_TIMES_AS_MANY = 4
"""As the last epochs had, from which on one task gives up: what comes of so many is not foreseen."""
_MOST_WORK = MOST_SECONDS / 2
"""Seconds of work in one task: what is long may become longer."""
_FIRST_RECORDS = 1_000
"""In an epoch of which nothing is known but its size."""
_KEEPS_OFF = 8
"""Epochs that are spread after one that turned out too large."""
_FIRST_STAGE = 0.03
"""Seconds that a stage takes, until it is measured."""
_SMOOTHING = 0.3
_SHARES = (0.25, 2.0)
"""Bounds of what work in one task takes of the same work spread."""
_OPTIMISTIC_SHARE = 0.4
_MOST_READ_ALIKE = 100_000
"""Records up to which each of several tasks may read all. Reading and combining takes some 0.35 us a record of W1 or W4
(docs/performance.md), so for this many about as long as a stage, whose columns are made into bytes and back besides."""
_MOST_READERS = 4
"""Tasks that may do so: what they read costs as many times as much."""
_SPARED_BY_ONE = 0.2
"""Of what several tasks of one stage take besides their work, at most, by having one task instead."""
_WORTH = 1.1
"""How many times as long one task must take: all together they take more processor time than one."""
_PATIENCE = (4, 16, 256)
"""Epochs from one trial to the next: at first, after a change, and at most, once trials have changed nothing."""


@dataclass(slots=True)
class _Several:
    """What epochs take that several tasks work on, in one of two ways."""

    besides: float
    """Seconds besides the work of the tasks, smoothed."""
    stages: float
    """Of these, the part that one task spares."""
    share: float = 0.8
    """What the work takes in one task, of what it takes in several that hinder each other and may read the same."""


@dataclass(slots=True)
class Extent:
    """Of one run's epochs, of so many levels behind the first and so many tasks at once.

    `reads_alike` says whether several tasks may read the same.

    >>> extent = Extent(levels=2, width=2)
    >>> extent.is_one([])
    True
    >>> for epoch in range(3):
    ...     extent.took(0.61, busy=0.6, is_one=True)
    >>> extent.is_one([])
    False
    """

    levels: int
    width: int
    is_allowed: bool = True
    reads_alike: bool = False
    _besides_one: float = _FIRST_STAGE
    """Seconds that an epoch in one task takes besides the work of that task, smoothed."""
    _spread: _Several = field(init=False)
    """The way of a stage for each level."""
    _alike: _Several = field(default_factory=lambda: _Several(_FIRST_STAGE, _SPARED_BY_ONE))
    """The way of several tasks that each read all of an epoch."""
    _several: _Several = field(init=False)
    """The one of the two that the next epoch goes unless it goes through one task."""
    _work: deque[float] = field(default_factory=lambda: deque(maxlen=3))
    """Of the last epochs, seconds in one task: the first ones of a process load code, which is no work to come."""
    _last: tuple[_Several | None, float] | None = None
    """Which way the last epoch went, None for one task, and how long its tasks were busy."""
    _records: deque[int] = field(default_factory=lambda: deque(maxlen=16))
    """That the last epochs read."""
    _prefers_one: bool = False
    _waited: int = 0
    """Epochs since the other way was tried."""
    _patience: int = _PATIENCE[0]
    _keeps_off: int = 0

    def __post_init__(self) -> None:
        stages = self.levels / (self.levels + 1)
        self._several = self._spread = _Several(_FIRST_STAGE * (self.levels + 1), stages)

    def foresees_one_reader(self) -> bool:
        """Whether each task of the next epoch is likely to read all of it, before it is known what that is."""
        if not self.is_allowed or self._keeps_off:
            return False
        return (self._prefers_one and self._waited + 1 < self._patience) or self._is_for_all(None)

    def is_one(self, splits: Sequence[Split]) -> bool:
        """Whether the next epoch, which reads this, is to be run in one task."""
        self._several = self._spread
        if not self.is_allowed or self._keeps_off:
            self._keeps_off = max(0, self._keeps_off - 1)
            return False
        records = _records(splits)
        if self._is_for_all(records) and not any(isinstance(split, TellingSplit) for split in splits):
            self._several = self._alike
        if not self._work:
            self._work.append(0.0 if records is not None and records <= _FIRST_RECORDS else inf)
        work = min(self._work) * self._growth(records)
        return self._tried(self._pays(work), work)

    def is_alike(self) -> bool:
        """Whether each task is to read all of the epoch that `is_one` was asked about, which is not to be in one."""
        return self._several is self._alike

    def _is_for_all(self, records: int | None) -> bool:
        """Whether so many records are few enough for each task to read them; None for about as many as there were."""
        most = max(self._records, default=None) if records is None else records
        return self.reads_alike and 1 < self.width <= _MOST_READERS and most is not None and most <= _MOST_READ_ALIKE

    def _growth(self, records: int | None) -> float:
        """How much more there is to do than in the last epochs, by the number of records if it is known."""
        if records is None or not self._records:
            return 1.0
        return max(1.0, records / max(_FIRST_RECORDS, *self._records))

    def _pays(self, work: float) -> bool:
        """Whether what is spared costs more than what tasks beside each other would gain."""
        if work == 0 or work >= _MOST_WORK:
            return work == 0
        one, several = self._besides_one + work, self._several
        if several is self._alike:
            return one <= _WORTH * (max(several.besides, self._besides_one) + work / several.share / self.width)
        return one <= several.besides + work / several.share / self.width

    def _tried(self, is_one: bool, work: float) -> bool:
        """The way that is thought to be quicker, or from time to time the other one, if it may be quicker after all."""
        if is_one != self._prefers_one:
            self._prefers_one, self._waited, self._patience = is_one, 0, _PATIENCE[1]
        self._waited += 1
        if self._waited < self._patience or not self._may_be_wrong(is_one, work):
            return is_one
        self._waited, self._patience = 0, min(2 * self._patience, _PATIENCE[2])
        return not is_one

    def _may_be_wrong(self, is_one: bool, work: float) -> bool:
        """Whether the other way would be quicker if what is not measured just now were as good as can be."""
        several = self._several
        if is_one:
            stages = several.stages / (1 - several.stages)
            return work - work / self.width > self._besides_one * stages / 2
        spread = work / several.share
        alone = _OPTIMISTIC_SHARE * spread
        return alone < _MOST_WORK and alone < several.besides * several.stages + spread / self.width

    def took(self, seconds: float, busy: float, is_one: bool) -> None:
        """How long an epoch took, how long its tasks were busy in all, and whether it was one task."""
        way, several = (None if is_one else self._several), self._several
        if self._last is not None:
            self._compare(*self._last, way, busy)
        self._last = way, busy
        if is_one:
            self._work.append(busy)
            self._besides_one = _smoothed(self._besides_one, seconds - busy)
        else:
            self._work.append(busy * several.share)
            several.besides = _smoothed(several.besides, seconds - busy / self.width)

    @staticmethod
    def _compare(before: _Several | None, busy_before: float, now: _Several | None, busy: float) -> None:
        """Learn from two epochs in a row of which one was in one task."""
        several, one, spread = (before, busy, busy_before) if now is None else (now, busy_before, busy)
        if several is not None and (before is None or now is None) and one > 0 and spread > 0:
            several.share += (min(max(one / spread, _SHARES[0]), _SHARES[1]) - several.share) / 2

    def read(self, records: int) -> None:
        """How many records an epoch has read."""
        self._records.append(records)

    def limit(self, splits: Sequence[Split]) -> int:
        """Records that one task reads of this before it gives up."""
        return max(LEAST_LIMIT, _TIMES_AS_MANY * max(self._records, default=0), _records(splits) or 0)

    def was_too_much(self) -> None:
        """A stage has given an epoch up."""
        self._keeps_off = _KEEPS_OFF

    def was_unlike(self) -> None:
        """Tasks have not read the same, or could not tell: none of this run's epochs is tried so again."""
        self.reads_alike = False

    def is_spread(self) -> None:
        """The epoch that `is_one` was asked about goes level by level, whatever seemed best."""
        self._several = self._spread


def _smoothed(value: float, measured: float) -> float:
    """One epoch that something else held up must not count for much; one that was quick could do what it did."""
    if measured < value:
        return (value + max(measured, 0.0)) / 2
    return value + _SMOOTHING * (min(measured, 2 * value) - value)


def _records(splits: Sequence[Split]) -> int | None:
    """How many records there are; None where that is only known when they are read."""
    sizes = [split.count_records() if isinstance(split, SizedSplit) else None for split in splits]
    known = [size for size in sizes if size is not None]
    return sum(known) if len(known) == len(sizes) else None
