"""Exports, under the module name of Beam, the modules of timestamps, windowed values and sharded keys."""

from headrace.absent_names.absent_modules import add_absent_names
from headrace.utils import sharded_key, timestamp, windowed_value

__all__ = ["sharded_key", "timestamp", "windowed_value"]

add_absent_names(__name__)
