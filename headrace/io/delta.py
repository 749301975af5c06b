"""Exports the source and the sink of Delta tables."""

from headrace.sdk.io.delta.delta_sink import WriteToDelta
from headrace.sdk.io.delta.delta_source import ReadFromDelta
from headrace.sdk.io.delta.delta_table import DeltaError

__all__ = ["DeltaError", "ReadFromDelta", "WriteToDelta"]
