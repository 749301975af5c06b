"""Headrace on Spark: bounded, the file in one epoch; streamed, twenty files in an epoch each; state durable in both."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pyarrow as pa

import headrace as beam
from benchmarks.nexmark.dataset import Dataset
from benchmarks.nexmark.generator import SECOND
from benchmarks.nexmark.implementation import TO_MEMORY, TO_PARQUET
from benchmarks.nexmark.pipelines import by_column
from benchmarks.nexmark.pipelines.logs import log_to_files
from benchmarks.nexmark.query import Query
from benchmarks.nexmark.results import of_logs, of_parquet, of_rows
from benchmarks.session import start_own_session
from headrace.io import ReadFromParquet, Write, WriteToParquet
from headrace.lowlevel import CallSink
from headrace.options.pipeline_options import PipelineOptions

Build = Callable[[Any], Any]


def bounded(query: Query, dataset: Dataset) -> Callable[[], pa.Table]:
    """Run a query over the one file; what is returned makes a table of the result."""
    # Like Beam's: queries without windows do not look at the time.
    timestamp = "timestamp" if "time" in query.reads else None
    return _run(query, ReadFromParquet(str(dataset.one), columns=query.reads, timestamp=timestamp))


def streamed(query: Query, dataset: Dataset) -> Callable[[], pa.Table]:
    """Run a query over the row of files, with a watermark that follows the events."""
    delay = dataset.plan.disorder / SECOND
    reading = ReadFromParquet(f"{dataset.many}/*.parquet", columns=query.reads, timestamp="timestamp", max_delay=delay)
    return _run(query, reading, max_records_per_epoch=dataset.file_events)


def _run(query: Query, reading: ReadFromParquet, **options: object) -> Callable[[], pa.Table]:
    start_own_session()
    folder = tempfile.TemporaryDirectory(prefix="headrace-nexmark-run-")
    options["checkpoint"] = f"{folder.name}/checkpoint"
    rows: list[tuple[object, ...]] = []
    with beam.Pipeline("SparkRunner", options=PipelineOptions([], **options)) as pipeline:
        events = pipeline | reading
        if query.name in TO_PARQUET:
            written = WriteToParquet(
                f"{folder.name}/part", query.schema, file_name_suffix=".parquet", windowed_writes=False
            )
            _ = TO_PARQUET[query.name](beam, by_column, events) | written
        else:
            sink = CallSink(
                lambda epoch, delivered: rows.extend(cast("tuple[object, ...]", row) for row, _ in delivered)
            )
            _ = _built(query, events, folder.name) | Write(sink)

    def table() -> pa.Table:
        with folder:
            if query.name in TO_PARQUET:
                return of_parquet(query, Path(folder.name))
            return of_logs(query, cast("list[str]", rows)) if query.name == "q10" else of_rows(query, rows)

    return table


def _built(query: Query, events: object, folder: str) -> Any:
    if query.name == "q10":
        return log_to_files(beam, by_column, events, folder)
    return TO_MEMORY[query.name](beam, by_column, events)
