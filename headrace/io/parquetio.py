"""Exports, under the module name of Beam, sources and sinks of Parquet files."""

from headrace.sdk.io.parquet.parquet_sink import WriteToParquet
from headrace.sdk.io.parquet.parquet_source import ReadAllFromParquet, ReadAllFromParquetBatched, ReadFromParquet

__all__ = ["ReadAllFromParquet", "ReadAllFromParquetBatched", "ReadFromParquet", "WriteToParquet"]
