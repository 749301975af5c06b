"""Each epoch's rows as a Spark DataFrame, for a function that writes it wherever Spark can (Spark's `foreachBatch`)."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from headrace.sdk.io.tablesink import TableSink
from headrace.sdk.transforms.write import Write


class WriteToSpark(Write):
    """Calls `function(frame, epoch)` on the driver with the rows of each epoch as a DataFrame, once it is committed.

    Elements are dicts, `Row`s, named tuples or dataclasses. After a crash the newest epoch may come again, with the
    same number and rows: a function that leaves out a number that it knows, or overwrites what it wrote under it, has
    effects exactly once (Delta's `txnAppId` and `txnVersion` do so). The rows of an epoch pass through its commit and
    the driver's memory.

    Args:
        function: What is called, once for each epoch that has rows; arguments in the order of `foreachBatch`.
        schema: The columns and their types, a `pyarrow.Schema`; by default what the elements of an epoch suggest.
        session: Whose the DataFrames are; by default a new session beside that of the run, with its settings of old.
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
        super().__init__(TableSink(self._hand_over, schema))

    def _hand_over(self, epoch: int, table: pa.Table) -> None:
        if self._session is None:
            self._session = SparkSession.builder.getOrCreate().newSession()
        self._function(self._session.createDataFrame(table), epoch)
