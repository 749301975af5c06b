"""Exports, under the module name of Beam, files that were found, and the kinds of compression of files."""

from headrace.sdk.io.files.filesystem import CompressionTypes, ReachError
from headrace.sdk.io.files.filesystems import BeamIOError, FileMetadata, MatchResult

__all__ = ["BeamIOError", "CompressionTypes", "FileMetadata", "MatchResult", "ReachError"]
