"""Parquet files as a sink (`apache_beam.io.parquetio`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.lowlevel.record import Batch
from headrace.sdk.io.files import Path, open_output
from headrace.sdk.io.filesink import FileSink
from headrace.sdk.io.partitioned import PartitionedSink
from headrace.sdk.io.tables import table_of
from headrace.sdk.io.windowedfiles import WriteFiles

_CODECS = ("none", "snappy", "gzip", "brotli", "lz4", "zstd")


@dataclass(frozen=True, slots=True)
class ParquetWriter:
    """Elements as rows."""

    schema: pa.Schema | None
    codec: str
    rows_per_group: int

    def write(self, path: str, batch: Batch) -> None:
        """See `PartWriter`. Raises `ValueError` naming the element that does not fit the schema."""
        table = table_of(batch, self.schema)
        with open_output(path) as file:
            self.write_table(table, file)

    def write_table(self, table: pa.Table, file: BinaryIO) -> None:
        """The rows as a file."""
        pq.write_table(table, file, compression=self.codec, row_group_size=self.rows_per_group)


class WriteToParquet(WriteFiles):
    """Dicts, `Row`s, named tuples or dataclasses as rows of Parquet files.

    Args:
        file_path_prefix: Folder and beginning of the files' names; see `WriteToText`.
        schema: The columns and their types, a `pyarrow.Schema`; by default what the elements of a file suggest.
        codec: Compression of the columns: `none`, `snappy`, `gzip`, `brotli`, `lz4` or `zstd`.
        file_name_suffix: End of the names.
        num_shards: As for `WriteToText`.
        row_group_size: Rows that make a row group.
        partition_by: Columns whose values become folders (`day=2024-01-02/shop=7/…`) instead of columns of the files,
            as Hive, Spark and Arrow have and read them. A task writes a file for each folder that it has rows for.
        windowed_writes: As for `WriteToText`. False also spares making Python values of elements that come as columns.
    """

    def __init__(
        self,
        file_path_prefix: Path,
        schema: pa.Schema | None = None,
        codec: str = "none",
        file_name_suffix: str = "",
        num_shards: int = 0,
        row_group_size: int = 100_000,
        partition_by: Sequence[str] = (),
        windowed_writes: bool = True,
    ) -> None:
        if schema is not None and not isinstance(schema, pa.Schema):
            raise TypeError(f"schema must be a pyarrow.Schema, got {schema!r:.200}; write pyarrow.schema([...])")
        if codec not in _CODECS:
            raise ValueError(f"codec {codec!r} is not available; use one of {', '.join(_CODECS)}")
        if isinstance(partition_by, str):
            raise TypeError(f"partition_by must be a list of columns, got text; write [{partition_by!r}]")
        if schema is not None and (unknown := [name for name in partition_by if name not in schema.names]):
            raise ValueError(f"partition_by names column {unknown[0]!r}, but the schema has {schema.names}")
        writer = ParquetWriter(schema, codec, row_group_size)
        where = (file_path_prefix, file_name_suffix, writer)
        files = PartitionedSink(*where, partition_by) if partition_by else FileSink(*where)
        super().__init__(files, num_shards, windowed_writes)
