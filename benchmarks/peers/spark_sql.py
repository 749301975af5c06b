"""Spark's own batch engine: declarative windows, all in the JVM. What can be had when no Python code runs."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from benchmarks.dataset import Dataset
from benchmarks.peers.peer import Peer
from benchmarks.session import spark_processes, start_session
from benchmarks.workload import W1, W2, W5, W9


def _events(dataset: Dataset) -> DataFrame:
    return start_session().read.parquet(str(dataset.one))


def fixed_sums(dataset: Dataset) -> pa.Table:
    sums = _events(dataset).groupBy("key", F.window("timestamp", "1 minute").alias("window")).agg(F.sum("value"))
    return sums.select("key", F.unix_micros("window.start"), "sum(value)").toArrow()


def session_counts(dataset: Dataset) -> pa.Table:
    events = _events(dataset)
    counts = events.groupBy("key", F.session_window("timestamp", "30 seconds").alias("window")).count()
    return counts.select("key", F.unix_micros("window.start"), F.unix_micros("window.end"), "count").toArrow()


def sliding_sums(dataset: Dataset) -> pa.Table:
    events = _events(dataset)
    sums = events.groupBy("key", F.window("timestamp", "1 minute", "15 seconds").alias("window")).agg(F.sum("value"))
    return sums.select("key", F.unix_micros("window.start"), "sum(value)").toArrow()


def clicked(dataset: Dataset) -> pa.Table:
    shown, clicks = (
        start_session()
        .read.parquet(str(path))
        .select("key", "value", F.window("timestamp", "1 minute").alias("window"), F.unix_micros("timestamp").alias(at))
        for path, at in ((dataset.one, "shown"), (dataset.clicks.one, "clicked"))
    )
    joined = shown.join(clicks, ["key", "value", "window"])
    return joined.select("key", "value", F.unix_micros("window.start"), "shown", "clicked").toArrow()


SPARK_SQL = Peer(
    "Spark batch SQL",
    {W1.name: fixed_sums, W2.name: session_counts, W5.name: sliding_sums, W9.name: clicked},
    events=1_000_000,
    warm_whole=True,
    note="local[2], no Python code",
    processes=spark_processes,
)
