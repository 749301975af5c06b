"""What Beam's pipelines read, and where their results go: files, as a runner may work in other processes."""

# Beam's decorators and default arguments mean nothing to a type checker.
# mypy: ignore-errors

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Timestamp

Row = tuple[str, *tuple[int, ...]]


class Collect(beam.DoFn):
    """Writes the rows of each bundle to a file of their own.

    Args:
        folder: Where the files go.
        schema: Columns of the rows.
    """

    def __init__(self, folder: Path, schema: pa.Schema) -> None:
        self._folder, self._schema = folder, schema

    def start_bundle(self) -> None:
        self._rows: list[Row] = []

    def process(self, element: Row) -> None:
        self._rows.append(element)

    def finish_bundle(self) -> None:
        if self._rows:
            columns = list(zip(*self._rows, strict=True))
            pq.write_table(pa.table(columns, schema=self._schema), self._folder / f"{uuid4().hex}.parquet")


def collected(folder: Path, schema: pa.Schema) -> pa.Table:
    """All rows that `Collect` has written."""
    return pa.concat_tables([schema.empty_table(), *(pq.read_table(file) for file in folder.glob("*.parquet"))])


def _elements(batch: pa.Table) -> Iterator[TimestampedValue]:
    columns = [batch["key"], batch["value"], batch["timestamp"].cast(pa.int64())]
    for key, value, timestamp in zip(*(column.to_pylist() for column in columns), strict=True):
        yield TimestampedValue((key, value), Timestamp(micros=timestamp))


def events(pipeline: beam.Pipeline, path: Path, name: str = "events") -> beam.PCollection:
    """Pairs of key and value from a file."""
    batches = pipeline | f"read {name}" >> beam.io.ReadFromParquetBatched(str(path))
    return batches | name >> beam.FlatMap(_elements).with_output_types(tuple[str, int])
