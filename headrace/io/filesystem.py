"""Exports, under the module name of Beam, the kinds of compression of files."""

from headrace.sdk.io.files.filesystem import CompressionTypes

__all__ = ["CompressionTypes"]
