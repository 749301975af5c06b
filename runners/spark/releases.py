"""What the releases of Spark differ in, as far as the engine is concerned: one function for each difference.

Each function asks what the release offers, not for its number, and results are the same with all of them. The table for
users is in `docs/spark-releases.md`.

| since | what | before |
|---|---|---|
| 4.0 | `DataFrame.toArrow` | `collected`: the method behind `toPandas`; over Connect `collect` |
| 4.0 | `createDataFrame` of an Arrow table | `frame_of`: the Java function that it calls; over Connect rows |
| 4.0 | a bound on the bytes of a batch | `engine_settings`: few rows to a batch, as blobs may be large |
| 4.0 | a session turns the fault handler of workers on | `SESSION_SETTINGS`: only one that headrace makes has it |
| 4.1 | `DataFrame.repartitionById` | `placed`: Spark's hash of an integer is undone |
| 4.1 | Unix sockets between Java and Python | TCP; Spark ignores settings that it does not know |
| 4.1 | further sessions over Spark Connect | `sibling`: none, so the engine uses the program's session |
"""

from __future__ import annotations

import re
from typing import cast
from weakref import WeakKeyDictionary

import pyarrow as pa
import pyspark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace.runners.spark.errors import require_answer
from headrace.runners.spark.pyspark_private import arrow_schema, spark_schema

SESSION_SETTINGS = {"spark.python.worker.faulthandler.enabled": "true"}
"""Settings for a session that headrace makes; newer releases have them for each session."""
_MASK = 0xFFFFFFFF
_CHUNK, _ROW = "headrace_chunk", "headrace_row"


def collected(plan: DataFrame) -> list[pa.RecordBatch]:
    """Run a plan and return its rows, in the order of the partitions."""
    if hasattr(plan, "toArrow"):
        return cast("list[pa.RecordBatch]", plan.toArrow().to_batches())
    if is_connect(plan.sparkSession):
        rows = [row.asDict() for row in plan.collect()]
        return cast("list[pa.RecordBatch]", pa.Table.from_pylist(rows, arrow_schema(plan.schema)).to_batches())
    from headrace.runners.spark.jvm_private import collect_as_arrow

    return collect_as_arrow(plan)


def frame_of(session: SparkSession, table: pa.Table) -> DataFrame:
    """Return a DataFrame of the rows of a table; times without a zone stay so, whatever the session prefers."""
    schema = spark_schema(table.schema)
    # A client for Databricks 15.4 has `toArrow`, but takes no tables.
    if version_numbers(pyspark.__version__) >= (4, 0):
        return session.createDataFrame(table, schema)
    if is_connect(session):
        return session.createDataFrame(rows_of(table), schema)
    from headrace.runners.spark.jvm_private import frame_of_arrow

    return frame_of_arrow(session, table, schema)


def rows_of(table: pa.Table) -> list[tuple[object, ...]]:
    """Return the rows of a table as Spark takes them: a map is a dictionary.

    >>> rows_of(pa.table({"n": [1, None], "at": pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int32()))}))
    [(1, {'a': 1}), (None, None)]
    """
    columns = [_values(column) for column in table.columns]
    return list(zip(*columns, strict=True))


def _values(column: pa.ChunkedArray) -> list[object]:
    values: list[object] = column.to_pylist()
    if pa.types.is_map(column.type):
        return [None if value is None else dict(cast("list[tuple[object, object]]", value)) for value in values]
    return values


def is_connect(session: SparkSession) -> bool:
    """Return whether a session is one of Spark Connect. Its classes need packages that may not be installed."""
    return type(session).__module__.startswith("pyspark.sql.connect")


def sibling(session: SparkSession) -> SparkSession | None:
    """Return another session of Spark Connect on the same server; None if this release cannot make one."""
    for name in ("newSession", "cloneSession"):
        try:
            made: SparkSession = getattr(session, name)()
        except Exception as error:
            # The client has no such method; or the server is older than the client, or forbids it: gRPC's error.
            require_answer(error)
        else:
            return made
    return None


def placed(plan: DataFrame, partitions: int, column: str) -> DataFrame:
    """Give each row to the partition whose number is in an integer column; the plan has so many partitions then."""
    if hasattr(plan, "repartitionById") and release(plan.sparkSession) >= (4, 1):
        return plan.repartitionById(partitions, column)
    return placed_by_hash(plan, partitions, column)


_RELEASES: WeakKeyDictionary[SparkSession, tuple[int, ...]] = WeakKeyDictionary()


def release(session: SparkSession) -> tuple[int, ...]:
    """Return major and minor number of the Spark that a session runs on, which over Connect may not be the client's."""
    if (known := _RELEASES.get(session)) is None:
        known = _RELEASES[session] = version_numbers(session.version)
    return known


def version_numbers(version: str) -> tuple[int, ...]:
    """Return the major and the minor number of a version.

    >>> version_numbers("4.0.1-amzn-0")
    (4, 0)
    """
    return tuple(map(int, re.findall(r"\d+", version)[:2]))


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


def numbered_chunks(session: SparkSession, table: pa.Table) -> DataFrame:
    """Return the rows of a table as a DataFrame with a partition for each chunk, in the order of the chunks.

    Rows say where they go, for a session that divides rows by a rule of its own: over Spark Connect, or where the
    setting by which each chunk becomes a partition is refused (`CHUNKS_SETTING` in `engine_settings`).
    """
    batches = table.to_batches()
    chunks = [number for number, batch in enumerate(batches) for _ in range(len(batch))]
    numbered = table.append_column(_CHUNK, pa.array(chunks, pa.int32()))
    numbered = numbered.append_column(_ROW, pa.array(range(len(table)), pa.int32()))
    frame = frame_of(session, numbered)
    # One partition needs no shuffle.
    frame = frame.coalesce(1) if len(batches) == 1 else placed(frame, len(batches), _CHUNK)
    return frame.sortWithinPartitions(_ROW).select(*table.column_names)
