"""An epoch in one stage of Spark's, without a shuffle between its levels: in one task, or in some that read the same.

In one task all levels follow one another, each with its tasks. Where there is one level, and what runs before it is no
code of the user's, several tasks may each read everything and keep what goes to their own intervals: what is read
twice takes less than a shuffle. What a task is, its token, its report and the interval's copies are as in a spread
epoch. So which epochs are run like this can change from one to the next, and nobody but the executor knows.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import NamedTuple, cast

import pyarrow as pa

from headrace.lowlevel.columns import ColumnBatch
from headrace.lowlevel.errors import HeadraceError
from headrace.lowlevel.injector import Split, TellingSplit
from headrace.lowlevel.intervals import Interval
from headrace.lowlevel.record import Batch
from headrace.lowlevel.streamed import encode_tables
from headrace.runners.engine.epoch import DRIVER, Kind, Report, Row, pack, unpack
from headrace.runners.engine.program import Program
from headrace.runners.engine.task import read_splits, run_level
from headrace.runners.spark.extent import MOST_SECONDS
from headrace.runners.spark.host import SparkHost
from headrace.runners.spark.level import WORKED, batches_of, property_rows, task_begins, worked
from headrace.runners.spark.shipment import Shipment


class TooMuchError(HeadraceError, RuntimeError):
    """An epoch is too large for one stage. Nothing of it is committed; the executor runs it again, spread."""


class UnlikeError(HeadraceError, RuntimeError):
    """Of what an epoch reads it cannot be told whether several tasks read the same. As `TooMuchError`."""


@dataclass(frozen=True, slots=True)
class OneStage:
    """The function of each of Spark's tasks."""

    shipment: Shipment
    tasks: int
    """Of each level."""
    width: int = 1
    """How many tasks of Spark's there are."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the epoch."""
        began = time.perf_counter()
        task, contents, host = task_begins(self.shipment, whole_epoch=True)
        share = Share(task.partitionId(), self.width)
        _reading.begin(share)
        rows = list(property_rows(task, 0, batches))
        done = _epoch(contents.program, host, self.tasks, share, rows, began)
        yield from batches_of(host.finish(worked(done, began, _reading.seen)))


class Share(NamedTuple):
    """Which tasks of a level one of Spark's tasks runs."""

    number: int
    width: int

    def wants(self, interval: Interval) -> bool:
        """Whether records for an interval stay here."""
        return interval.owner % self.width == self.number


def _epoch(program: Program, host: SparkHost, tasks: int, share: Share, rows: list[Row], began: float) -> Iterator[Row]:
    """A share of every level's tasks in turn; what comes out is for the driver."""
    rows = list(read_splits(program, host, share.number, rows, share.wants))
    if share.number:
        rows = list(map(_quiet, rows))
    for level in range(1, len(program.levels) + 1):
        arrived: list[list[Row]] = [[] for _ in range(tasks)]
        passing: list[Row] = []
        for row in rows:
            (arrived[row[0]] if row[1] == level else passing).append(row)
        rows = passing
        for task in range(share.number, tasks, share.width):
            if time.perf_counter() - began > MOST_SECONDS:
                yield (0, DRIVER, Kind.FAILURE, pack(TooMuchError("an epoch took too long for one stage")))
                return
            rows += run_level(program, host, level, task, arrived[task])
    yield from (row for row in rows if row[1] == DRIVER)


def _quiet(row: Row) -> Row:
    """A row without what the first of Spark's tasks tells of what all of them read."""
    if row[2] != Kind.REPORT:
        return row
    return (*row[:3], pack(Report(cast(Report, unpack(row[3])).sender)))


def was_too_much(rows: Iterable[Row]) -> bool:
    """Whether these are the rows of an epoch that was given up because it is too large."""
    return _failed_with(rows, TooMuchError)


def was_unlike(rows: Sequence[Row]) -> bool:
    """Whether these are the rows of an epoch of which tasks read something else each, or cannot tell."""
    seen = {cast(tuple[float, bytes], unpack(blob))[1] for _, _, kind, blob in rows if kind == WORKED}
    return len(seen) > 1 or _failed_with(rows, UnlikeError)


def _failed_with(rows: Iterable[Row], kind: type[Exception]) -> bool:
    return any(row[2] == Kind.FAILURE and isinstance(unpack(row[3]), kind) for row in rows)


@dataclass(slots=True)
class _Reading:
    """What the task of this process has read of its epoch."""

    _began: float = 0.0
    _records: int = 0
    _alike: bool = False
    _seen: blake2b = field(default_factory=blake2b)

    def begin(self, share: Share) -> None:
        """A task begins."""
        self._began, self._records = time.perf_counter(), 0
        self._alike, self._seen = share.width > 1, blake2b(digest_size=16)

    def add(self, batch: Batch, most: int) -> None:
        """One more batch of an epoch that may have so many records. Raises `TooMuchError` or `UnlikeError`."""
        self._records += len(batch)
        if self._records > most or time.perf_counter() - self._began > MOST_SECONDS:
            raise TooMuchError("an epoch has too many records for one stage")
        if self._alike:
            if not isinstance(batch, ColumnBatch):
                raise UnlikeError("an epoch has records that are no columns")
            # Other readers must not only have as many: a file may be written while it is read.
            self._seen.update(encode_tables([batch.table], batch.table.schema))
            self._seen.update(batch.times.tobytes())

    def seen(self) -> bytes:
        """A hash of everything that was read; empty where nobody else reads it."""
        return self._seen.digest() if self._alike else b""


_reading = _Reading()


def limited(splits: Sequence[tuple[str, Split]], most: int) -> list[tuple[str, Split]]:
    """The splits, which stop when a task has read more than `most` records of them."""
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
            _reading.add(batch, self.most)
            yield batch


@dataclass(frozen=True, slots=True)
class _LimitedTelling(_Limited):
    """The same of a split that has something to tell."""

    def told(self) -> object:
        """See `TellingSplit`."""
        return cast(TellingSplit, self.split).told()
