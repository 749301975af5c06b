"""The right results, by DuckDB."""

from __future__ import annotations

import duckdb
import pyarrow as pa

from benchmarks.nexmark.dataset import Dataset
from benchmarks.nexmark.query import Query
from benchmarks.nexmark.sql import SQL
from benchmarks.result import canonical


class Expected:
    """Results by query and number of events, each computed once."""

    def __init__(self) -> None:
        self._results: dict[tuple[str, int], pa.Table] = {}

    def of(self, query: Query, dataset: Dataset) -> pa.Table:
        """The result as `canonical` makes it."""
        place = query.name, dataset.events
        if place not in self._results:
            self._results[place] = canonical(query, computed(query, str(dataset.one)))
        return self._results[place]


def computed(query: Query, path: str) -> pa.Table:
    """A query's result over a Parquet file of events."""
    with duckdb.connect() as connection:
        connection.read_parquet(path).create_view("events")
        return connection.sql(SQL[query.name]).to_arrow_table()
