"""Whether an epoch's work is spread level by level over Spark's tasks, or runs in one task.

Between two levels Spark ends a stage, writes what tasks send each other, and begins the next stage. In one task the
levels follow each other without that, but only one processor works. A run begins with one task if its first epoch is
not large: a task that stays is no job of its own, and several are compared with what it takes. `StageExtent` chooses
between one task and several by measurements of earlier epochs, on the same machine under the same load: how long tasks
were busy, and how much longer epochs took. From time to time an epoch is a trial of the other choice, so that a wrong
estimate heals.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from headrace.lowlevel.injectors.injector import SizedSplit, Split
from headrace.runners.engine.task.host import MOST_SECONDS

LEAST_LIMIT = 10_000
"""Records that one task always reads before it gives up."""
_TIMES_AS_MANY = 4
"""One task gives an epoch up that has so many times the records of the last epochs, as its work is not foreseen."""
_MOST_WORK = MOST_SECONDS / 2
"""Seconds of expected work from which on one task is not chosen, as long work may become longer."""
_FIRST_RECORDS = 50_000
"""Largest number of records of the first epoch of a run for which one task is chosen."""
_FEW_RECORDS = 1_000
"""So many records, and fewer, are expected to be as much work as each other."""
_AVOIDED_EPOCHS = 8
"""Number of epochs that run level by level after one task has given an epoch up."""
_FIRST_OVERHEAD = 0.01
"""Seconds of an epoch in one task, which stays, besides its work, until it is measured."""
_FIRST_JOB = 0.03
"""Seconds that a job takes besides its stages, until it is measured."""
_FIRST_STAGE = 0.015
"""Seconds that a stage takes besides its work, until it is measured."""
_SMOOTHING = 0.3
_SHARES = (0.25, 2.0)
"""Bounds of `StageExtent._share`."""
_OPTIMISTIC_SHARE = 0.4
"""The `StageExtent._share` with which the benefit of a trial is estimated."""
_WORTH = 1.1
"""One task, which uses less processor time, is preferred to several up to so many times their duration."""
_PATIENCE = (4, 16, 256)
"""Epochs until a trial is thought of: at first, after a change of the choice, and at most; each time doubles them."""


@dataclass(slots=True)
class StageExtent:
    """Chooses for each epoch of one run whether it runs in one task.

    `levels` is the number of levels behind level 0, `width` the number of tasks that run at once. `is_allowed` says
    whether an epoch may run in one task.

    >>> extent = StageExtent(levels=2, width=2)
    >>> extent.choose_one_task([])
    True
    >>> for epoch in range(3):
    ...     extent.took(0.61, busy=0.6, is_one=True)
    >>> extent.choose_one_task([])
    False
    """

    levels: int
    width: int
    is_allowed: bool = True
    _overhead_of_one: float = _FIRST_OVERHEAD
    """Seconds of an epoch in one task besides the work of that task, smoothed."""
    _overhead: float = field(init=False)
    """Seconds of an epoch in several tasks besides the work of these tasks, smoothed."""
    _share: float = 0.8
    """Seconds of work in one task for each second in several, which hinder each other."""
    _work: deque[float] = field(default_factory=lambda: deque(maxlen=3))
    """Seconds of work of the last epochs, as in one task. Estimates use the least, as first tasks also load code."""
    _last: tuple[bool, float] | None = None
    """Whether the last epoch ran in one task, and the seconds that its tasks were busy."""
    _records: deque[int] = field(default_factory=lambda: deque(maxlen=16))
    """Numbers of records of the last epochs."""
    _prefers_one: bool = False
    _epochs_since_trial: int = 0
    """Number of epochs since a trial was thought of last, or the choice changed."""
    _patience: int = _PATIENCE[0]
    _avoided_epochs: int = 0
    """Number of next epochs that must not run in one task."""

    def __post_init__(self) -> None:
        self._overhead = _FIRST_JOB + _FIRST_STAGE * (self.levels + 1)

    def foresees_one_task(self) -> bool:
        """Whether the next epoch is likely to run in one task; call this before its splits are known."""
        is_possible = self.is_allowed and not self._avoided_epochs
        return is_possible and self._prefers_one and self._epochs_since_trial + 1 < self._patience

    def choose_one_task(self, splits: Sequence[Split]) -> bool:
        """Choose whether the next epoch, which reads these splits, runs in one task. Call once an epoch."""
        if not self.is_allowed or self._avoided_epochs:
            self._avoided_epochs = max(0, self._avoided_epochs - 1)
            return False
        records = _records(splits)
        if not self._work:
            return records is not None and records <= _FIRST_RECORDS
        work = min(self._work) * self._growth(records)
        return self._with_trials(self._is_one_cheaper(work), work)

    def _growth(self, records: int | None) -> float:
        """Expected work as a multiple of the last epochs, at least 1; it is 1 if the number of records is not known."""
        if records is None or not self._records:
            return 1.0
        return max(1.0, records / max(_FEW_RECORDS, *self._records))

    def _is_one_cheaper(self, work: float) -> bool:
        """Whether one task is expected to take less time than several, for `work` seconds of work in one task."""
        several = self._overhead + work / self._share / self.width
        return work < _MOST_WORK and self._overhead_of_one + work <= _WORTH * several

    def _with_trials(self, is_one: bool, work: float) -> bool:
        """Return `is_one`, the expected choice, or from time to time the other one if it may be quicker after all."""
        if is_one != self._prefers_one:
            self._prefers_one, self._epochs_since_trial, self._patience = is_one, 0, _PATIENCE[1]
        self._epochs_since_trial += 1
        if self._epochs_since_trial < self._patience:
            return is_one
        self._epochs_since_trial, self._patience = 0, min(2 * self._patience, _PATIENCE[2])
        return is_one != self._may_be_wrong(is_one, work)

    def _may_be_wrong(self, is_one: bool, work: float) -> bool:
        """Whether the other choice would be quicker if its costs, now unmeasured, were as low as is plausible."""
        if is_one:
            return work - work / self.width > self._overhead / 2
        spread = work / self._share
        alone = _OPTIMISTIC_SHARE * spread
        return alone < _MOST_WORK and alone < self._overhead + spread / self.width

    def took(self, seconds: float, busy: float, is_one: bool) -> None:
        """Learn from an epoch: its seconds, its seconds of work in all tasks, and whether it ran in one task."""
        if self._last is not None and self._last[0] != is_one:
            self._compare(*((busy, self._last[1]) if is_one else (self._last[1], busy)))
        self._last = is_one, busy
        if is_one:
            self._work.append(busy)
            self._overhead_of_one = _smoothed(self._overhead_of_one, seconds - busy)
        else:
            self._work.append(busy * self._share)
            self._overhead = _smoothed(self._overhead, seconds - busy / self.width)

    def _compare(self, alone: float, spread: float) -> None:
        """Adjust the share by the busy seconds of two consecutive epochs, one in one task and one in several."""
        if alone > 0 and spread > 0:
            self._share += (min(max(alone / spread, _SHARES[0]), _SHARES[1]) - self._share) / 2

    def read(self, records: int) -> None:
        """Note the number of records of an epoch."""
        self._records.append(records)

    def limit(self, splits: Sequence[Split]) -> int:
        """Number of records of these splits after which one task gives up."""
        return max(LEAST_LIMIT, _TIMES_AS_MANY * max(self._records, default=0), _records(splits) or 0)

    def avoid_one_task(self) -> None:
        """Run the next epochs level by level, as one task has given an epoch up."""
        self._avoided_epochs = _AVOIDED_EPOCHS


def _smoothed(value: float, measured: float) -> float:
    """The next mean: a larger measurement, which may have other causes, counts little; a smaller one counts half."""
    if measured < value:
        return (value + max(measured, 0.0)) / 2
    return value + _SMOOTHING * (min(measured, 2 * value) - value)


def _records(splits: Sequence[Split]) -> int | None:
    """Number of records of the splits; None if it is known only after reading."""
    sizes = [split.count_records() if isinstance(split, SizedSplit) else None for split in splits]
    known_sizes = [size for size in sizes if size is not None]
    return sum(known_sizes) if len(known_sizes) == len(sizes) else None
