"""Parquet files as a sink (`apache_beam.io.parquetio`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import BinaryIO
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.lowlevel.records.record import Batch
from headrace.lowlevel.stored_names import named
from headrace.sdk.graph.pvalue import PCollection, PValue
from headrace.sdk.io.argument_checks import check_column_names, check_schema, refuse_unless
from headrace.sdk.io.columns.run_schema import RunSchema, lasting_schema, with_schema
from headrace.sdk.io.columns.source_columns import source_columns
from headrace.sdk.io.files.file_sink import EpochFileSink, IfExists, PartWriter
from headrace.sdk.io.files.filesystem import Path, filesystem_of, open_output
from headrace.sdk.io.files.output_files import StagedFile
from headrace.sdk.io.files.windowed_files import Collection, WriteFiles
from headrace.sdk.io.parquet.hive_partitions import NULL, rows_by

_CODECS = ("none", "snappy", "gzip", "brotli", "lz4", "zstd")
_BUFFER = 64 * 1024 * 1024
_MIME_TYPE = "application/x-parquet"


@dataclass(frozen=True, slots=True)
class ParquetWriter(PartWriter):
    """Writes tables as Parquet files."""

    columns: RunSchema
    codec: str
    rows_per_group: int
    int96_timestamps: bool = False
    compliant_nested_type: bool = False

    def run_schema(self) -> RunSchema:
        """See `PartWriter`."""
        return self.columns

    def write(self, path: str, batch: Batch) -> pa.Schema:
        """See `PartWriter`."""
        return self.write_table(path, self.columns.table_of(batch))

    def write_table(self, path: str, table: pa.Table, left_out: Sequence[str] = ()) -> pa.Schema:
        """Write rows to a new file, without some columns; returns all columns."""
        lasting = with_schema(table, lasting_schema(table.schema)).drop_columns(list(left_out))
        with open_output(path) as file, self._opened(file, lasting.schema) as rows:
            rows.write_table(lasting, self.rows_per_group)
        return table.schema

    def rewrite(self, path: str, old: str, found: pa.Schema, schema: pa.Schema) -> None:
        """See `PartWriter`; only a row group is in memory at once."""
        system, name = filesystem_of(old)
        with (
            pq.ParquetFile(name, filesystem=system) as source,
            open_output(path) as file,
            self._opened(file, schema) as rows,
        ):
            for group in range(source.num_row_groups):
                rows.write_table(with_schema(source.read_row_group(group), schema), self.rows_per_group)

    def _opened(self, file: BinaryIO, schema: pa.Schema) -> pq.ParquetWriter:
        return pq.ParquetWriter(
            *(file, schema),
            compression=self.codec,
            use_deprecated_int96_timestamps=self.int96_timestamps,
            use_compliant_nested_type=self.compliant_nested_type,
        )


class WriteToParquet(WriteFiles):
    """Writes dicts, `Row`s, named tuples or dataclasses as rows of Parquet files.

    Args:
        file_path_prefix: Folder and beginning of the files' names; see `WriteToText`.
        schema: The columns and their types, a `pyarrow.Schema`. By default they are those that the sources of the
            elements declare, as far as the steps between are known to keep fields (`Filter`, `WindowInto`, `Reshuffle`,
            `Flatten`, `Select`, a `Map` to a dict of fields). Others are inferred from the elements of the first epoch
            that has some: every field that one of them has; a column that has only nulls there is text, and a decimal
            has 38 digits. They are then the columns of all files of the run and of its restarts, and elements that do
            not fit are refused.
        row_group_buffer_size: Not supported: see `row_group_size`.
        record_batch_size: Without effect, accepted as in Beam: the rows of a file are written at once.
        codec: Compression of the columns: `none`, `snappy`, `gzip`, `brotli`, `lz4` or `zstd`.
        use_deprecated_int96_timestamps: Whether timestamps are INT96, for readers that support no other type.
        use_compliant_nested_type: Whether the elements of lists are named `element`, as Parquet's specification has it.
        file_name_suffix: End of the names.
        num_shards: As for `WriteToText`.
        shard_name_template: Not supported, as in `WriteToText`.
        mime_type: Not supported.
        triggering_frequency: Not supported: the input, each epoch, or each window and pane has files of its own.
        row_group_size: Number of rows of a row group.
        partition_by: Columns whose values become folders (`day=2024-01-02/shop=7/…`) instead of columns of the files,
            as Hive, Spark and Arrow write and read them. A task writes a file for each folder that it has rows for.
        windowed_writes: As for `WriteToText`. With False, columns of elements are also written without Python values.
        if_exists: As for `WriteToText`.

    Raises:
        TypeError: An argument that is not supported differs from Beam's default, or an argument has a wrong type.
        ValueError: The codec is not available, or the schema lacks a column of `partition_by`.

    >>> import pyarrow as pa
    >>> import pyarrow.parquet as pq
    >>> import headrace as beam
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     with beam.Pipeline("LocalRunner") as pipeline:
    ...         sales = pipeline | beam.Create([{"item": "tea", "count": 3}])
    ...         schema = pa.schema({"item": pa.string(), "count": pa.int64()})
    ...         _ = sales | beam.io.WriteToParquet(f"{folder}/sales", schema)
    ...     print(pq.read_table(folder).to_pylist())
    [{'item': 'tea', 'count': 3}]
    """

    def __init__(
        self,
        file_path_prefix: Path,
        schema: pa.Schema | None = None,
        row_group_buffer_size: int = _BUFFER,
        record_batch_size: int = 1000,
        codec: str = "none",
        use_deprecated_int96_timestamps: bool = False,
        use_compliant_nested_type: bool = False,
        file_name_suffix: str = "",
        num_shards: int = 0,
        shard_name_template: None = None,
        mime_type: str = _MIME_TYPE,
        triggering_frequency: None = None,
        *,
        row_group_size: int = 100_000,
        partition_by: Sequence[str] = (),
        windowed_writes: bool = True,
        if_exists: IfExists = "replace",
    ) -> None:
        for name, given, default, instead in (
            ("row_group_buffer_size", row_group_buffer_size, _BUFFER, "give row_group_size, in rows"),
            ("shard_name_template", shard_name_template, None, "files are named by shard or epoch"),
            ("mime_type", mime_type, _MIME_TYPE, "leave it out"),
            ("triggering_frequency", triggering_frequency, None, "give the windows before a trigger"),
        ):
            refuse_unless("WriteToParquet", name, given, default, instead)
        if type(record_batch_size) is not int or record_batch_size < 1:
            raise TypeError(f"record_batch_size is a number of records, got {record_batch_size!r:.200}; leave it out")
        _check_columns(schema, codec, partition_by)
        flags = (use_deprecated_int96_timestamps, use_compliant_nested_type)
        writer = ParquetWriter(RunSchema(schema, partition_by), codec, row_group_size, *flags)
        target = (file_path_prefix, file_name_suffix, writer)
        files = PartitionedSink(*target, partition_by, if_exists) if partition_by else EpochFileSink(*target, if_exists)
        super().__init__(files, num_shards, windowed_writes)
        self._columns = writer.columns

    def expand(self, inputs: Collection) -> PValue:
        """See `WriteFiles.expand`."""
        if isinstance(inputs, PCollection):
            self._columns.source = partial(source_columns, inputs)
        return super().expand(inputs)


def _check_columns(schema: pa.Schema | None, codec: object, partition_by: Sequence[str]) -> None:
    check_schema(schema)
    if codec not in _CODECS:
        raise ValueError(f"codec {codec!r} is not available; use one of {', '.join(_CODECS)}")
    check_column_names("partition_by", partition_by)
    if schema is not None and (unknown := [name for name in partition_by if name not in schema.names]):
        raise ValueError(f"partition_by names column {unknown[0]!r}, but the schema has {schema.names}")


@named("PartitionedSink")
class PartitionedSink(EpochFileSink):
    """Writes rows to files in folders `<folder>/<column>=<value>/…`; files are numbered within each folder.

    The files do not contain the columns that name the folders. See `EpochFileSink` for what readers see.

    Args:
        prefix: Folder and beginning of the file names.
        suffix: End of the file names.
        writer: Writer of a file.
        columns: The columns whose values name the folders, outermost first.
        if_exists: As for `EpochFileSink`.
    """

    def __init__(
        self, prefix: Path, suffix: str, writer: ParquetWriter, columns: Sequence[str], if_exists: IfExists = "replace"
    ) -> None:
        super().__init__(prefix, suffix, writer, if_exists)
        self._parquet = writer
        self.columns = tuple(columns)

    def write_parts(self, batch: Batch, epoch: int, interval: int, token: str) -> list[StagedFile]:
        """Write a hidden file for each folder. Raises `ValueError` for a missing column, or without another column."""
        table = self._parquet.columns.table_of(batch)
        if missing := [name for name in self.columns if name not in table.column_names]:
            raise ValueError(
                f"the elements have no column {missing[0]!r}; they have {table.column_names}; correct partition_by"
            )
        if not set(table.column_names) - set(self.columns):
            raise ValueError(f"partition_by takes all columns ({', '.join(self.columns)}); leave one for the files")
        staged = []
        by_folder = rows_by(table, self.columns, partial(_folder, self.columns))
        for number, (folder, rows) in enumerate(sorted(by_folder.items())):
            write = partial(self._parquet.write_table, table=table.take(rows), left_out=self.columns)
            part = self.write_part(epoch, interval, f"{token}-{number}", write)
            staged.append(part._replace(folder=folder))
        return staged


def _folder(columns: Sequence[str], values: Sequence[object]) -> str:
    """The folder for values of columns, with a slash between columns.

    >>> _folder(["day", "shop"], ["2024-01-02", None]), _folder(["a"], ["x/y"])
    ('day=2024-01-02/shop=__HIVE_DEFAULT_PARTITION__', 'a=x%2Fy')
    """
    texts = [_text(column, value) for column, value in zip(columns, values, strict=True)]
    return "/".join(f"{quote(column, safe=' ')}={text}" for column, text in zip(columns, texts, strict=True))


def _text(column: str, value: object) -> str:
    """The text of a value in the name of a folder. Raises `ValueError` for one that would be read as another."""
    if value == NULL or isinstance(value, (bytes, list, dict)):
        raise ValueError(
            f"column {column!r} has the value {value!r:.80}, which as the name of a folder would be read as "
            f"{'null' if value == NULL else 'another'}; map it to another text, or leave the column out of partition_by"
        )
    return NULL if value is None else quote(str(value), safe=" ")
