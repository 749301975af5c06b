"""An epoch in one stage of Spark, without a shuffle between levels: one task, or several that read the same input.

One task of Spark runs all levels in turn; the driver gives it an epoch with one task of the engine at each level. If
there is one level, and no user code runs before it, several tasks may each read all input and keep the records of their
own intervals, as a repeated read takes less time than a shuffle. Tokens, reports and state stores are as in an epoch
with shuffles, so the executor can choose for each epoch.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

import pyarrow as pa

from headrace.lowlevel.injectors.injector import Split, TellingSplit
from headrace.lowlevel.intervals.interval_map import Interval
from headrace.lowlevel.records.record import Batch
from headrace.runners.engine.messages import DRIVER, Kind, Message, Report, pack, pack_report, unpack, unpack_report
from headrace.runners.engine.task.prepared_topology import PreparedTopology
from headrace.runners.engine.task.task import read_splits, run_level
from headrace.runners.spark.jobs.stage_function import WORKED, batches_of, messages_of, messages_of_property, worked
from headrace.runners.spark.worker.host import SparkHost
from headrace.runners.spark.worker.process import PROCESS
from headrace.runners.spark.worker.records_read import MOST_SECONDS, TooMuchError, UnlikeError
from headrace.runners.spark.worker.task_payload import TaskPayload


@dataclass(frozen=True, slots=True)
class SingleStage:
    """The function of each of Spark's tasks in an epoch of one stage."""

    payload: TaskPayload
    tasks: int
    """Number of the engine's tasks at each level."""
    width: int = 1
    """Number of Spark's tasks."""
    by_property: bool = True
    """Whether messages come as the job's property, and not in the batches."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the epoch."""
        began = time.perf_counter()
        with PROCESS.task(self.payload, whole_epoch=True) as (task, contents, host):
            share = Share(task.partitionId(), self.width)
            messages = list(messages_of_property(task, 0, batches) if self.by_property else messages_of(batches))
            yield from batches_of(run_stage(contents.program, host, self.tasks, share, messages, began))


class Share(NamedTuple):
    """The engine's tasks at a level that one of Spark's tasks runs."""

    number: int
    width: int

    def wants(self, interval: Interval) -> bool:
        """Whether records for an interval are processed here."""
        return interval.owner % self.width == self.number


def run_stage(
    program: PreparedTopology,
    host: SparkHost,
    tasks: int,
    share: Share,
    messages: list[Message],
    began: float | None = None,
) -> Iterator[Message]:
    """Run a share of an epoch's tasks; the messages to the driver, and one of kind `WORKED`.

    Args:
        program: The topology.
        host: The host of the tasks, for which an epoch has begun.
        tasks: Number of the engine's tasks at each level.
        share: Which of them run here.
        messages: The messages to them.
        began: When the work began (a `perf_counter`); None for now.
    """
    began = time.perf_counter() if began is None else began
    PROCESS.records_read.begin(is_shared=share.width > 1)
    output = _epoch(program, host, tasks, share, messages, began)
    return host.finish(worked(output, began, PROCESS.records_read.digest))


def _epoch(
    program: PreparedTopology, host: SparkHost, tasks: int, share: Share, messages: list[Message], began: float
) -> Iterator[Message]:
    """Run a share of the tasks of each level in turn; returns the messages to the driver."""
    messages = list(read_splits(program, host, share.number, messages, share.wants))
    if share.number:
        messages = list(map(_quiet, messages))
    for level in range(1, len(program.levels) + 1):
        arrived: list[list[Message]] = [[] for _ in range(tasks)]
        passing: list[Message] = []
        for message in messages:
            (arrived[message[0]] if message[1] == level else passing).append(message)
        messages = passing
        for task in range(share.number, tasks, share.width):
            if time.perf_counter() - began > MOST_SECONDS:
                error = TooMuchError("an epoch took too long for one stage")
                host.failed(error)
                yield (0, DRIVER, Kind.FAILURE, pack(error))
                return
            messages += run_level(program, host, level, task, arrived[task])
    yield from (message for message in messages if message[1] == DRIVER)


def _quiet(message: Message) -> Message:
    """The message; a report loses counters and progress of reading, which the first of Spark's tasks reports."""
    if message[2] != Kind.REPORT:
        return message
    report = unpack_report(message[3])
    return (*message[:3], pack_report(Report(report.sender, sent_sums=report.sent_sums)))


def was_too_much(messages: Iterable[Message]) -> bool:
    """Whether the messages are those of an epoch that was given up because it is too large."""
    return _failed_with(messages, TooMuchError)


def was_unlike(messages: Sequence[Message]) -> bool:
    """Whether tasks have read different input, or could not compare it."""
    digests = {cast(tuple[float, bytes], unpack(blob))[1] for _, _, kind, blob in messages if kind == WORKED}
    return len(digests) > 1 or _failed_with(messages, UnlikeError)


def _failed_with(messages: Iterable[Message], kind: type[Exception]) -> bool:
    return any(message[2] == Kind.FAILURE and isinstance(unpack(message[3]), kind) for message in messages)


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
            PROCESS.records_read.add(batch, self.most)
            yield batch


@dataclass(frozen=True, slots=True)
class _LimitedTelling(_Limited):
    """A limited `TellingSplit`."""

    def told(self) -> object:
        """See `TellingSplit`."""
        return cast(TellingSplit, self.split).told()
