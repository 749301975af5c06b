"""Apache Beam's own Python runner for bounded input, in this process and without a network; nothing is durable."""

# Beam's decorators and default arguments mean nothing to a type checker.
# mypy: ignore-errors

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import apache_beam as beam
import pyarrow as pa
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Timestamp

from benchmarks.nexmark.dataset import Dataset
from benchmarks.nexmark.implementation import TO_MEMORY, TO_PARQUET
from benchmarks.nexmark.pipelines import by_row
from benchmarks.nexmark.pipelines.logs import log_to_files
from benchmarks.nexmark.query import Query
from benchmarks.nexmark.results import of_logs, of_parquet, of_rows

_collected: list[object] = []
"""The runner works in this process, so the quickest way out of it is a list."""


def _collect(row: object) -> None:
    _collected.append(row)


def _stamped(event: dict[str, object]) -> TimestampedValue:
    return TimestampedValue(event, Timestamp(micros=event["time"]))


def direct(query: Query, dataset: Dataset) -> Callable[[], pa.Table]:
    """Run a query over the one file; what is returned makes a table of the result."""
    _collected.clear()
    folder = tempfile.TemporaryDirectory(prefix="headrace-nexmark-run-")
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        events = pipeline | beam.io.ReadFromParquet(str(dataset.one), columns=list(query.reads))
        if query.name in TO_PARQUET:
            written = beam.io.WriteToParquet(f"{folder.name}/part", query.schema, file_name_suffix=".parquet")
            _ = TO_PARQUET[query.name](beam, by_row, events) | written
        else:
            # Queries without windows do not look at the time.
            timed = events | "Event time" >> beam.Map(_stamped) if "time" in query.reads else events
            _ = _built(query, timed, folder.name) | "Collect" >> beam.Map(_collect)
    rows = list(_collected)

    def table() -> pa.Table:
        with folder:
            if query.name in TO_PARQUET:
                return of_parquet(query, Path(folder.name))
            return of_logs(query, rows) if query.name == "q10" else of_rows(query, rows)

    return table


def _built(query: Query, events: beam.PCollection, folder: str) -> beam.PCollection:
    if query.name == "q10":
        return log_to_files(beam, by_row, events, folder)
    return TO_MEMORY[query.name](beam, by_row, events)
