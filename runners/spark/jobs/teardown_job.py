"""The last Spark job of a run, in which worker processes tear user code down."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headrace.runners.spark.jobs.epoch_job import run_plan
from headrace.runners.spark.jobs.job_error import SparkJobError
from headrace.runners.spark.jobs.stage_function import SCHEMA
from headrace.runners.spark.worker.process import PROCESS
from headrace.runners.spark.worker.task_payload import TaskPayload

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Leave:
    """The function of the job's `mapInArrow`: tears a run down, and returns no batches."""

    payload: TaskPayload

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        PROCESS.leave(self.payload)
        for _ in batches:
            continue
        return iter(())


def ask_to_leave(session: SparkSession, payload: TaskPayload, parallelism: int) -> None:
    """Let worker processes tear down a run.

    Spark gives tasks to the processes that have waited longest, so the job reaches most of them; the other processes
    tear the run down when they end, unless they are killed. A job that fails is only a warning.
    """
    try:
        tasks = session.range(0, parallelism, 1, parallelism)
        run_plan(tasks.mapInArrow(_Leave(payload), SCHEMA), "the end of a run")
    except (SparkJobError, Py4JError, PySparkException) as error:
        _log.warning("DoFn.teardown was not called in all worker processes: %s", error)
