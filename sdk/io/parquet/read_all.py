"""Parquet files whose patterns are elements (`apache_beam.io.parquetio.ReadAllFromParquet`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import pyarrow as pa
from pyarrow import parquet

from headrace.sdk.graph.ptransform import PTransform
from headrace.sdk.graph.pvalue import PCollection
from headrace.sdk.io.arrow_rows import to_dicts
from headrace.sdk.io.files.fileio import ReadableFile, files_of, with_path
from headrace.sdk.io.files.filesystem import CompressionTypes, filesystem_of
from headrace.sdk.io.parquet.parquet_source import refuse_equal_names
from headrace.sdk.transforms.core.par_do import FlatMap
from headrace.sdk.transforms.core.reshuffle import Reshuffle


@dataclass(frozen=True, slots=True)
class _Tables:
    """Reads the row groups of a file, as tables or as dicts."""

    columns: tuple[str, ...] | None
    as_tables: bool
    with_filename: bool

    def __call__(self, file: ReadableFile) -> Iterator[object]:
        system, path = filesystem_of(file.metadata.path)
        with system.open_input_file(path) as opened:
            whole = parquet.ParquetFile(opened, page_checksum_verification=True)
            if not self.as_tables:
                refuse_equal_names(file.metadata.path, whole.schema_arrow.names)
            yield from with_path(self._elements(whole), file, self.with_filename)

    def _elements(self, file: parquet.ParquetFile) -> Iterator[object]:
        columns = None if self.columns is None else list(self.columns)
        tables: Iterator[pa.Table] = (file.read_row_group(n, columns) for n in range(file.num_row_groups))
        if self.as_tables:
            return tables
        return chain.from_iterable(to_dicts(batch) for table in tables for batch in table.to_batches())


class ReadAllFromParquetBatched(PTransform[PCollection[str], PCollection[object]]):
    """The row groups of the Parquet files of each pattern, as `pyarrow.Table`s; each file is read by one task.

    Args:
        min_bundle_size: Without effect, accepted as in Beam.
        desired_bundle_size: Without effect, accepted as in Beam.
        columns: Names of the columns to read; by default all.
        with_filename: Whether elements are pairs of the file's path and a table.
        label: Label of the step.

    >>> import pyarrow as pa
    >>> import pyarrow.parquet as pq
    >>> import headrace as beam
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     _ = pq.write_table(pa.table({"item": ["tea"], "count": [3]}), f"{folder}/sales.parquet")
    ...     with beam.Pipeline("LocalRunner") as pipeline:
    ...         paths = pipeline | beam.Create([f"{folder}/sales.parquet"])
    ...         _ = paths | beam.io.ReadAllFromParquetBatched() | beam.Map(lambda table: print(table.num_rows))
    1
    """

    def __init__(
        self,
        min_bundle_size: int = 0,
        desired_bundle_size: int = 64 << 20,
        columns: Sequence[str] | None = None,
        with_filename: bool = False,
        label: str | None = None,
    ) -> None:
        super().__init__(label)
        self._read = _Tables(None if columns is None else tuple(columns), True, with_filename)

    def expand(self, inputs: PCollection[str]) -> PCollection[object]:
        """The tables, in no particular order of the files."""
        files = files_of(inputs, CompressionTypes.UNCOMPRESSED) | Reshuffle()
        return files | "ReadTables" >> FlatMap(self._read)


class ReadAllFromParquet(PTransform[PCollection[str], PCollection[object]]):
    """The rows of the Parquet files of each pattern, as dicts; each file is read by one task.

    Args:
        with_filename: Whether elements are pairs of the file's path and a row.
        columns: Names of the columns to read; by default all.
        min_bundle_size: Without effect, accepted as in Beam.
        desired_bundle_size: Without effect, accepted as in Beam.
        label: Label of the step.

    >>> import pyarrow as pa
    >>> import pyarrow.parquet as pq
    >>> import headrace as beam
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     _ = pq.write_table(pa.table({"item": ["tea"], "count": [3]}), f"{folder}/sales.parquet")
    ...     with beam.Pipeline("LocalRunner") as pipeline:
    ...         paths = pipeline | beam.Create([f"{folder}/sales.parquet"])
    ...         _ = paths | beam.io.ReadAllFromParquet() | beam.Map(print)
    {'item': 'tea', 'count': 3}
    """

    def __init__(
        self,
        with_filename: bool = False,
        *,
        columns: Sequence[str] | None = None,
        min_bundle_size: int = 0,
        desired_bundle_size: int = 64 << 20,
        label: str | None = None,
    ) -> None:
        super().__init__(label)
        self._read = _Tables(None if columns is None else tuple(columns), False, with_filename)

    def expand(self, inputs: PCollection[str]) -> PCollection[object]:
        """The rows, in no particular order of the files."""
        files = files_of(inputs, CompressionTypes.UNCOMPRESSED) | Reshuffle()
        return files | "ReadRows" >> FlatMap(self._read)
