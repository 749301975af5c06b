"""Under the name that Beam programs import: files of lines."""

from headrace.sdk.io.csvfiles import ReadFromCsv
from headrace.sdk.io.jsonfiles import ReadFromJson
from headrace.sdk.io.textfiles import ReadFromText
from headrace.sdk.io.textwriters import WriteToCsv, WriteToJson, WriteToText

__all__ = ["ReadFromCsv", "ReadFromJson", "ReadFromText", "WriteToCsv", "WriteToJson", "WriteToText"]
