"""Exports, under the module name of Beam, the modules of timestamps, windowed values and sharded keys."""

from headrace.utils import sharded_key, timestamp, windowed_value

__all__ = ["sharded_key", "timestamp", "windowed_value"]
