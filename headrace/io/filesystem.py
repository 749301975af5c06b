"""Under the name that Beam programs import: how files are compressed."""

from headrace.sdk.io.files import CompressionTypes

__all__ = ["CompressionTypes"]
