"""One epoch is one Spark job: level 0, then for each level a shuffle by interval and its tasks.

The plan is the same in every epoch, so it is built once and only its input changes: rows of a small epoch reach level 0
as a local property of the job, which spares most of what Spark does before the first task. Large input, and a
session without local properties, takes the way of a DataFrame. An epoch of little work has one stage and one task.
"""

from __future__ import annotations

import logging
import os
import tempfile
from base64 import b64encode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from headrace.runners.engine.epoch import Kind, Row, pack
from headrace.runners.spark.joberror import java_text, job_error
from headrace.runners.spark.level import ROWS_PROPERTY, SCHEMA, Level, rows_of, table_of
from headrace.runners.spark.onestage import OneStage
from headrace.runners.spark.session import is_local
from headrace.runners.spark.shipment import Shipment

_SMALL = 64 << 10
"""Bytes that may travel as a property: every task gets all of it."""
_SMALL_IN_ONE = 512 << 10
"""Where there is only one task: half a megabyte as a property takes it two thirds of the time of a DataFrame."""
_GONE = (AttributeError, Py4JError, ConnectionError)
"""What calls of Java raise of a session that was stopped meanwhile, or whose Java process has ended."""
_log = logging.getLogger(__name__)


class EpochJob:
    """Runs the levels of a topology on Spark, epoch by epoch."""

    def __init__(self, session: SparkSession, shipment: Shipment, levels: int, tasks: int) -> None:
        self._session = session
        self._by_property = Level(0, shipment, by_property=True)
        self._levels = [Level(number, shipment) for number in range(levels + 1)]
        self._tasks = tasks
        self._plans: dict[int, DataFrame] = {}
        self._shipment = shipment
        self._in_one_stage: dict[int, DataFrame] = {}
        """Plans of one stage, by the number of its tasks."""

    def run(self, epoch: int, rows: Sequence[Row], parallelism: int) -> list[Row]:
        """Run one epoch on rows for any level; returns those that come out of the last one."""
        groups = _grouped(rows, parallelism)
        if not _fit(rows, _SMALL):
            given = self._session.createDataFrame(table_of(groups)).mapInArrow(self._levels[0], SCHEMA)
            return collected(self._deeper(given), f"epoch {epoch}")
        with self._property(groups):
            return collected(self._prepared(len(groups)), f"epoch {epoch}")

    def run_in_one_stage(self, epoch: int, rows: Sequence[Row], width: int = 1) -> list[Row]:
        """Run one epoch in one stage of so many tasks, which all get the rows; these must fit (`fits_one`).

        It may give up, see `was_too_much` and `was_unlike`.
        """
        with self._property([list(rows)]):
            # Without a shuffle there is nothing of its last run that Spark could give again.
            return collected(self._one_stage(width), f"epoch {epoch}")

    def _one_stage(self, width: int) -> DataFrame:
        # Made when it is asked for: a plan takes some 10 ms, and many runs have epochs of one way only.
        if (plan := self._in_one_stage.get(width)) is None:
            stage = OneStage(self._shipment, self._tasks, width)
            plan = self._in_one_stage[width] = self._range(width).mapInArrow(stage, SCHEMA)
        return plan

    @contextmanager
    def _property(self, groups: list[list[Row]]) -> Iterator[None]:
        context = self._session.sparkContext
        context.setLocalProperty(ROWS_PROPERTY, b64encode(pack(groups)).decode())
        try:
            yield
        finally:
            with suppress(*_GONE):
                context.setLocalProperty(ROWS_PROPERTY, "")

    def _range(self, partitions: int) -> DataFrame:
        return self._session.range(0, partitions, 1, partitions)

    def _prepared(self, partitions: int) -> DataFrame:
        if (plan := self._plans.get(partitions)) is None:
            plan = self._plans[partitions] = self._deeper(self._range(partitions).mapInArrow(self._by_property, SCHEMA))
        # The same DataFrame again would give the result of its first run: Spark keeps the shuffles of a plan.
        return plan.alias("epoch")

    def _deeper(self, plan: DataFrame) -> DataFrame:
        for level in self._levels[1:]:
            plan = plan.repartitionById(self._tasks, "target").mapInArrow(level, SCHEMA)
        return plan


def fits_one(rows: Sequence[Row]) -> bool:
    """Whether rows can reach the tasks of an epoch that has one stage, as a property of the job."""
    return _fit(rows, _SMALL_IN_ONE)


def _fit(rows: Sequence[Row], most: int) -> bool:
    return sum(len(blob) for *_, blob in rows) <= most


def _grouped(rows: Sequence[Row], parallelism: int) -> list[list[Row]]:
    """Rows by task of level 0: what is to be read is spread, in order; the rest only passes through."""
    reading = [row for row in rows if row[2] == Kind.SPLIT]
    passing = [row for row in rows if row[2] != Kind.SPLIT]
    groups: list[list[Row]] = [[] for _ in range(max(1, min(parallelism, len(reading))))]
    for place, row in enumerate(reading):
        groups[place * len(groups) // len(reading)].append(row)
    groups[0] += passing
    return groups


def collected(plan: DataFrame, what: str) -> list[Row]:
    """Run a plan and return its rows; raises `SparkJobError`."""
    context = plan.sparkSession.sparkContext
    context.setJobDescription(f"headrace {what}")
    try:
        return list(rows_of(plan.toArrow().to_batches()))
    except (Py4JError, PySparkException, ConnectionError) as error:
        _log.debug("Spark could not run %s: %s", what, java_text(error))
        # Spark's own text is hundreds of lines of Java: it is in the log.
        raise job_error(error, what, _local_folders(plan.sparkSession)) from None
    finally:
        with suppress(*_GONE):
            context.setJobDescription("")


def _local_folders(session: SparkSession) -> str:
    """Where Spark's tasks keep what they send each other; nothing where that is on other hosts, or Java is gone."""
    with suppress(*_GONE):
        if is_local(session):
            named = session.sparkContext.getConf().get("spark.local.dir")
            return os.environ.get("SPARK_LOCAL_DIRS") or named or tempfile.gettempdir()
    return ""
