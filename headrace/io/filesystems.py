"""Exports, under the module name of Beam, operations on files by path or URL."""

from headrace.sdk.io.files.filesystem import CompressionTypes
from headrace.sdk.io.files.filesystems import BeamIOError, FileSystems

__all__ = ["BeamIOError", "CompressionTypes", "FileSystems"]
