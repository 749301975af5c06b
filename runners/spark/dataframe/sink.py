"""A sink that passes the rows of each epoch to a function as a Spark DataFrame (as Spark's `foreachBatch` does)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from headrace.lowlevel.records.record import Batch
from headrace.lowlevel.stored_names import named
from headrace.runners.spark.cluster.cluster import cluster_of
from headrace.runners.spark.pyspark_private import arrow_schema, spark_schema
from headrace.runners.spark.releases import frame_of
from headrace.sdk.graph.pvalue import PCollection, PValue
from headrace.sdk.io.columns.source_columns import source_columns
from headrace.sdk.io.foreach_epoch import TableSink
from headrace.sdk.transforms.core.low_level import Write


@named("TableSink")
class FrameSink(TableSink):
    """A `TableSink` whose rows are in the types of Spark when they are staged, so that a DataFrame can be made of them.

    >>> sink = FrameSink(print)
    >>> sink.table(Batch([{"n": 2}], [5])).schema.types
    [DataType(int64)]
    """

    def table(self, batch: Batch) -> pa.Table:
        """See `TableSink`. Raises `ValueError` for a column, or an element, that no DataFrame can have."""
        table = super().table(batch)
        columns = [_column(field, table[number]) for number, field in enumerate(table.schema)]
        return pa.Table.from_arrays(columns, table.schema.names)


def _column(field: pa.Field, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column in the type in which Spark takes it. Raises `ValueError` for a value that would be cut."""
    try:
        to = _spark_type(field)
    except (PySparkException, ValueError) as error:
        raise ValueError(
            f"column {field.name!r} is of type {field.type}, which a Spark DataFrame does not have; convert the values "
            "before WriteToSpark, or state another type with schema=pyarrow.schema(...)"
        ) from error
    try:
        return column.cast(to)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        one = next((value for value in column if not _fits(value, to)), None)
        raise ValueError(
            f"{'a value' if one is None else _shown(one)} of column {field.name!r} of type {field.type} "
            f"does not fit the type that Spark has for it, {to}: {error}; convert the values before WriteToSpark"
        ) from error


def _shown(value: pa.Scalar) -> str:
    """A value for an error; Python has no times as far away as some that Arrow has."""
    try:
        return repr(value.as_py())[:80]
    except OverflowError:
        return "a value"


def _fits(value: pa.Scalar, to: pa.DataType) -> bool:
    try:
        value.cast(to)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return False
    return True


def _spark_type(field: pa.Field) -> pa.DataType:
    """The type in which Spark takes a column. Raises `PySparkException` or `ValueError` if there is none."""
    return arrow_schema(spark_schema(pa.schema([field])))[0].type


def _columns_for_spark(inputs: PCollection[object]) -> pa.Schema | None:
    """The columns of a collection as far as its sources declare them, in types of Spark; others follow from values."""
    columns = source_columns(inputs)
    return None if columns is None else pa.schema([(field.name, _type_or_null(field)) for field in columns])


def _type_or_null(field: pa.Field) -> pa.DataType:
    if pa.types.is_null(field.type):
        return field.type
    try:
        return _spark_type(field)
    except (PySparkException, ValueError):
        return pa.null()


class WriteToSpark(Write):
    """Calls `function(frame, epoch)` on the driver with the rows of each epoch as a DataFrame, after the commit.

    Elements are dicts, `Row`s, named tuples or dataclasses. After a crash the newest epoch may be delivered again, with
    the same number and rows. A function has exactly-once effects if it skips an epoch number that it has already
    written, or overwrites what it wrote under that number (as Delta does with `txnAppId` and `txnVersion`). The rows of
    an epoch become part of its commit and pass through the driver's memory. A column that no DataFrame can have stops
    the run before the epoch is committed. A `datetime` without a time zone becomes a `TIMESTAMP_NTZ`, one with a zone
    (and a `Timestamp`) a `TIMESTAMP`.

    Args:
        function: Called once for each epoch that has rows; the arguments have the order of `foreachBatch`.
        schema: Columns and their types, a `pyarrow.Schema`; by default as for `WriteToParquet`, one schema for all
            epochs, in the types that Spark has.
        session: Session of the DataFrames. By default a new session that shares the cluster of the current session but
            not its runtime settings; over Spark Connect before 4.1 the current session.
    """

    def __init__(
        self,
        function: Callable[[DataFrame, int], object],
        schema: pa.Schema | None = None,
        session: SparkSession | None = None,
    ) -> None:
        if not callable(function):
            raise TypeError(f"WriteToSpark takes a function of DataFrame and epoch, got {function!r:.200}")
        self._function, self._session = function, session
        self._frames = FrameSink(self._hand_over, schema)
        super().__init__(self._frames)

    def expand(self, inputs: PCollection[object]) -> PValue:
        """See `Write.expand`."""
        self._frames.columns.source = partial(_columns_for_spark, inputs)
        return super().expand(inputs)

    def _hand_over(self, epoch: int, table: pa.Table) -> None:
        if self._session is None:
            session = SparkSession.builder.getOrCreate()
            self._session = cluster_of(session).sibling() or session
        self._function(frame_of(self._session, table), epoch)
