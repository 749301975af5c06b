"""The columns of a DataFrame as Arrow has them, for sinks that keep the types of their sources."""

from __future__ import annotations

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from headrace.runners.spark.pyspark_private import arrow_schema


def columns_of(frame: DataFrame) -> pa.Schema | None:
    """The columns of a DataFrame; None if Spark cannot tell them, or Arrow does not have one of the types."""
    try:
        return arrow_schema(frame.schema)
    except (PySparkException, ValueError):
        return None
