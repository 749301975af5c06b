"""Files of lines: ranges of bytes that begin and end between lines, so that a big file is many tasks' work."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO, Protocol

from headrace.lowlevel.injector import Split
from headrace.lowlevel.record import Batch
from headrace.sdk.io.files import Found, compression_of, open_input

_BLOCK = 1 << 20
"""Bytes that are read at once."""
_SAMPLE = 1 << 16
"""Bytes of a file from which the length of its records is estimated."""
_USUAL_RECORD = 100
"""Bytes of a record where that is not known."""
_USUAL_RATIO = 5
"""How much bigger a compressed file becomes, where that is not known."""


class LineParser(Protocol):
    """Makes records of lines."""

    def parse(self, lines: bytes, file: Found) -> Batch:
        """The records of some whole lines. Raises `BadLine`, or any error that says nothing of the line."""


class BadLine(ValueError):
    """A line that is no record.

    Args:
        index: Its place among the lines that were parsed, from 0.
        reason: What is wrong with it.
    """

    def __init__(self, index: int, reason: str) -> None:
        super().__init__(reason)
        self.index = index


@dataclass(frozen=True, slots=True)
class LineRange:
    """The lines that begin in a range of bytes of a file."""

    file: Found
    start: int
    end: int | None
    """None for the end of the file."""
    parser: LineParser
    compression: str
    skip: int = 0
    """Lines to leave out at the start."""

    def read(self) -> Iterator[Batch]:
        """Their records. Raises `ValueError` naming file and line of what is no record."""
        for offset, block in self._blocks():
            try:
                batch = self.parser.parse(block, self.file)
            except BadLine as error:
                number = self._line_number(offset) + error.index
                raise ValueError(f"{self.file.path}, line {number}: {error}") from error
            except Exception as error:
                number = self._line_number(offset)
                raise ValueError(f"{self.file.path}, in the lines from {number} on: {error}") from error
            yield batch

    def _blocks(self) -> Iterator[tuple[int, bytes]]:
        """Whole lines in blocks, each with the offset at which it begins."""
        with open_input(self.file.path, self.compression) as file:
            offset = self._seek(file)
            while self.end is None or offset < self.end:
                block = file.read(_BLOCK if self.end is None else min(_BLOCK, self.end - offset))
                if not block:
                    return
                if not block.endswith(b"\n"):
                    block += file.readline()
                yield offset, block
                offset += len(block)

    def _seek(self, file: BinaryIO) -> int:
        """Go to the first line that begins in the range; its offset."""
        offset = self.start
        if self.start:
            # The line that the byte before the range belongs to is another task's.
            file.seek(self.start - 1)
            offset += len(file.readline()) - 1
        for _ in range(self.skip):
            offset += len(file.readline())
        return offset

    def _line_number(self, offset: int) -> int:
        """The number of the line that begins at an offset, counted only when there is an error to explain."""
        with open_input(self.file.path, self.compression) as file:
            number, left = 1, offset
            while left and (block := file.read(min(_BLOCK, left))):
                number += block.count(b"\n")
                left -= len(block)
        return number


@dataclass
class LineFormat:
    """Cuts files of lines."""

    parser: LineParser
    compression: str = "auto"
    header_lines: int = 0
    """Lines at the beginning of each file that are no records."""
    splittable: bool = True
    """Whether every record is one line."""
    _known: dict[str, tuple[int, float]] = field(default_factory=dict, repr=False)

    def cut(self, file: Found, offset: int, records: int) -> tuple[Split, int, int | None]:
        """See `FileFormat`. A compressed file is one piece, as it can only be read from its beginning."""
        compression = compression_of(file.path, self.compression)
        if compression != "uncompressed" or not self.splittable:
            ratio = 1 if compression == "uncompressed" else _USUAL_RATIO
            piece = LineRange(file, 0, None, self.parser, compression, self.header_lines)
            return piece, ratio * file.size // _USUAL_RECORD, None
        first, bytes_each = self._look(file)
        start = max(offset, first)
        end = start + max(1, int(records * bytes_each))
        piece = LineRange(file, start, min(end, file.size), self.parser, compression)
        if end >= file.size:
            return piece, int((file.size - start) / bytes_each), None
        return piece, records, end

    def _look(self, file: Found) -> tuple[int, float]:
        """Where a file's first record begins, and about how many bytes a record has."""
        if file.path not in self._known:
            with open_input(file.path) as opened:
                first = sum(len(opened.readline()) for _ in range(self.header_lines))
                sample = opened.read(_SAMPLE)
            lines = sample.count(b"\n")
            self._known = {file.path: (first, len(sample) / lines if lines else _USUAL_RECORD)}
        return self._known[file.path]
