"""Exports the source and the sink of Iceberg tables."""

from headrace.sdk.io.iceberg.iceberg_sink import WriteToIceberg
from headrace.sdk.io.iceberg.iceberg_source import ReadFromIceberg
from headrace.sdk.io.iceberg.iceberg_table import IcebergError

__all__ = ["IcebergError", "ReadFromIceberg", "WriteToIceberg"]
