"""A sink that passes the rows of each epoch to a function as a Spark DataFrame (as Spark's `foreachBatch` does)."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from headrace.runners.spark.cluster.of_session import cluster_of
from headrace.runners.spark.releases import frame_of
from headrace.sdk.io.table_sink import TableSink
from headrace.sdk.transforms.core.write import Write


class WriteToSpark(Write):
    """Calls `function(frame, epoch)` on the driver with the rows of each epoch as a DataFrame, after the commit.

    Elements are dicts, `Row`s, named tuples or dataclasses. After a crash the newest epoch may be delivered again, with
    the same number and rows. A function has exactly-once effects if it skips an epoch number that it has already
    written, or overwrites what it wrote under that number (as Delta does with `txnAppId` and `txnVersion`). The rows of
    an epoch become part of its commit and pass through the driver's memory.

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
        super().__init__(TableSink(self._hand_over, schema))

    def _hand_over(self, epoch: int, table: pa.Table) -> None:
        if self._session is None:
            self._session = cluster_of(SparkSession.builder.getOrCreate()).sibling()
        self._function(frame_of(self._session, table), epoch)
