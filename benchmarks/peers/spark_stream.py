"""Spark's own streaming engine: declarative windows and joins, all in the JVM, with state in RocksDB.

A stream of files, each a micro-batch, with a durable checkpoint. The watermark stays as far behind as the greatest
delay, so nothing is late; an event far in the future ends the input where windows are to be put out.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import cast

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from benchmarks.dataset import FILE_EVENTS, Dataset
from benchmarks.generator import SECOND
from benchmarks.peers.peer import Peer, Run
from benchmarks.session import DEFAULT_MANAGER, MANAGER_OPTION, QUICK_MANAGER, spark_processes, start_session
from benchmarks.workload import W1, W2, W5, W9

_INPUT = "key STRING, value LONG, timestamp TIMESTAMP"


def events_of(dataset: Dataset, folder: Path) -> DataFrame:
    """The events of a folder as a stream, a file a micro-batch, with a watermark."""
    files = start_session().readStream.schema(_INPUT).option("maxFilesPerTrigger", 1).parquet(str(folder))
    return files.withWatermark("timestamp", f"{dataset.plan.greatest_delay // SECOND} seconds")


def collect(stream: DataFrame) -> pa.Table:
    """Run a stream to its end, a micro-batch a file."""
    parts: list[pa.Table] = []
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as checkpoint:
        query = (
            stream.writeStream.outputMode("append")
            .foreachBatch(lambda frame, _: parts.append(frame.toArrow()))
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
    return pa.concat_tables(parts)


def fixed_sums(dataset: Dataset) -> pa.Table:
    events = events_of(dataset, dataset.ended)
    sums = events.groupBy("key", F.window("timestamp", "1 minute").alias("window")).agg(F.sum("value"))
    return collect(sums.select("key", F.unix_micros("window.start"), "sum(value)"))


def session_counts(dataset: Dataset) -> pa.Table:
    events = events_of(dataset, dataset.ended)
    counts = events.groupBy("key", F.session_window("timestamp", "30 seconds").alias("window")).count()
    return collect(counts.select("key", F.unix_micros("window.start"), F.unix_micros("window.end"), "count"))


def sliding_sums(dataset: Dataset) -> pa.Table:
    events = events_of(dataset, dataset.ended)
    sums = events.groupBy("key", F.window("timestamp", "1 minute", "15 seconds").alias("window")).agg(F.sum("value"))
    return collect(sums.select("key", F.unix_micros("window.start"), "sum(value)"))


def clicked(dataset: Dataset) -> pa.Table:
    """Both sides have the window, on which the watermark tells Spark when it may forget."""
    shown, clicks = (
        events_of(dataset, folder).select(
            "key", "value", F.window("timestamp", "1 minute").alias("window"), F.unix_micros("timestamp").alias(at)
        )
        for folder, at in ((dataset.many, "shown"), (dataset.clicks.many, "clicked"))
    )
    joined = shown.join(clicks, ["key", "value", "window"])
    return collect(joined.select("key", "value", F.unix_micros("window.start"), "shown", "clicked"))


def _by_default_manager(run: Run) -> Run:
    """The same with the manager of checkpoint files that Spark takes if it is told none."""

    def by_default_manager(dataset: Dataset) -> pa.Table:
        settings = start_session().conf
        settings.set(MANAGER_OPTION, DEFAULT_MANAGER)
        try:
            return cast(pa.Table, run(dataset))
        finally:
            settings.set(MANAGER_OPTION, QUICK_MANAGER)

    return by_default_manager


_NOTE = f"local[2], micro-batches of {FILE_EVENTS:,}, RocksDB, durable"
SPARK_STREAM = Peer(
    "Spark Structured Streaming",
    {W1.name: fixed_sums, W2.name: session_counts, W5.name: sliding_sums, W9.name: clicked},
    events=1_000_000,
    note=_NOTE,
    processes=spark_processes,
)
SPARK_STREAM_DEFAULT = Peer(
    "Spark Structured Streaming, default manager",
    {W1.name: _by_default_manager(fixed_sums), W2.name: _by_default_manager(session_counts)},
    events=500_000,
    note=f"{_NOTE}, Spark's default manager of checkpoint files",
    processes=spark_processes,
)
