"""Runs one epoch as one Spark job: level 0, then for each level a shuffle by interval and the tasks of the level.

The plan is the same in every epoch, so it is built once and only its input changes: messages of a small epoch reach
level 0 as a local property of the job, which saves most of Spark's work before the first task. Larger input is a
DataFrame. An epoch of little work may run in one task (`headrace.runners.spark.jobs.stage_function`).
"""

from __future__ import annotations

import logging
import os
import sys
import tempfile
from base64 import b64encode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from pyspark.sql import DataFrame, SparkSession

from headrace.runners.engine.messages import Message, MessageKind, pack
from headrace.runners.spark.cluster.cluster import cluster_of
from headrace.runners.spark.errors import java_gone, spark_errors
from headrace.runners.spark.jobs.job_error import job_error
from headrace.runners.spark.jobs.stage_function import (
    ROWS_PROPERTY,
    SCHEMA,
    StageFunction,
    messages_of,
    table_of,
)
from headrace.runners.spark.pyspark_private import java_text, run_anew
from headrace.runners.spark.releases import collected, placed
from headrace.runners.spark.worker.task_payload import TaskPayload

_SMALL = 64 << 10
"""Bytes of messages that may travel as a property of the job, which each task gets as a whole."""
_SMALL_IN_ONE = 512 << 10
"""`_SMALL` for a job of one task: half a megabyte as a property takes two thirds of the time of a DataFrame."""
_log = logging.getLogger("headrace.runners.spark.job")


class EpochJob:
    """Runs the levels of a topology on Spark, epoch by epoch."""

    def __init__(self, session: SparkSession, payload: TaskPayload, levels: int, tasks: int) -> None:
        self._session, self._cluster = session, cluster_of(session)
        self._payload, self._levels, self._tasks = payload, levels, tasks
        self._plans: dict[int, DataFrame] = {}
        """Number of groups of messages -> plan that gets them as a property; 0 for an epoch in one task."""

    def run(self, epoch: int, messages: Sequence[Message], parallelism: int) -> list[Message]:
        """Run one epoch on messages for any level; returns the messages to the driver."""
        return self._run(epoch, _grouped(messages, parallelism), is_small=_fit(messages, _SMALL))

    def run_in_one_task(self, epoch: int, messages: Sequence[Message]) -> list[Message]:
        """Run one epoch in one task; the messages to it must fit (`fits_one`). It may give up, see `was_too_much`."""
        return self._run(epoch, [list(messages)], is_small=True, in_one_task=True)

    def _run(self, epoch: int, groups: list[list[Message]], is_small: bool, in_one_task: bool = False) -> list[Message]:
        size, description = len(groups), f"epoch {epoch}"
        with _told(self._session, description):
            if not (self._cluster.has_job_properties and is_small):
                rows = self._cluster.partitioned(table_of(groups))
                return run_plan(self._plan(rows, in_one_task, by_property=False), description)
            plan = self._plans.get(0 if in_one_task else size)
            if plan is None:
                plan = self._plan(self._session.range(0, size, 1, size), in_one_task, by_property=True)
                self._plans[0 if in_one_task else size] = plan
            with self._cluster.job_property(ROWS_PROPERTY, b64encode(pack(groups)).decode()):
                # Without a shuffle, Spark has no result of an earlier run of this plan that it could use again.
                return run_plan(plan if in_one_task else run_anew(plan), description)

    def _plan(self, rows: DataFrame, in_one_task: bool, by_property: bool) -> DataFrame:
        plan = rows.mapInArrow(StageFunction(None if in_one_task else 0, self._payload, by_property), SCHEMA)
        for level in range(1, 1 if in_one_task else self._levels + 1):
            plan = placed(plan, self._tasks, "target").mapInArrow(StageFunction(level, self._payload), SCHEMA)
        return plan


def fits_one(messages: Sequence[Message]) -> bool:
    """Whether messages to an epoch in one task are small enough for a property of the job."""
    return _fit(messages, _SMALL_IN_ONE)


def _fit(messages: Sequence[Message], most: int) -> bool:
    return sum(len(blob) for *_, blob in messages) <= most


def _grouped(messages: Sequence[Message], parallelism: int) -> list[list[Message]]:
    """Messages by task of level 0: splits are distributed in order, messages to deeper levels evenly."""
    splits = [message for message in messages if message[2] == MessageKind.SPLIT]
    passing = [message for message in messages if message[2] != MessageKind.SPLIT]
    groups: list[list[Message]] = [[] for _ in range(max(1, min(parallelism, len(splits))))]
    for number, message in enumerate(splits):
        groups[number * len(groups) // len(splits)].append(message)
    for number, message in enumerate(passing):
        groups[number % len(groups)].append(message)
    return groups


def run_plan(plan: DataFrame, description: str) -> list[Message]:
    """Run a plan and return its messages; `description` names the job in Spark's UI and in errors.

    Raises `SparkJobError`.
    """
    session = plan.sparkSession
    with _told(session, description), cluster_of(session).described(f"headrace {description}"):
        return list(messages_of(collected(plan)))


@contextmanager
def _told(session: SparkSession, description: str) -> Iterator[None]:
    """Raise errors of Spark as `SparkJobError`s of the job of that description."""
    try:
        yield
    except spark_errors() as error:
        _log.debug("Spark could not run %s: %s", description, java_text(error))
        # Without the cause, whose text has hundreds of lines of Java; it is in the log.
        raise job_error(error, description, _local_folders(session)) from None


def _local_folders(session: SparkSession) -> str:
    """Spark's local directories, for shuffles; empty if they are on other hosts, or Java does not answer."""
    cluster = cluster_of(session)
    with suppress(*java_gone()):
        if cluster.is_local():
            # Java's folder, not Python's: Java on Linux looks neither at `TMPDIR` nor whether something can be written.
            temporary = "/tmp" if sys.platform == "linux" else tempfile.gettempdir()
            return os.environ.get("SPARK_LOCAL_DIRS") or cluster.setting("spark.local.dir") or temporary
    return ""
