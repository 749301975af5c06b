"""Under the name that Beam programs import: Parquet files."""

from headrace.sdk.io.parquetfiles import ReadFromParquet
from headrace.sdk.io.parquetwriter import WriteToParquet

__all__ = ["ReadFromParquet", "WriteToParquet"]
