"""Spark's own batch engine: declarative windows, all in the JVM. What can be had when no Python code runs."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from benchmarks.dataset import Dataset
from benchmarks.peers.peer import Peer
from benchmarks.session import start_session
from benchmarks.workload import W1, W2


def _events(dataset: Dataset) -> DataFrame:
    return start_session().read.parquet(str(dataset.one))


def fixed_sums(dataset: Dataset) -> pa.Table:
    sums = _events(dataset).groupBy("key", F.window("timestamp", "1 minute").alias("window")).agg(F.sum("value"))
    return sums.select("key", F.unix_micros("window.start"), "sum(value)").toArrow()


def session_counts(dataset: Dataset) -> pa.Table:
    sessions = F.session_window("timestamp", "30 seconds").alias("window")
    counts = _events(dataset).groupBy("key", sessions).count()
    return counts.select("key", F.unix_micros("window.start"), F.unix_micros("window.end"), "count").toArrow()


SPARK_SQL = Peer(
    "Spark batch SQL",
    {W1.name: fixed_sums, W2.name: session_counts},
    events=1_000_000,
    warm_whole=True,
    note="local[2], no Python code",
)
