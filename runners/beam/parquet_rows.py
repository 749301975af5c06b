"""What: rows of Parquet files, as Beam's transforms read and write them; as columns where the rows are certain."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import cast

import apache_beam
import numpy as np
import pyarrow as pa
from apache_beam.io import iobase
from apache_beam.pipeline import AppliedPTransform
from apache_beam.transforms import core
from apache_beam.transforms.window import GlobalWindow

from headrace.lowlevel.records.column_batch import ColumnBatch
from headrace.lowlevel.records.record import Batch
from headrace.lowlevel.stored_names import named
from headrace.lowlevel.time import MIN_TIMESTAMP
from headrace.lowlevel.user_errors import failed_step
from headrace.runners.beam.beam_private import RowsOfTables, is_table_maker, schema_of_tables, take_rows
from headrace.runners.beam.functions.direct_fns import BeamPlainDoFn
from headrace.sdk.expressions.element_schema import Fields, FieldsKind, shape_of_rows
from headrace.sdk.functions.do_fn import ColumnDoFn, DoFn
from headrace.sdk.io.columns.tables import table_of_columns
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
                columns = self._columns(part)
                yield self._called(part) if columns is None else columns

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


@named("BeamTablesOfRows")
class TablesOfRows(BeamPlainDoFn, ColumnDoFn):
    """The DoFn of `WriteToParquet`: rows -> Arrow tables of its schema, of columns where rows come so."""

    def take_columns(self, batch: ColumnBatch) -> Iterable[object] | None:
        """See `ColumnDoFn`."""
        schema, shape = schema_of_tables(self._fn), batch.shape
        if not schema.names or not isinstance(shape, Fields) or shape.kind is not FieldsKind.DICT:
            return None
        if any(field.name not in shape.names and not field.nullable for field in schema):
            return None
        # Beam leaves out what the schema does not have.
        kept = [number for number, name in enumerate(shape.names) if name in schema.names]
        names, shapes = tuple(shape.names[each] for each in kept), tuple(shape.shapes[each] for each in kept)
        kept_shape = Fields(names, shapes, FieldsKind.DICT)
        table = table_of_columns(ColumnBatch(batch.table, batch.times, kept_shape), schema)
        return None if table is None else take_rows(self._fn, table, GlobalWindow())


def by_column(fn: apache_beam.DoFn, plain: DoFn | None) -> DoFn | None:
    """The DoFn that stands for one of Beam's, with a way for columns if there is one."""
    return TablesOfRows(fn) if plain is not None and is_table_maker(fn) else plain
