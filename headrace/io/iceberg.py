"""Exports the sink of Iceberg tables."""

from headrace.sdk.io.iceberg.iceberg_sink import WriteToIceberg
from headrace.sdk.io.iceberg.iceberg_table import IcebergError

__all__ = ["IcebergError", "WriteToIceberg"]
