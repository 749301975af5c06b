"""What the oldest Arrow that the package takes has no function for."""

from __future__ import annotations

import pyarrow as pa


def with_column(batch: pa.RecordBatch, name: str, column: pa.Array) -> pa.RecordBatch:
    """The batch with a column, which replaces one of its name in its place."""
    columns = dict(zip(batch.schema.names, batch.columns, strict=True)) | {name: column}
    return pa.RecordBatch.from_arrays(list(columns.values()), list(columns))
