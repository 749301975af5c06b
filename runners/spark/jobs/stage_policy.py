"""How far an epoch's work is spread: level by level over Spark's tasks, over several tasks of one stage, or not at all.

Between two levels Spark ends a stage, writes what tasks send each other, and begins the next stage. In one task the
levels follow each other without that, but only one processor works. Where a repeated read gives the same records,
several tasks of one stage may each read all input of an epoch that is not large, and process the records of their own
intervals, in less time than another stage takes. A run begins with one task if its first epoch is not large: a task
that stays is no job of its own, and several are compared with what it takes. `StageExtent` chooses between one task and
several by measurements of earlier epochs, on the same machine under the same load: how long tasks were busy, and how
much longer epochs took. From time to time an epoch is a trial of the other choice, so that a wrong estimate heals.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from headrace.lowlevel.injectors.injector import SizedSplit, Split, TellingSplit
from headrace.runners.spark.worker.records_read import MOST_SECONDS

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
"""Number of epochs that run level by level after one stage has given an epoch up."""
_FIRST_OVERHEAD = 0.01
"""Seconds of an epoch in one task, which stays, besides its work, until it is measured."""
_FIRST_JOB = 0.03
"""Seconds that a job takes besides its stages, until it is measured."""
_FIRST_STAGE = 0.015
"""Seconds that a stage takes besides its work, until it is measured."""
_SMOOTHING = 0.3
_SHARES = (0.25, 2.0)
"""Bounds of `_ManyTasks.share`."""
_OPTIMISTIC_SHARE = 0.4
"""The `_ManyTasks.share` with which the benefit of a trial is estimated."""
_MOST_READ_ALIKE = 100_000
"""Largest number of records of which each of several tasks may read all. Reading and combining takes some 0.35 us for a
record of W1 or W4 (docs/performance.md), so for so many records about as long as a stage."""
_MOST_READERS = 4
"""Largest number of tasks that may each read all input: together, their reading costs so many times as much."""
_WORTH = 1.1
"""One task, which uses less processor time, is preferred to several up to so many times their duration."""
_PATIENCE = (4, 16, 256)
"""Epochs until a trial is thought of: at first, after a change of the choice, and at most; each time doubles them."""


@dataclass(slots=True)
class _ManyTasks:
    """Measured costs of epochs in several tasks: either level by level, or with redundant reads."""

    overhead: float
    """Seconds of an epoch besides the work of its tasks, smoothed."""
    share: float = 0.8
    """Seconds of work in one task for each second in several, which hinder each other and may read the same records."""


@dataclass(slots=True)
class StageExtent:
    """Chooses for each epoch of one run how far its work is spread.

    `levels` is the number of levels behind level 0, `width` the number of tasks that run at once. `is_allowed` says
    whether an epoch may have one stage, `reads_alike` whether several tasks may each read all input.

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
    reads_alike: bool = False
    _overhead_of_one: float = _FIRST_OVERHEAD
    """Seconds of an epoch in one task besides the work of that task, smoothed."""
    _spread: _ManyTasks = field(init=False)
    """Costs of a stage for each level."""
    _alike: _ManyTasks = field(default_factory=lambda: _ManyTasks(_FIRST_JOB + _FIRST_STAGE))
    """Costs of several tasks of one stage that each read all of an epoch."""
    _many: _ManyTasks = field(init=False)
    """Which of these two the next epoch uses unless it runs in one task."""
    _work: deque[float] = field(default_factory=lambda: deque(maxlen=3))
    """Seconds of work of the last epochs, as in one task. Estimates use the least, as first tasks also load code."""
    _last: tuple[_ManyTasks | None, float] | None = None
    """The costs that the last epoch belongs to, None for one task, and the seconds that its tasks were busy."""
    _records: deque[int] = field(default_factory=lambda: deque(maxlen=16))
    """Numbers of records of the last epochs."""
    _prefers_one: bool = False
    _epochs_since_trial: int = 0
    """Number of epochs since a trial was thought of last, or the choice changed."""
    _patience: int = _PATIENCE[0]
    _avoided_epochs: int = 0
    """Number of next epochs that must not have one stage."""

    def __post_init__(self) -> None:
        self._many = self._spread = _ManyTasks(_FIRST_JOB + _FIRST_STAGE * (self.levels + 1))

    def foresees_one_reader(self) -> bool:
        """Whether each task of the next epoch is likely to read all of it; call this before its splits are known."""
        if not self.is_allowed or self._avoided_epochs:
            return False
        return (self._prefers_one and self._epochs_since_trial + 1 < self._patience) or self._can_all_read(None)

    def choose_one_task(self, splits: Sequence[Split]) -> bool:
        """Choose whether the next epoch, which reads these splits, runs in one task. Call once an epoch."""
        self._many = self._spread
        if not self.is_allowed or self._avoided_epochs:
            self._avoided_epochs = max(0, self._avoided_epochs - 1)
            return False
        records = _records(splits)
        if self._can_all_read(records) and not any(isinstance(split, TellingSplit) for split in splits):
            self._many = self._alike
        if not self._work:
            return records is not None and records <= _FIRST_RECORDS
        work = min(self._work) * self._growth(records)
        return self._with_trials(self._is_one_cheaper(work), work)

    def is_alike(self) -> bool:
        """Whether each of several tasks reads all input of the epoch for which `choose_one_task` was called."""
        return self._many is self._alike

    def _can_all_read(self, records: int | None) -> bool:
        """Whether each task may read all records; None stands for the largest number of the last epochs."""
        most = max(self._records, default=None) if records is None else records
        return self.reads_alike and 1 < self.width <= _MOST_READERS and most is not None and most <= _MOST_READ_ALIKE

    def _growth(self, records: int | None) -> float:
        """Expected work as a multiple of the last epochs, at least 1; it is 1 if the number of records is not known."""
        if records is None or not self._records:
            return 1.0
        return max(1.0, records / max(_FEW_RECORDS, *self._records))

    def _is_one_cheaper(self, work: float) -> bool:
        """Whether one task is expected to take less time than several, for `work` seconds of work in one task."""
        several = self._many.overhead + work / self._many.share / self.width
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
        many = self._many
        if is_one:
            return work - work / self.width > many.overhead / 2
        spread = work / many.share
        alone = _OPTIMISTIC_SHARE * spread
        return alone < _MOST_WORK and alone < many.overhead + spread / self.width

    def took(self, seconds: float, busy: float, is_one: bool) -> None:
        """Learn from an epoch: its seconds, its seconds of work in all tasks, and whether it ran in one task."""
        costs, many = (None if is_one else self._many), self._many
        if self._last is not None:
            self._compare(*self._last, costs, busy)
        self._last = costs, busy
        if is_one:
            self._work.append(busy)
            self._overhead_of_one = _smoothed(self._overhead_of_one, seconds - busy)
        else:
            self._work.append(busy * many.share)
            many.overhead = _smoothed(many.overhead, seconds - busy / self.width)

    @staticmethod
    def _compare(before: _ManyTasks | None, busy_before: float, now: _ManyTasks | None, busy: float) -> None:
        """Adjust `share` after two consecutive epochs of which just one ran in one task."""
        many, alone, spread = (before, busy, busy_before) if now is None else (now, busy_before, busy)
        if many is not None and (before is None or now is None) and alone > 0 and spread > 0:
            many.share += (min(max(alone / spread, _SHARES[0]), _SHARES[1]) - many.share) / 2

    def read(self, records: int) -> None:
        """Note the number of records of an epoch."""
        self._records.append(records)

    def limit(self, splits: Sequence[Split]) -> int:
        """Number of records of these splits after which one task gives up."""
        return max(LEAST_LIMIT, _TIMES_AS_MANY * max(self._records, default=0), _records(splits) or 0)

    def avoid_one_stage(self) -> None:
        """Run the next epochs level by level, as one stage has given an epoch up."""
        self._avoided_epochs = _AVOIDED_EPOCHS

    def forbid_reading_alike(self) -> None:
        """Never again let several tasks read all input: they have read different records, or could not compare them."""
        self.reads_alike = False

    def run_level_by_level(self) -> None:
        """Note that the epoch for which `choose_one_task` was called runs level by level whatever was chosen."""
        self._many = self._spread


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
