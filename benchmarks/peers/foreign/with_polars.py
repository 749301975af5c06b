"""Polars: the workload as one lazy query over the file; the number of threads is this program's argument."""

from __future__ import annotations

import os
import sys

import pyarrow as pa

from benchmarks.peers.foreign.protocol import Job
from benchmarks.peers.foreign.serving import serve

# Polars reads it when it is imported.
os.environ["POLARS_MAX_THREADS"] = sys.argv[1]

import polars as pl


def _fixed_sums(job: Job) -> pa.Table:
    micros = pl.col("timestamp").dt.epoch("us")
    summed = pl.scan_parquet(job.one).group_by("key", (micros - micros % job.window).alias("start"))
    result = summed.agg(pl.col("value").sum().alias("sum")).collect(engine="streaming")
    return result.to_arrow()


if __name__ == "__main__":
    serve(lambda: {"W1": _fixed_sums})
