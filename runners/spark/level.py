"""The function of each `mapInArrow`: Arrow batches in, the task's body from `runners.engine`, Arrow batches out."""

from __future__ import annotations

import gc
import time
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from operator import methodcaller
from typing import cast

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.types import BinaryType, IntegerType, StructField, StructType

from headrace.lowlevel.arrays import of_bytes, of_integers
from headrace.runners.engine.epoch import DRIVER, Row, pack, unpack
from headrace.runners.engine.task import read_splits, run_level
from headrace.runners.spark.allocator import settle
from headrace.runners.spark.held import HELD
from headrace.runners.spark.host import SparkHost
from headrace.runners.spark.lastwords import LAST_WORDS
from headrace.runners.spark.shipment import Contents, Shipment

SCHEMA = StructType(
    [StructField(name, IntegerType()) for name in ("target", "level", "kind")] + [StructField("blob", BinaryType())]
)
"""Of rows as Spark sees them. `repartitionById` wants an INT. Text would be parsed by Java for each plan."""
ROWS_PROPERTY = "headrace.rows"
"""Local property that brings the rows of a small epoch to level 0; see `headrace.runners.spark.job`."""
_ARROW = pa.schema([("target", pa.int32()), ("level", pa.int32()), ("kind", pa.int32()), ("blob", pa.binary())])
_BLOB: Callable[[pa.Scalar], bytes] = methodcaller("as_py")
_BATCH_BYTES = 4 << 20
"""From which on rows leave the task: they are copied into Arrow's memory first, and once more on the way out."""
WORKED = 100
"""Kind of the row that tells the executor of one of Spark's tasks: how many seconds it was busy, and a hash of what it
read where others read the same; packed."""


@dataclass(frozen=True, slots=True)
class Level:
    """The function of one level. Level 0 reads; a deeper one runs computations on the intervals that the task owns.

    The number of the task's partition is that of the group of splits, or the owner of intervals.
    """

    number: int
    shipment: Shipment
    by_property: bool = False
    """Whether rows come as the job's property; the batches are empty of them then."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the task."""
        began = time.perf_counter()
        task, contents, host = task_begins(self.shipment)
        index = task.partitionId()
        rows = property_rows(task, index, batches) if self.by_property else rows_of(batches)
        if self.number == 0:
            done = read_splits(contents.program, host, index, rows)
        else:
            done = run_level(contents.program, host, self.number, index, rows)
        yield from batches_of(host.finish(worked(done, began)))


def task_begins(shipment: Shipment, whole_epoch: bool = False) -> tuple[TaskContext, Contents, SparkHost]:
    """Get ready for one of Spark's tasks: which one it is, what it needs, and what it is offered here."""
    task = TaskContext.get()
    assert task is not None, "Spark calls this inside a task"
    _collector.task_begins()
    settle()
    LAST_WORDS.task_begins()
    contents, host = HELD.take(shipment)
    host.begin(task.attemptNumber(), whole_epoch)
    return task, contents, host


def worked(rows: Iterable[Row], began: float, seen: Callable[[], bytes] = bytes) -> Iterator[Row]:
    """The rows, how long it took since `began` (by `perf_counter`) until they were made, and what was `seen` then."""
    yield from rows
    yield (0, DRIVER, WORKED, pack((time.perf_counter() - began, seen())))


class _Collector:
    """Keeps the garbage collector from what stays for good, and from what is soon gone.

    Spark's worker collects garbage after every task, through all that was ever loaded: 10 ms and more each time. What
    is there when the first few tasks begin is modules, code and open files, so it is left out from then on. Within a
    task, records are made by the ten thousand and hardly any is part of a circle: the usual threshold of 700 costs an
    eighth of the task, this one nothing, and circles of user code still go before they fill the memory.
    """

    _AT = frozenset({2, 3, 5, 9, 17})
    _THRESHOLDS = (200_000, 10, 10)

    def __init__(self) -> None:
        self._tasks = 0

    def task_begins(self) -> None:
        """Call at the start of each task, when Spark's worker has just collected."""
        self._tasks += 1
        gc.set_threshold(*self._THRESHOLDS)
        if self._tasks in self._AT:
            gc.freeze()


_collector = _Collector()


def property_rows(task: TaskContext, index: int, batches: Iterable[pa.RecordBatch]) -> Iterator[Row]:
    """The rows of a group that came as the job's property."""
    for _ in batches:
        # Only there because a plan begins with something.
        continue
    text = task.getLocalProperty(ROWS_PROPERTY)
    yield from cast(list[list[Row]], unpack(b64decode(text or "")))[index]


def rows_of(batches: Iterable[pa.RecordBatch]) -> Iterator[Row]:
    """The rows of Arrow batches."""
    for batch in batches:
        *numbers, blobs = batch.columns
        # Blobs may be large: each is copied when it is asked for.
        yield from zip(*(column.to_pylist() for column in numbers), map(_BLOB, blobs), strict=True)


def batches_of(rows: Iterable[Row]) -> Iterator[pa.RecordBatch]:
    """Arrow batches of the rows, of bounded size.

    >>> list(rows_of(batches_of([(0, 1, 2, b"blob")])))
    [(0, 1, 2, b'blob')]
    """
    held: list[Row] = []
    size = 0
    for row in rows:
        held.append(row)
        size += len(row[3])
        if size >= _BATCH_BYTES:
            batch = _batch(held)
            held, size = [], 0
            yield batch
    if held:
        yield _batch(held)


def _batch(rows: list[Row]) -> pa.RecordBatch:
    *numbers, blobs = zip(*rows, strict=True)
    arrays = [of_integers(column, pa.int32()) for column in numbers]
    return pa.RecordBatch.from_arrays([*arrays, of_bytes(blobs, pa.binary())], schema=_ARROW)


def table_of(groups: Iterable[list[Row]]) -> pa.Table:
    """A table with one chunk for each group."""
    return pa.Table.from_batches(list(map(_batch, groups)), _ARROW)
