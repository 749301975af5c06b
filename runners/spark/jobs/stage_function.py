"""The function of each `mapInArrow`: runs the body of a task of `runners.engine` on messages in Arrow batches.

It runs one level, or an epoch in one task of Spark: all levels in turn, without a shuffle between them. The driver
gives such an epoch one task of the engine at each level. Tokens, reports and state stores are as in an epoch with
shuffles, so the executor can choose for each epoch. The task gives up an epoch that turns out to be too large.
"""

from __future__ import annotations

import time
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from operator import methodcaller
from typing import cast

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.types import BinaryType, IntegerType, StructField, StructType

from headrace.lowlevel.columnar.arrow_arrays import of_bytes, of_integers
from headrace.runners.engine.messages import DRIVER, Message, MessageKind, pack, unpack
from headrace.runners.engine.task.host import MOST_SECONDS, TooMuchError
from headrace.runners.engine.task.prepared_topology import PreparedTopology
from headrace.runners.engine.task.task import read_splits, run_level
from headrace.runners.spark.worker.host import SparkHost
from headrace.runners.spark.worker.process import PROCESS, current_task
from headrace.runners.spark.worker.task_payload import TaskPayload

SCHEMA = StructType(
    [StructField(name, IntegerType()) for name in ("target", "level", "kind")] + [StructField("blob", BinaryType())]
)
"""Columns of messages in Spark. `repartitionById` needs an INT. A schema as text would be parsed for each plan."""
ROWS_PROPERTY = "headrace.rows"
"""Local property with the messages of a small epoch; see `headrace.runners.spark.jobs.epoch_job`."""
_ARROW = pa.schema([("target", pa.int32()), ("level", pa.int32()), ("kind", pa.int32()), ("blob", pa.binary())])
_BLOB: Callable[[pa.Scalar], bytes] = methodcaller("as_py")
_BATCH_BYTES = 4 << 20
"""Size of messages at which a batch leaves the task: they are copied into Arrow's memory, and again to leave."""
WORKED = 100
"""Kind of the message from each of Spark's tasks to the executor: seconds of work, packed."""


@dataclass(frozen=True, slots=True)
class StageFunction:
    """The function of one level, or of all levels in one task of Spark.

    Level 0 reads; a deeper level runs computations on the intervals that the task owns. The number of the task's
    partition is the index of the task: of its group of splits, or as owner of intervals.
    """

    level: int | None
    """None for all levels."""
    payload: TaskPayload
    by_property: bool = False
    """Whether messages come as the job's property, and not in the batches."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the task."""
        began = time.perf_counter()
        with PROCESS.task(self.payload, whole_epoch=self.level is None) as (contents, host):
            task, program = current_task(), contents.program
            index = task.partitionId()
            messages = messages_of_property(task, index, batches) if self.by_property else messages_of(batches)
            if self.level is None:
                output = _levels(program, host, list(messages), began)
            elif self.level == 0:
                output = read_splits(program, host, index, messages)
            else:
                output = run_level(program, host, self.level, index, messages)
            yield from batches_of(host.finish(worked(output, began)))


def worked(messages: Iterable[Message], began: float) -> Iterator[Message]:
    """The messages, then one of kind `WORKED`: seconds since `began` (a `perf_counter`)."""
    yield from messages
    yield (0, DRIVER, WORKED, pack(time.perf_counter() - began))


def messages_of_property(task: TaskContext, index: int, batches: Iterable[pa.RecordBatch]) -> Iterator[Message]:
    """The messages of a group, from the job's property."""
    for _ in batches:
        # The batches are empty: they exist because every plan begins with a DataFrame.
        continue
    text = task.getLocalProperty(ROWS_PROPERTY)
    yield from cast(list[list[Message]], unpack(b64decode(text or "")))[index]


def messages_of(batches: Iterable[pa.RecordBatch]) -> Iterator[Message]:
    """The messages in Arrow batches."""
    for batch in batches:
        *numbers, blobs = batch.columns
        # Blobs may be large: each is copied only when the iterator reaches it.
        yield from zip(*(column.to_pylist() for column in numbers), map(_BLOB, blobs), strict=True)


def batches_of(messages: Iterable[Message]) -> Iterator[pa.RecordBatch]:
    """Arrow batches of the messages, of bounded size.

    >>> list(messages_of(batches_of([(0, 1, 2, b"blob")])))
    [(0, 1, 2, b'blob')]
    """
    waiting: list[Message] = []
    size = 0
    for message in messages:
        waiting.append(message)
        size += len(message[3])
        if size >= _BATCH_BYTES:
            batch = _batch(waiting)
            waiting, size = [], 0
            yield batch
    if waiting:
        yield _batch(waiting)


def _batch(messages: list[Message]) -> pa.RecordBatch:
    *numbers, blobs = zip(*messages, strict=True)
    arrays = [of_integers(column, pa.int32()) for column in numbers]
    return pa.RecordBatch.from_arrays([*arrays, of_bytes(blobs, pa.binary())], schema=_ARROW)


def table_of(groups: Iterable[list[Message]]) -> pa.Table:
    """A table with one chunk for each group."""
    return pa.Table.from_batches(list(map(_batch, groups)), _ARROW)


def run_in_one_task(program: PreparedTopology, host: SparkHost, messages: list[Message]) -> Iterator[Message]:
    """Run an epoch that has one task of the engine at each level, and for which the host has begun.

    Yields the messages to the driver, and one of kind `WORKED`.
    """
    began = time.perf_counter()
    return host.finish(worked(_levels(program, host, messages, began), began))


def _levels(program: PreparedTopology, host: SparkHost, messages: list[Message], began: float) -> Iterator[Message]:
    """Run the levels in turn; yields the messages to the driver."""
    messages = list(read_splits(program, host, 0, messages))
    for level in range(1, len(program.levels) + 1):
        if time.perf_counter() - began > MOST_SECONDS:
            error = TooMuchError("an epoch took too long for one task")
            host.failed(error)
            yield (0, DRIVER, MessageKind.FAILURE, pack(error))
            return
        arrived = [message for message in messages if message[1] == level]
        passing = [message for message in messages if message[1] != level]
        messages = [*passing, *run_level(program, host, level, 0, arrived)]
    yield from (message for message in messages if message[1] == DRIVER)


def was_too_much(messages: Iterable[Message]) -> bool:
    """Whether the messages are those of an epoch that was given up because it is too large."""
    return any(
        message[2] == MessageKind.FAILURE and isinstance(unpack(message[3]), TooMuchError) for message in messages
    )
