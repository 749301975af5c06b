"""Exports, under the module name of Beam, sources and sinks of Parquet files."""

from headrace.sdk.io.parquet.parquet_sink import WriteToParquet
from headrace.sdk.io.parquet.parquet_source import ReadFromParquet
from headrace.sdk.io.parquet.read_all import ReadAllFromParquet, ReadAllFromParquetBatched

__all__ = ["ReadAllFromParquet", "ReadAllFromParquetBatched", "ReadFromParquet", "WriteToParquet"]
