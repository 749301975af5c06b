"""Results as tables, from where a run has left them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.nexmark.query import Query


def of_rows(query: Query, rows: Sequence[Sequence[object]]) -> pa.Table:
    """Rows in memory."""
    columns = list(zip(*rows, strict=True)) or [()] * len(query.columns)
    return pa.table(columns, schema=query.schema)


def of_parquet(query: Query, folder: Path) -> pa.Table:
    """All Parquet files of a folder."""
    files = sorted(folder.glob("*.parquet"))
    return pa.concat_tables(pq.read_table(file).select(query.columns) for file in files)


def of_logs(query: Query, files: Iterable[str]) -> pa.Table:
    """Lines of log files, with the start of the window that each file's name begins with."""
    rows = []
    for file in map(Path, files):
        start = int(file.name.partition("-")[0])
        rows += [(start, *map(int, line.split(","))) for line in file.read_text().splitlines()]
    return of_rows(query, rows)
