"""A sink that passes the rows of each epoch to a function as a Spark DataFrame (as Spark's `foreachBatch` does)."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from headrace.lowlevel.records.record import Batch
from headrace.lowlevel.stored_names import named
from headrace.runners.spark.cluster.of_session import cluster_of
from headrace.runners.spark.pyspark_private import arrow_schema, spark_schema
from headrace.runners.spark.releases import frame_of
from headrace.sdk.io.table_sink import TableSink
from headrace.sdk.transforms.core.write import Write


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
        to = arrow_schema(spark_schema(pa.schema([field])))[0].type
    except (PySparkException, ValueError) as error:
        raise ValueError(
            f"column {field.name!r} is of type {field.type}, which a Spark DataFrame does not have; convert the values "
            "before WriteToSpark, or state another type with schema=pyarrow.schema(...)"
        ) from error
    try:
        return column.cast(to)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise ValueError(
            f"a value of column {field.name!r} of type {field.type} does not fit the type that Spark has for it, {to}: "
            f"{error}; convert the values before WriteToSpark"
        ) from error


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
        schema: Columns and their types, a `pyarrow.Schema`. By default the types follow from the elements of the epoch.
        session: Session of the DataFrames. By default a new session that shares the cluster of the current session but
            not its runtime settings.
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
        super().__init__(FrameSink(self._hand_over, schema))

    def _hand_over(self, epoch: int, table: pa.Table) -> None:
        if self._session is None:
            self._session = cluster_of(SparkSession.builder.getOrCreate()).sibling()
        self._function(frame_of(self._session, table), epoch)
