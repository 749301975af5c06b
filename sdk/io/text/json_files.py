"""JSON lines: an object a line, as a row (`apache_beam.io.ReadFromJson`)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Unpack

from headrace.lowlevel.record import Batch
from headrace.sdk.io.files import CompressionTypes, Found, Path
from headrace.sdk.io.filetimes import FileTimes
from headrace.sdk.io.lines import BadLine, Extent, LineFormat
from headrace.sdk.io.linesource import LineSource
from headrace.sdk.io.reading import ReadOptions
from headrace.sdk.io.textfiles import decoded, split_lines
from headrace.sdk.io.timestamps import BadTimestamp, TimestampOf, timestamps_of
from headrace.sdk.row import Row


@dataclass(frozen=True, slots=True)
class JsonParser:
    """Objects as rows; other JSON values as they are."""

    lines: bool
    timestamp: TimestampOf
    times: FileTimes

    def parse(self, lines: bytes, file: Found) -> Batch:
        """See `LineParser`."""
        text = decoded(lines)
        values = self._each(split_lines(text)) if self.lines else _whole(text)
        rows = [Row.of(value) if isinstance(value, dict) else value for value in values]
        try:
            return Batch(rows, timestamps_of(rows, self.timestamp, self.times.default(file)))
        except BadTimestamp as error:
            if not self.lines:
                raise ValueError(f"element {error.index + 1}: {error}") from error
            full = [index for index, line in enumerate(split_lines(text)) if not _is_blank(line)]
            raise BadLine(full[error.index], str(error)) from error

    def check_header(self, lines: bytes, file: Found) -> None:
        """There is none."""

    @staticmethod
    def _each(lines: list[str]) -> list[object]:
        values: list[object] = []
        for index, line in enumerate(lines):
            if not _is_blank(line):
                try:
                    values.append(json.loads(line))
                except json.JSONDecodeError as error:
                    reason = f"not JSON ({error.msg} at column {error.colno}): {line:.80}"
                    raise BadLine(index, reason) from error
                except (ValueError, RecursionError) as error:
                    raise BadLine(index, f"not to be read as JSON ({error}): {line:.80}") from error
        return values


def _is_blank(line: str) -> bool:
    return not line or line.isspace()


def _whole(text: str) -> list[object]:
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise BadLine(error.lineno - 1, f"not JSON ({error.msg} at column {error.colno})") from error
    return value if isinstance(value, list) else [value]


class ReadFromJson(LineSource):
    """Objects of JSON files as `Row`s.

    Args:
        path: Which files; see `FileSource`.
        lines: Whether each line is an object; else a file is one object or a list of them, read by one task at once.
        compression_type: One of `CompressionTypes`.
        **options: `timestamp`, `max_delay`, `validate`, `continuous` and the others of `FileSource`.
    """

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
        """JSON, an object a line or a file."""
        extent = Extent.LINE if self._lines else Extent.FILE
        parser = JsonParser(self._lines, self.timestamp, self.times)
        return LineFormat(parser, self.compression, extent=extent, bad_times=self.bad_times)
