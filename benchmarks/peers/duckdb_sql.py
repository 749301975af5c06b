"""DuckDB: the workload as one query over the file, with as many threads as the benchmark has cores."""

from __future__ import annotations

import duckdb
import pyarrow as pa

from benchmarks.dataset import Dataset
from benchmarks.peers.peer import Peer
from benchmarks.session import CORES
from benchmarks.workload import W1, WINDOW

_FIXED_SUMS = f"""
    SELECT key, epoch_us(timestamp) // {WINDOW} * {WINDOW} AS start, sum(value)::BIGINT AS sum
    FROM read_parquet($file) GROUP BY ALL
"""


def fixed_sums(dataset: Dataset) -> pa.Table:
    with duckdb.connect(config={"threads": CORES}) as connection:
        return connection.sql(_FIXED_SUMS, params={"file": str(dataset.one)}).to_arrow_table()


DUCKDB = Peer(
    "DuckDB",
    {W1.name: fixed_sums},
    events=10_000_000,
    warm_whole=True,
    note=f"SQL, {CORES} threads of the benchmark's process, in memory; the result is an Arrow table",
)
