"""Exports, under the module name of Beam, sources and sinks of Parquet files."""

from headrace.sdk.io.parquet.parquet_sink import WriteToParquet
from headrace.sdk.io.parquet.parquet_source import ReadFromParquet

__all__ = ["ReadFromParquet", "WriteToParquet"]
