"""Under the names that Beam programs import: sources and sinks."""

from headrace.io import filesystem, kafka, parquetio, textio
from headrace.io.parquetio import ReadFromParquet, WriteToParquet
from headrace.io.textio import (
    ReadFromCsv,
    ReadFromJson,
    ReadFromText,
    WriteToCsv,
    WriteToJson,
    WriteToText,
)
from headrace.sdk.io.dataframe import ReadFromDataFrame, ReadFromSpark
from headrace.sdk.io.foreachepoch import ForeachEpoch
from headrace.sdk.io.socketlines import ReadFromSocket
from headrace.sdk.io.tablesink import WriteToTables
from headrace.sdk.io.ticks import GenerateSequence
from headrace.sdk.transforms.source import Read
from headrace.sdk.transforms.write import Write

__all__ = [
    "ForeachEpoch",
    "GenerateSequence",
    "Read",
    "ReadFromCsv",
    "ReadFromDataFrame",
    "ReadFromJson",
    "ReadFromParquet",
    "ReadFromSocket",
    "ReadFromSpark",
    "ReadFromText",
    "Write",
    "WriteToCsv",
    "WriteToJson",
    "WriteToParquet",
    "WriteToTables",
    "WriteToText",
    "filesystem",
    "kafka",
    "parquetio",
    "textio",
]
