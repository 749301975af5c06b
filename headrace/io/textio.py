"""Exports, under the module name of Beam, sources and sinks of text files, line by line."""

from headrace.sdk.io.text.csv_files import ReadFromCsv
from headrace.sdk.io.text.text_files import ReadAllFromText, ReadFromJson, ReadFromText, ReadFromTextWithFilename
from headrace.sdk.io.text.text_writers import WriteToCsv, WriteToJson, WriteToText

__all__ = [
    "ReadAllFromText",
    "ReadFromCsv",
    "ReadFromJson",
    "ReadFromText",
    "ReadFromTextWithFilename",
    "WriteToCsv",
    "WriteToJson",
    "WriteToText",
]
