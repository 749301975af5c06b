"""Reading the events for frameworks that take Python values, and making tables of what they put out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

Event = tuple[str, int, int]
"""Key, value, timestamp in microseconds."""
Rows = Sequence[tuple[object, ...]]
COLUMNS = {"W1": ("key", "start", "sum"), "W2": ("key", "start", "end", "count"), "W3": ("key", "minute", "total")}


def events(path: str) -> Iterator[Event]:
    """The events of a file in order of arrival."""
    keys, values, timestamps = pq.read_table(path).columns
    return zip(keys.to_pylist(), values.to_pylist(), timestamps.cast(pa.int64()).to_pylist(), strict=True)


def table(workload: str, rows: Rows) -> pa.Table:
    """Rows of a result as a table."""
    names = COLUMNS[workload]
    types = [pa.string() if name == "key" else pa.int64() for name in names]
    columns = list(zip(*rows, strict=True)) or [()] * len(names)
    return pa.table([pa.array(column, kind) for column, kind in zip(columns, types, strict=True)], names=names)
