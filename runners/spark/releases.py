"""What the releases of Spark differ in, as far as the engine is concerned: one function for each difference.

Each function asks what the release offers, not for its number, and results are the same with all of them. The table for
users is in `docs/spark-releases.md`.

| since | what | before |
|---|---|---|
| 4.0 | `DataFrame.toArrow` | `collected`: the method behind `toPandas` |
| 4.0 | `createDataFrame` of an Arrow table | `frame_of`: the Java function that it calls |
| 4.0 | a bound on the bytes of a batch | `batch_settings`: few rows to a batch, as blobs may be large |
| 4.0 | a session turns the fault handler of workers on | `SESSION_SETTINGS`: only one that headrace makes has it |
| 4.1 | `DataFrame.repartitionById` | `placed`: Spark's hash of an integer is undone |
| 4.1 | Unix sockets between Java and Python | TCP; Spark ignores settings that it does not know |
| 4.1, 4.3 | further sessions over Spark Connect | `has_siblings`: none, so Connect is refused |
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace.lowlevel.records.block import PIECE
from headrace.runners.spark.pyspark_private import collect_as_arrow, frame_of_arrow, spark_schema

SESSION_SETTINGS = {"spark.python.worker.faulthandler.enabled": "true"}
"""Settings for a session that headrace makes; newer releases have them for each session."""
_BYTES_SETTING = "spark.sql.execution.arrow.maxBytesPerBatch"
_RECORDS_SETTING = "spark.sql.execution.arrow.maxRecordsPerBatch"
_MASK = 0xFFFFFFFF


def collected(plan: DataFrame) -> list[pa.RecordBatch]:
    """Run a plan and return its rows, in the order of the partitions."""
    if hasattr(plan, "toArrow"):
        return cast("list[pa.RecordBatch]", plan.toArrow().to_batches())
    return collect_as_arrow(plan)


def frame_of(session: SparkSession, table: pa.Table) -> DataFrame:
    """Return a DataFrame of the rows of a table; times without a zone stay so, whatever the session prefers."""
    schema = spark_schema(table.schema)
    if hasattr(DataFrame, "toArrow"):
        return session.createDataFrame(table, schema)
    return frame_of_arrow(session, table, schema)


def has_siblings(session: SparkSession) -> bool:
    """Return whether there can be another session of Spark Connect on the same server, with settings of its own."""
    return hasattr(session, "newSession") or hasattr(session, "cloneSession")


def sibling(session: SparkSession) -> SparkSession:
    """Return another session of Spark Connect on the same server."""
    make: Callable[[], SparkSession] = getattr(session, "newSession", None) or cast(Any, session).cloneSession
    return make()


def batch_settings(session: SparkSession) -> dict[str, str]:
    """Settings that bound the Arrow batches of messages, whose blobs may be large.

    A batch ends before Arrow's 2 GiB do, and a task need not hold many of them twice.
    """
    if session.conf.isModifiable(_BYTES_SETTING):
        return {_BYTES_SETTING: str(8 << 20), _RECORDS_SETTING: "10000"}
    return {_RECORDS_SETTING: str(((2 << 30) - 1) // PIECE)}


def placed(plan: DataFrame, partitions: int, column: str) -> DataFrame:
    """Give each row to the partition whose number is in an integer column; the plan has so many partitions then."""
    if hasattr(plan, "repartitionById"):
        return plan.repartitionById(partitions, column)
    return placed_by_hash(plan, partitions, column)


def placed_by_hash(plan: DataFrame, partitions: int, column: str) -> DataFrame:
    """Do what `placed` does by an integer for each partition, of which Spark's hash is the number of the partition.

    Spark gives a row to partition `pmod(hash(x), partitions)`, and a number below `partitions` is its own remainder.
    """
    table = ",".join(str(unhashed(number)) for number in range(partitions))
    return plan.repartition(partitions, F.expr(f"array({table})[{column}]"))


def unhashed(value: int) -> int:
    """Return the 32-bit integer of which Spark's `hash` is `value`.

    That hash, Murmur3 with the seed 42, is made of steps that can each be undone: see Spark's `Murmur3_x86_32.hashInt`.

    >>> unhashed(0), unhashed(1)
    (-1693959553, -1910889132)
    """
    value = _without_shift(value & _MASK, 16) * pow(0xC2B2AE35, -1, 1 << 32) & _MASK
    value = _without_shift(value, 13) * pow(0x85EBCA6B, -1, 1 << 32) & _MASK
    value = _without_shift(value, 16) ^ 4
    value = _rotated((value - 0xE6546B64) * pow(5, -1, 1 << 32) & _MASK, 32 - 13) ^ 42
    value = _rotated(value * pow(0x1B873593, -1, 1 << 32) & _MASK, 32 - 15)
    value = value * pow(0xCC9E2D51, -1, 1 << 32) & _MASK
    return value - (1 << 32) if value >> 31 else value


def _without_shift(value: int, bits: int) -> int:
    """Undo `value ^ (value >> bits)`."""
    return value ^ (value >> bits) ^ (value >> 2 * bits)


def _rotated(value: int, bits: int) -> int:
    """Rotate 32 bits to the left."""
    return (value << bits | value >> (32 - bits)) & _MASK
