"""JSON: the object of each line, or the objects of each file, as rows (`apache_beam.io.ReadFromJson`)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Unpack

from headrace.lowlevel.records.record import Batch
from headrace.sdk.io.files.file_source import ReadOptions
from headrace.sdk.io.files.file_times import FileTimes
from headrace.sdk.io.files.filesystem import CompressionTypes, MatchedFile, Path
from headrace.sdk.io.text.line_ranges import SET_ASIDE, BadLine, LineFormat, LineSource, RecordEnd
from headrace.sdk.io.text.text_files import decoded, split_lines
from headrace.sdk.io.timestamps import BadTimestamp, TimestampOf, timestamps_of
from headrace.sdk.model.row import Row


@dataclass(frozen=True, slots=True)
class JsonParser:
    """Parses JSON objects as rows; other JSON values stay as they are."""

    lines: bool
    """Whether each line is a JSON value; else each file is one."""
    timestamp: TimestampOf
    times: FileTimes

    def parse(self, lines: bytes, file: MatchedFile) -> Batch:
        """See `LineParser`."""
        text = decoded(lines)
        values = self._each(split_lines(text)) if self.lines else _whole(text)
        rows = [Row.of(value) if isinstance(value, dict) else value for value in values]
        try:
            return Batch(rows, timestamps_of(rows, self.timestamp, self.times.default(file)))
        except BadTimestamp as error:
            if not self.lines:
                raise ValueError(f"element {error.index + 1}: {error}") from error
            line_of_row = [index for index, line in enumerate(split_lines(text)) if not _is_blank(line)]
            raise BadLine(line_of_row[error.index], str(error)) from error

    def check_header(self, lines: bytes, file: MatchedFile) -> None:
        """Accept all files: JSON has no header."""

    @staticmethod
    def _each(lines: list[str]) -> list[object]:
        values: list[object] = []
        for index, line in enumerate(lines):
            if not _is_blank(line):
                try:
                    values.append(json.loads(line))
                except json.JSONDecodeError as error:
                    reason = f"not JSON ({error.msg} at column {error.colno}): {line:.80}"
                    raise BadLine(index, f"{reason}; {SET_ASIDE}") from error
                except (ValueError, RecursionError) as error:
                    raise BadLine(index, f"cannot be read as JSON ({error}): {line:.80}; {SET_ASIDE}") from error
        return values


def _is_blank(line: str) -> bool:
    return not line or line.isspace()


def _whole(text: str) -> list[object]:
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        reason = f"not JSON ({error.msg} at column {error.colno})"
        raise BadLine(
            error.lineno - 1, f"{reason}; correct the file, or leave lines=False out if it has an object a line"
        ) from error
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the file cannot be read as JSON ({error}); correct it") from error
    return value if isinstance(value, list) else [value]


class ReadFromJson(LineSource):
    r"""Objects of JSON files as `Row`s.

    `NaN`, `Infinity` and `-Infinity`, which JSON does not have and some programs write, become floats; `WriteToJson`
    refuses to write these. If an object has a name twice, the last value counts, as for Python, pandas and Spark.

    Args:
        path: Which files; see `FileSource`.
        lines: Whether each line is an object. If not, each file is one object or a list of objects, and one task reads
            it at once.
        compression_type: One of `CompressionTypes`.
        **options: `timestamp`, `max_delay`, `validate`, `continuous` and the others of `FileSource`.

    >>> import headrace as beam
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(folder, "sales.jsonl").write_text('{"item": "tea", "count": 3}\n')
    ...     with beam.Pipeline("LocalRunner") as pipeline:
    ...         sales = pipeline | beam.io.ReadFromJson(f"{folder}/*.jsonl")
    ...         _ = sales | beam.Map(lambda sale: print(sale.item, sale.count))
    tea 3
    """

    record_format = "JSON"

    def __init__(
        self,
        path: Path,
        *,
        lines: bool = True,
        compression_type: str = CompressionTypes.AUTO,
        **options: Unpack[ReadOptions],
    ) -> None:
        super().__init__(path, compression_type, **options)
        self._lines = self.one_line_each = lines

    def file_format(self) -> LineFormat:
        """JSON, with one object for each line or file."""
        extent = RecordEnd.LINE if self._lines else RecordEnd.FILE
        parser = JsonParser(self._lines, self.timestamp, self.times)
        return LineFormat(parser, self.compression, extent=extent, bad_times=self.bad_times)
