"""What Beam's pipelines read, and where their results go: files, as a runner may work in other processes."""

# Beam's decorators and default arguments mean nothing to a type checker.
# mypy: ignore-errors

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import apache_beam as beam
import pyarrow as pa
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Timestamp

Row = tuple[str, *tuple[int, ...]]
HEADRACE = "--runner=headrace.runners.beam.HeadraceRunner"
"""The option that has a program of Beam's run on Headrace."""
_SUFFIX = ".rows"


class Collect(beam.DoFn):
    """Writes the rows of each bundle to a file of their own.

    Args:
        folder: Where the files go.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def start_bundle(self) -> None:
        self._rows: list[object] = []

    def process(self, element: object) -> None:
        self._rows.append(element)

    def finish_bundle(self) -> None:
        if self._rows:
            Path(self._folder, f"{uuid4().hex}{_SUFFIX}").write_bytes(pickle.dumps(self._rows))


def collected(folder: str) -> list[object]:
    """All rows that `Collect` has written."""
    return [row for file in Path(folder).glob(f"*{_SUFFIX}") for row in pickle.loads(file.read_bytes())]


def _elements(batch: pa.Table) -> Iterator[TimestampedValue]:
    columns = [batch["key"], batch["value"], batch["timestamp"].cast(pa.int64())]
    for key, value, timestamp in zip(*(column.to_pylist() for column in columns), strict=True):
        yield TimestampedValue((key, value), Timestamp(micros=timestamp))


def events(pipeline: beam.Pipeline, path: Path, name: str = "events") -> beam.PCollection:
    """Pairs of key and value from a file."""
    batches = pipeline | f"read {name}" >> beam.io.ReadFromParquetBatched(str(path))
    return batches | name >> beam.FlatMap(_elements).with_output_types(tuple[str, int])
