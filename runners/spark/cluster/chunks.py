"""Gives each chunk of a table a partition of its own, where Spark divides rows by its own rule.

Rows say where they go. A server of Spark Connect divides what it gets by itself, and so does a session with a master
that refuses the setting by which each chunk becomes a partition (`CHUNKS_SETTING`).
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from headrace.runners.spark.releases import frame_of, placed

_CHUNK, _ROW = "headrace_chunk", "headrace_row"


def numbered_chunks(session: SparkSession, table: pa.Table) -> DataFrame:
    """Return the rows of a table as a DataFrame with a partition for each chunk, in the order of the chunks."""
    batches = table.to_batches()
    chunks = [number for number, batch in enumerate(batches) for _ in range(len(batch))]
    numbered = table.append_column(_CHUNK, pa.array(chunks, pa.int32()))
    numbered = numbered.append_column(_ROW, pa.array(range(len(table)), pa.int32()))
    frame = frame_of(session, numbered)
    # One partition needs no shuffle.
    frame = frame.coalesce(1) if len(batches) == 1 else placed(frame, len(batches), _CHUNK)
    return frame.sortWithinPartitions(_ROW).select(*table.column_names)
