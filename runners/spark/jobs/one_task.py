"""An epoch in one task of Spark, which runs all levels in turn, without a shuffle between them.

The driver gives such an epoch one task of the engine at each level. Tokens, reports and state stores are as in an epoch
with shuffles, so the executor can choose for each epoch. The task gives up an epoch that turns out to be too large.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import cast

import pyarrow as pa

from headrace.lowlevel.injectors.injector import Split, TellingSplit
from headrace.lowlevel.records.record import Batch
from headrace.runners.engine.messages import DRIVER, Message, MessageKind, pack, unpack
from headrace.runners.engine.task.prepared_topology import PreparedTopology
from headrace.runners.engine.task.task import read_splits, run_level
from headrace.runners.spark.jobs.stage_function import batches_of, messages_of, messages_of_property, worked
from headrace.runners.spark.worker.host import SparkHost
from headrace.runners.spark.worker.process import MOST_SECONDS, PROCESS, TooMuchError
from headrace.runners.spark.worker.task_payload import TaskPayload


@dataclass(frozen=True, slots=True)
class OneTaskFunction:
    """The function of Spark's task in a job that runs one epoch in one task."""

    payload: TaskPayload
    by_property: bool = True
    """Whether messages come as the job's property, and not in the batches."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the epoch."""
        began = time.perf_counter()
        with PROCESS.task(self.payload, whole_epoch=True) as (task, contents, host):
            messages = list(messages_of_property(task, 0, batches) if self.by_property else messages_of(batches))
            yield from batches_of(run_in_one_task(contents.program, host, messages, began))


def run_in_one_task(
    program: PreparedTopology, host: SparkHost, messages: list[Message], began: float | None = None
) -> Iterator[Message]:
    """Run an epoch that has one task of the engine at each level.

    Args:
        program: The topology.
        host: The host of the task, for which the epoch has begun.
        messages: The messages to the engine's tasks.
        began: When the work began (a `perf_counter`); None for now.

    Yields:
        The messages to the driver, and one of kind `WORKED`.
    """
    began = time.perf_counter() if began is None else began
    PROCESS.records_read.begin()
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


def limited(splits: Sequence[tuple[str, Split]], most: int) -> list[tuple[str, Split]]:
    """The splits in a form whose `read` raises `TooMuchError` after `most` records of all splits together."""
    return [(stream, _limited(split, most)) for stream, split in splits]


def _limited(split: Split, most: int) -> Split:
    return _LimitedTelling(split, most) if isinstance(split, TellingSplit) else _Limited(split, most)


@dataclass(frozen=True, slots=True)
class _Limited:
    """A split that counts its records, and raises `TooMuchError` when the epoch turns out to be too large."""

    split: Split
    most: int

    def read(self) -> Iterator[Batch]:
        """The split's batches."""
        for batch in self.split.read():
            PROCESS.records_read.add(len(batch), self.most)
            yield batch


@dataclass(frozen=True, slots=True)
class _LimitedTelling(_Limited):
    """A limited `TellingSplit`."""

    def told(self) -> object:
        """See `TellingSplit`."""
        return cast(TellingSplit, self.split).told()
