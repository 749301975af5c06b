"""A small epoch in one Spark task: all levels one after the other, each with its tasks, without a shuffle between.

What a task is, its token, its report and the interval's copies are as in a spread epoch. So which epochs are run like
this can change from one to the next, and nobody but the executor knows.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import cast

import pyarrow as pa

from headrace.lowlevel.errors import HeadraceError
from headrace.lowlevel.injector import Split, TellingSplit
from headrace.lowlevel.record import Batch
from headrace.runners.engine.epoch import DRIVER, Kind, Row, pack, unpack
from headrace.runners.engine.program import Program
from headrace.runners.engine.task import read_splits, run_level
from headrace.runners.spark.extent import MOST_SECONDS
from headrace.runners.spark.host import SparkHost
from headrace.runners.spark.level import batches_of, property_rows, task_begins, worked
from headrace.runners.spark.shipment import Shipment


class TooMuchError(HeadraceError, RuntimeError):
    """An epoch is too large for one task. Nothing of it is committed; the executor runs it again, spread."""


@dataclass(frozen=True, slots=True)
class OneTask:
    """The function of the only task."""

    shipment: Shipment
    tasks: int
    """Of each level."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the epoch."""
        began = time.perf_counter()
        task, contents, host = task_begins(self.shipment, whole_epoch=True)
        _reading.begin()
        rows = list(property_rows(task, 0, batches))
        done = _epoch(contents.program, host, self.tasks, rows, began)
        yield from batches_of(host.finish(worked(done, began)))


def _epoch(program: Program, host: SparkHost, tasks: int, rows: list[Row], began: float) -> Iterator[Row]:
    """Every level's tasks in turn; what comes out is for the driver."""
    rows = list(read_splits(program, host, 0, rows))
    for level in range(1, len(program.levels) + 1):
        arrived: list[list[Row]] = [[] for _ in range(tasks)]
        passing: list[Row] = []
        for row in rows:
            (arrived[row[0]] if row[1] == level else passing).append(row)
        rows = passing
        for task in range(tasks):
            if time.perf_counter() - began > MOST_SECONDS:
                yield (0, DRIVER, Kind.FAILURE, pack(TooMuchError("an epoch took too long for one task")))
                return
            rows += run_level(program, host, level, task, arrived[task])
    yield from (row for row in rows if row[1] == DRIVER)


def was_too_much(rows: Iterable[Row]) -> bool:
    """Whether these are the rows of an epoch that was given up because it is too large."""
    return any(row[2] == Kind.FAILURE and isinstance(unpack(row[3]), TooMuchError) for row in rows)


@dataclass(slots=True)
class _Reading:
    """What the only task of this process has read of its epoch."""

    _began: float = 0.0
    _records: int = 0

    def begin(self) -> None:
        """A task begins."""
        self._began, self._records = time.perf_counter(), 0

    def add(self, records: int, most: int) -> None:
        """So many more records of an epoch that may have that many. Raises `TooMuchError`."""
        self._records += records
        if self._records > most or time.perf_counter() - self._began > MOST_SECONDS:
            raise TooMuchError("an epoch has too many records for one task")


_reading = _Reading()


def limited(splits: Sequence[tuple[str, Split]], most: int) -> list[tuple[str, Split]]:
    """The splits, which stop when one task has read more than `most` records of them."""
    return [(stream, _limited(split, most)) for stream, split in splits]


def _limited(split: Split, most: int) -> Split:
    return _LimitedTelling(split, most) if isinstance(split, TellingSplit) else _Limited(split, most)


@dataclass(frozen=True, slots=True)
class _Limited:
    """A split that raises `TooMuchError` when the epoch turns out to be large."""

    split: Split
    most: int

    def read(self) -> Iterator[Batch]:
        """The split's batches."""
        for batch in self.split.read():
            _reading.add(len(batch), self.most)
            yield batch


@dataclass(frozen=True, slots=True)
class _LimitedTelling(_Limited):
    """The same of a split that has something to tell."""

    def told(self) -> object:
        """See `TellingSplit`."""
        return cast(TellingSplit, self.split).told()
