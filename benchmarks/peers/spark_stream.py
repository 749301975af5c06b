"""Spark's own streaming engine: declarative windows and joins, all in the JVM, with state in RocksDB.

A stream of files, each a micro-batch, with a durable checkpoint. The watermark stays as far behind as the greatest
delay, so nothing is late; an event far in the future ends the input where windows are to be put out.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from benchmarks.dataset import FILE_EVENTS, Dataset
from benchmarks.generator import SECOND
from benchmarks.peers.peer import Peer
from benchmarks.session import start_session
from benchmarks.workload import W5, W9

_INPUT = "key STRING, value LONG, timestamp TIMESTAMP"


def _events(dataset: Dataset, folder: Path) -> DataFrame:
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


def sliding_sums(dataset: Dataset) -> pa.Table:
    window = F.window("timestamp", "1 minute", "15 seconds").alias("window")
    sums = _events(dataset, dataset.ended).groupBy("key", window).agg(F.sum("value"))
    return collect(sums.select("key", F.unix_micros("window.start"), "sum(value)"))


def clicked(dataset: Dataset) -> pa.Table:
    """Both sides have the window, on which the watermark tells Spark when it may forget."""
    shown, clicks = (
        _events(dataset, folder).select(
            "key", "value", F.window("timestamp", "1 minute").alias("window"), F.unix_micros("timestamp").alias(at)
        )
        for folder, at in ((dataset.many, "shown"), (dataset.clicks.many, "clicked"))
    )
    joined = shown.join(clicks, ["key", "value", "window"])
    return collect(joined.select("key", "value", F.unix_micros("window.start"), "shown", "clicked"))


SPARK_STREAM = Peer(
    "Spark Structured Streaming",
    {W5.name: sliding_sums, W9.name: clicked},
    events=1_000_000,
    note=f"local[2], micro-batches of {FILE_EVENTS:,}, RocksDB, durable",
)
