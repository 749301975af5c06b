"""Exports, under the module name of Beam, transforms whose elements are files."""

from headrace.sdk.io.files.fileio import EmptyMatchTreatment, MatchAll, MatchFiles, ReadableFile, ReadMatches

__all__ = ["EmptyMatchTreatment", "MatchAll", "MatchFiles", "ReadMatches", "ReadableFile"]
