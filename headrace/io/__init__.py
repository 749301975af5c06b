"""Exports, under the module name of Beam, sources and sinks."""

# Has transforms of lists computed at once, those of this package too.
import headrace.transforms  # noqa: F401
from headrace.absent_names.absent_modules import add_absent_names
from headrace.io import (
    avroio,
    fileio,
    filesystem,
    filesystems,
    iobase,
    kafka,
    parquetio,
    restriction_trackers,
    textio,
    watermark_estimators,
)
from headrace.io.avroio import *
from headrace.io.parquetio import *
from headrace.io.textio import *
from headrace.sdk.io.database import DatabaseWriteError, WriteToDatabase
from headrace.sdk.io.dataframe import ReadFromDataFrame, ReadFromSpark
from headrace.sdk.io.epoch_sink import EpochsLostError, SinkTakenError
from headrace.sdk.io.files.pieces import MissingFileError
from headrace.sdk.io.foreach_epoch import ForeachEpoch, WriteToTables
from headrace.sdk.io.sequences import GenerateSequence
from headrace.sdk.io.socket_source import ReadFromSocket, SocketError
from headrace.sdk.io.text.line_ranges import FileError
from headrace.sdk.transforms.core.low_level import Read, Write

__all__ = [
    "DatabaseWriteError",
    "EpochsLostError",
    "FileError",
    "ForeachEpoch",
    "GenerateSequence",
    "MissingFileError",
    "Read",
    "ReadAllFromAvro",
    "ReadAllFromParquet",
    "ReadAllFromParquetBatched",
    "ReadAllFromText",
    "ReadFromAvro",
    "ReadFromCsv",
    "ReadFromDataFrame",
    "ReadFromJson",
    "ReadFromParquet",
    "ReadFromSocket",
    "ReadFromSpark",
    "ReadFromText",
    "ReadFromTextWithFilename",
    "SinkTakenError",
    "SocketError",
    "Write",
    "WriteToAvro",
    "WriteToCsv",
    "WriteToDatabase",
    "WriteToJson",
    "WriteToParquet",
    "WriteToTables",
    "WriteToText",
    "avroio",
    "fileio",
    "filesystem",
    "filesystems",
    "iobase",
    "kafka",
    "parquetio",
    "restriction_trackers",
    "textio",
    "watermark_estimators",
]

add_absent_names(__name__)
