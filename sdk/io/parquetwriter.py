"""Parquet files as a sink (`apache_beam.io.parquetio`)."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.lowlevel.record import Batch
from headrace.sdk.io.files import Path, open_output
from headrace.sdk.io.filesink import FileSink
from headrace.sdk.io.tables import table_of
from headrace.sdk.transforms.write import Write

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
            pq.write_table(table, file, compression=self.codec, row_group_size=self.rows_per_group)


class WriteToParquet(Write):
    """Dicts, `Row`s, named tuples or dataclasses as rows of Parquet files.

    Args:
        file_path_prefix: Folder and beginning of the files' names; see `WriteToText`.
        schema: The columns and their types, a `pyarrow.Schema`; by default what the elements of a file suggest.
        codec: Compression of the columns: `none`, `snappy`, `gzip`, `brotli`, `lz4` or `zstd`.
        file_name_suffix: End of the names.
        num_shards: Accepted for Beam's sake.
        row_group_size: Rows that make a row group.
    """

    def __init__(
        self,
        file_path_prefix: Path,
        schema: pa.Schema | None = None,
        codec: str = "none",
        file_name_suffix: str = "",
        num_shards: int = 0,
        row_group_size: int = 100_000,
    ) -> None:
        if schema is not None and not isinstance(schema, pa.Schema):
            raise TypeError(f"schema must be a pyarrow.Schema, got {schema!r:.200}; write pyarrow.schema([...])")
        if codec not in _CODECS:
            raise ValueError(f"codec {codec!r} is not available; use one of {', '.join(_CODECS)}")
        super().__init__(FileSink(file_path_prefix, file_name_suffix, ParquetWriter(schema, codec, row_group_size)))
