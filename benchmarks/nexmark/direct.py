"""Queries as programs of Apache Beam's SDK, on its own Python runner and, unchanged, on ours; nothing is durable."""

# Beam's decorators and default arguments mean nothing to a type checker.
# mypy: ignore-errors

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import apache_beam as beam
import pyarrow as pa
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Timestamp

from benchmarks.nexmark.dataset import Dataset
from benchmarks.nexmark.implementation import TO_MEMORY, TO_PARQUET
from benchmarks.nexmark.pipelines import by_row
from benchmarks.nexmark.pipelines.logs import log_to_files
from benchmarks.nexmark.query import Query
from benchmarks.nexmark.results import of_logs, of_parquet, of_rows
from benchmarks.peers.beam_inputs import HEADRACE, Collect, collected
from benchmarks.session import start_own_session


def _stamped(event: dict[str, object]) -> TimestampedValue:
    return TimestampedValue(event, Timestamp(micros=event["time"]))


def run_with(flags: Sequence[str], query: Query, dataset: Dataset) -> Callable[[], pa.Table]:
    """Run a query over the one file; what is returned makes a table of the result. Options name the runner."""
    folder = tempfile.TemporaryDirectory(prefix="headrace-nexmark-run-")
    with beam.Pipeline(options=PipelineOptions(flags)) as pipeline:
        events = pipeline | beam.io.ReadFromParquet(str(dataset.one), columns=list(query.reads))
        if query.name in TO_PARQUET:
            written = beam.io.WriteToParquet(f"{folder.name}/part", query.schema, file_name_suffix=".parquet")
            _ = TO_PARQUET[query.name](beam, by_row, events) | written
        else:
            # Queries without windows do not look at the time.
            timed = events | "Event time" >> beam.Map(_stamped) if "time" in query.reads else events
            _ = _built(query, timed, folder.name) | "Collect" >> beam.ParDo(Collect(folder.name))

    def table() -> pa.Table:
        with folder:
            rows = collected(folder.name)
            if query.name in TO_PARQUET:
                return of_parquet(query, Path(folder.name))
            return of_logs(query, rows) if query.name == "q10" else of_rows(query, rows)

    return table


def on_headrace(runner: str, query: Query, dataset: Dataset) -> Callable[[], pa.Table]:
    """The same on Headrace's local runner or on Spark."""
    if runner == "SparkRunner":
        start_own_session()
    return run_with([HEADRACE, f"--headrace_runner={runner}"], query, dataset)


def _built(query: Query, events: beam.PCollection, folder: str) -> beam.PCollection:
    if query.name == "q10":
        return log_to_files(beam, by_row, events, folder)
    return TO_MEMORY[query.name](beam, by_row, events)
