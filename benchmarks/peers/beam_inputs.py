"""What Beam's pipelines read, and how they run: on Beam's own Python runner, in this process, without a network."""

# Beam's decorators and default arguments mean nothing to a type checker.
# mypy: ignore-errors

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import apache_beam as beam
import pyarrow as pa
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Timestamp

from benchmarks.workload import Workload

Row = tuple[str, *tuple[int, ...]]
_collected: list[Row] = []
"""The runner works in this process, so the quickest way out of it is a list."""


def _collect(row: Row) -> None:
    _collected.append(row)


def _elements(batch: pa.Table) -> Iterator[TimestampedValue]:
    columns = [batch["key"], batch["value"], batch["timestamp"].cast(pa.int64())]
    for key, value, timestamp in zip(*(column.to_pylist() for column in columns), strict=True):
        yield TimestampedValue((key, value), Timestamp(micros=timestamp))


def events(pipeline: beam.Pipeline, path: Path, name: str = "events") -> beam.PCollection:
    """Pairs of key and value from a file."""
    batches = pipeline | f"read {name}" >> beam.io.ReadFromParquetBatched(str(path))
    return batches | name >> beam.FlatMap(_elements).with_output_types(tuple[str, int])


def run(workload: Workload, build: Callable[[beam.Pipeline], beam.PCollection]) -> pa.Table:
    """Run a pipeline that a function builds, and give its result."""
    _collected.clear()
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        _ = build(pipeline) | beam.Map(_collect)
    return pa.table(list(zip(*_collected, strict=True)), schema=workload.schema)
