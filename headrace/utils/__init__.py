"""Under the names that Beam programs import: times, and elements with what the model knows of them."""

from headrace.utils import sharded_key, timestamp, windowed_value

__all__ = ["sharded_key", "timestamp", "windowed_value"]
