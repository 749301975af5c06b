"""The end of a run in the worker processes: a last Spark job in which they tear user code down."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headrace.runners.spark.held import HELD
from headrace.runners.spark.job import collected
from headrace.runners.spark.joberror import SparkJobError
from headrace.runners.spark.level import SCHEMA
from headrace.runners.spark.shipment import Shipment

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Leave:
    """The function of a task."""

    shipment: Shipment

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        HELD.leave(self.shipment)
        for _ in batches:
            continue
        return iter(())


def ask_to_leave(session: SparkSession, shipment: Shipment, parallelism: int) -> None:
    """Have worker processes let go of a run.

    Spark gives tasks to the processes that have waited longest, so most are reached; the others follow when they end,
    unless they are killed.
    """
    try:
        tasks = session.range(0, parallelism, 1, parallelism)
        collected(tasks.mapInArrow(_Leave(shipment), SCHEMA), "the end of a run")
    except (SparkJobError, Py4JError, PySparkException) as error:
        _log.warning("DoFn.teardown was not called everywhere: %s", error)
