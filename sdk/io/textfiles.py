"""Text: a line an element (`apache_beam.io.textio`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Unpack

from headrace.lowlevel.record import Batch
from headrace.sdk.io.files import CompressionTypes, Found, Path
from headrace.sdk.io.filetimes import FileTimes
from headrace.sdk.io.lines import UTF_8, BadLine, LineFormat, checked_encoding
from headrace.sdk.io.linesource import LineSource
from headrace.sdk.io.reading import ReadOptions
from headrace.sdk.io.timestamps import BadTimestamp, TimestampOf, timestamps_of


@dataclass(frozen=True, slots=True)
class TextParser:
    """Lines as str."""

    strip: bool
    timestamp: TimestampOf
    times: FileTimes

    def parse(self, lines: bytes, file: Found) -> Batch:
        """See `LineParser`."""
        texts = split_lines(decoded(lines), self.strip)
        try:
            return Batch(texts, timestamps_of(texts, self.timestamp, self.times.default(file)))
        except BadTimestamp as error:
            raise BadLine(error.index, str(error)) from error

    def check_header(self, lines: bytes, file: Found) -> None:
        """Whatever it says."""


def decoded(lines: bytes) -> str:
    """The text of some lines. Raises `BadLine` at the first that is none."""
    try:
        return lines.decode()
    except UnicodeDecodeError as error:
        raise BadLine(lines.count(b"\n", 0, error.start), f"not UTF-8 text ({error.reason})") from error


def split_lines(text: str, strip: bool = True) -> list[str]:
    """Lines, without their ends (LF or CR LF) or with them.

    >>> text = "a" + chr(13) + chr(10) + "b" + chr(10)
    >>> split_lines(text), split_lines(text, strip=False) == ["a" + chr(13) + chr(10), "b" + chr(10)]
    (['a', 'b'], True)
    """
    lines = text.split("\n")
    last = lines.pop()
    if not strip:
        return [line + "\n" for line in lines] + ([last] if last else [])
    if last:
        lines.append(last)
    return [line.removesuffix("\r") for line in lines] if "\r" in text else lines


class ReadFromText(LineSource):
    """Lines of text files, without their ends. Names compressions, positions and errors as the other readers do.

    Args:
        file_pattern: Which files; see `FileSource`.
        min_bundle_size: Accepted for Beam's sake: the engine chooses how much a task reads.
        compression_type: One of `CompressionTypes`. A compressed file is read by one task.
        strip_trailing_newlines: Whether the ends of lines are left out.
        skip_header_lines: Lines at the beginning of each file to leave out.
        encoding: Of the text: UTF-8, or another one that has ASCII in it, such as `latin-1`.
        **options: `timestamp`, `max_delay`, `validate`, `continuous` and the others of `FileSource`.
    """

    def __init__(
        self,
        file_pattern: Path,
        min_bundle_size: int = 0,
        compression_type: str = CompressionTypes.AUTO,
        strip_trailing_newlines: bool = True,
        skip_header_lines: int = 0,
        encoding: str = UTF_8,
        **options: Unpack[ReadOptions],
    ) -> None:
        super().__init__(file_pattern, compression_type, **options)
        self._strip = strip_trailing_newlines
        self._header = skip_header_lines
        self._encoding = checked_encoding(encoding)

    def file_format(self) -> LineFormat:
        """Text, a line a record."""
        parser = TextParser(self._strip, self.timestamp, self.times)
        return LineFormat(parser, self.compression, self._header, bad_times=self.bad_times, encoding=self._encoding)
