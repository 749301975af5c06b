"""Under the names that Beam programs import: sources and sinks."""

from headrace.sdk.transforms.source import Read
from headrace.sdk.transforms.write import Write

__all__ = ["Read", "Write"]
