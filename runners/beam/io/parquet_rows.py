"""What: rows of Parquet files, as Beam's `ReadFromParquet` gives them; as columns where the dicts are certain."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

import numpy as np
import pyarrow as pa
from apache_beam.io import iobase
from apache_beam.pipeline import AppliedPTransform
from apache_beam.transforms import core

from headrace.lowlevel.records.column_batch import ColumnBatch
from headrace.lowlevel.records.record import Batch
from headrace.lowlevel.stored_names import named
from headrace.lowlevel.time import MIN_TIMESTAMP
from headrace.lowlevel.user_errors import failed_step
from headrace.runners.beam.beam_private import RowsOfTables
from headrace.sdk.expressions.arrow_schema import shape_of_rows
from headrace.sdk.io.parquet.parquet_source import rows_at_once


@named("BeamParquetRows")
class DictsOfTables:
    """Arrow tables -> batches of a dict for each row; of columns where Beam's DoFn is certain to make the same dicts.

    Args:
        label: Name of the step that makes the dicts, for messages.
    """

    def __init__(self, label: str) -> None:
        self._label = label

    def __call__(self, tables: Iterator[object]) -> Iterator[Batch]:
        """The batches. Raises `StepError` for a value that Python does not have."""
        for table in cast("Iterator[pa.Table]", tables):
            for part in table.to_batches(rows_at_once(table.column_names)):
                yield self._columns(part) or self._called(part)

    def _columns(self, part: pa.RecordBatch) -> Batch | None:
        shape = shape_of_rows(part, as_rows=False)
        return None if shape is None else ColumnBatch(part, np.full(part.num_rows, MIN_TIMESTAMP, np.int64), shape)

    def _called(self, part: pa.RecordBatch) -> Batch:
        table = pa.Table.from_batches([part])
        try:
            rows = list(RowsOfTables().process(table))
        except Exception as error:
            raise failed_step(error, self._label, None, table) from error
        return Batch(rows, [MIN_TIMESTAMP] * len(rows))


def steps_of_rows(step: AppliedPTransform) -> Sequence[AppliedPTransform] | None:
    """The steps of a `ReadFromParquet` that read tables and make dicts; None if these are others, as for `as_rows`."""
    match step.parts:
        case [read, made] if type(read.transform) is iobase.Read and type(made.transform) is core.ParDo:
            is_known = type(made.transform.fn) is RowsOfTables
            return (read, made) if is_known and isinstance(read.transform.source, iobase.BoundedSource) else None
    return None
