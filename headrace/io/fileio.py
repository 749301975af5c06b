"""Exports, under the module name of Beam, transforms whose elements are files."""

from headrace.sdk.io.files.file_naming import (
    FileNaming,
    default_file_naming,
    destination_prefix_naming,
    prefix_naming,
    single_file_naming,
)
from headrace.sdk.io.files.fileio import (
    EmptyMatchTreatment,
    MatchAll,
    MatchContinuously,
    MatchFiles,
    ReadableFile,
    ReadMatches,
)
from headrace.sdk.io.files.write_to_files import FileMetadata, FileResult, FileSink, TextSink, WriteToFiles

__all__ = [
    "EmptyMatchTreatment",
    "FileMetadata",
    "FileNaming",
    "FileResult",
    "FileSink",
    "MatchAll",
    "MatchContinuously",
    "MatchFiles",
    "ReadMatches",
    "ReadableFile",
    "TextSink",
    "WriteToFiles",
    "default_file_naming",
    "destination_prefix_naming",
    "prefix_naming",
    "single_file_naming",
]
