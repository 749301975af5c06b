"""Files of lines: ranges of bytes that begin and end between lines, so that a big file is many tasks' work.

Whatever is wrong with a file stops the run, and the error names the file and the line.
"""

from __future__ import annotations

import codecs
import io
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from functools import cache, partial
from typing import BinaryIO, NamedTuple, Protocol, cast

from headrace.lowlevel.injector import Split
from headrace.lowlevel.record import Batch
from headrace.sdk.io.apart import Failure, Unreadable
from headrace.sdk.io.files import Found, compression_of, open_input
from headrace.sdk.io.filetimes import FileTimes

UTF_8 = "utf-8"
LONGEST_LINE = 128 << 20
"""Bytes that a line may have: what a task must be able to hold in memory several times over."""
_BLOCK = 1 << 20
"""Bytes that are read at once."""
_SAMPLE = 1 << 16
"""Bytes of a file from which the length of its records is estimated."""
_USUAL_RECORD = 100
"""Bytes of a record where that is not known."""
_USUAL_RATIO = 5
"""How much bigger a compressed file becomes, where that is not known."""


class FileLine(NamedTuple):
    """A line of a file that is no record."""

    path: str
    line: int
    """Its number, from 1."""
    text: str


class Extent(Enum):
    """How far a record may reach."""

    LINE = "to the end of its line"
    QUOTED = "to the next end of a line that is not between quotation marks"
    FILE = "to the end of the file"


class LineParser(Protocol):
    """Makes records of lines."""

    def parse(self, lines: bytes, file: Found) -> Batch:
        """The records of some whole lines. Raises `BadLine`, or any error that says nothing of the line."""

    def check_header(self, lines: bytes, file: Found) -> None:
        """Look at the lines that are left out at the beginning of a file; raises `BadLine` for a wrong one."""


class FileError(ValueError):
    """What is wrong in a file, and in which line (from 1)."""

    def __init__(self, file: Found, line: int, reason: object) -> None:
        super().__init__(f"{file.path}, line {line}: {reason}")


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
    extent: Extent = Extent.LINE
    bad_time: int | None = None
    """Event time of lines that are no record, microseconds UTC; None where such a line is an error."""
    encoding: str = UTF_8

    def read(self) -> Iterator[Batch]:
        """Their records. Raises `FileError` for what is no record or cannot be read."""
        for offset, block in self._readable():
            if self.bad_time is not None:
                first = cache(partial(self._line_number, offset))
                yield from self._apart(first, 0, io.BytesIO(block).readlines(), self.bad_time)
                continue
            try:
                batch = self.parser.parse(transcoded(block, self.encoding), self.file)
            except BadLine as error:
                raise FileError(self.file, self._line_number(offset) + error.index, error) from error
            except Exception as error:
                number = self._line_number(offset)
                raise ValueError(f"{self.file.path}, in the lines from {number} on: {error}") from error
            yield batch

    def _apart(self, first: Callable[[], int], skipped: int, lines: list[bytes], time: int) -> Iterator[Batch]:
        """Records and `Unreadable`s of a block: of lines among which one is none, each half."""
        try:
            batch = self.parser.parse(transcoded(b"".join(lines), self.encoding), self.file)
        except Exception as error:
            if len(lines) > 1:
                half = len(lines) // 2
                yield from self._apart(first, skipped, lines[:half], time)
                yield from self._apart(first, skipped + half, lines[half:], time)
                return
            text = b"".join(lines).decode(self.encoding, errors="replace").rstrip("\r\n")
            line = FileLine(self.file.path, first() + skipped, text)
            batch = Batch([Unreadable(line, Failure.of(error))], [time])
        yield batch

    def _readable(self) -> Iterator[tuple[int, bytes]]:
        """The blocks; what cannot be read is an error that names the line up to which it can."""
        try:
            yield from self._blocks()
        except FileError:
            raise
        except Exception as error:
            reason = f"cannot be read on ({type(error).__name__}: {error})"
            raise FileError(self.file, self._last_line(), reason) from error

    def _blocks(self) -> Iterator[tuple[int, bytes]]:
        """Whole lines in blocks, each with the offset at which it begins."""
        if not self.file.size and self.compression != "uncompressed":
            raise EOFError(f"the file is empty, which nothing is that {self.compression} made; it was cut off")
        with open_input(self.file.path, self.compression) as file:
            offset = self._seek(file)
            while self.end is None or offset < self.end:
                block = self._block(file, offset)
                if not block:
                    self._check_end(offset)
                    if self.extent is Extent.FILE and not offset:
                        # No record is not an empty one: the parser knows.
                        yield offset, block
                    return
                yield offset, block.removeprefix(codecs.BOM_UTF8) if not offset else block
                offset += len(block)

    def _block(self, file: BinaryIO, offset: int) -> bytes:
        """Whole records, about a block of them; nothing at the end of the file."""
        parts = [self._lines(file, offset)]
        quoted, at = self._quotes(parts[0]), offset
        while parts[-1] and (quoted or self.extent is Extent.FILE):
            at += len(parts[-1])
            parts.append(self._lines(file, at))
            quoted ^= self._quotes(parts[-1])
        block = b"".join(parts)
        if quoted:
            line = self._line_number(offset) + _opening(block)
            raise FileError(self.file, line, "a quotation is not closed by the end of the file")
        return block

    def _lines(self, file: BinaryIO, offset: int) -> bytes:
        block = file.read(_BLOCK if self.end is None else min(_BLOCK, self.end - offset))
        if not block or block.endswith(b"\n"):
            return block
        return block + self._line(file, offset + block.rfind(b"\n") + 1)

    def _line(self, file: BinaryIO, offset: int) -> bytes:
        """The rest of the line that the file is in, which begins near the offset."""
        line = file.readline(LONGEST_LINE)
        if len(line) < LONGEST_LINE or line.endswith(b"\n"):
            return line
        reason = f"longer than {LONGEST_LINE >> 20} MiB, so not read on; is this a file of lines?"
        raise FileError(self.file, self._line_number(offset), reason)

    def _quotes(self, lines: bytes) -> bool:
        """Whether a quotation begins or ends in some lines that does not do both."""
        return self.extent is Extent.QUOTED and bool(lines.count(b'"') % 2)

    def _check_end(self, offset: int) -> None:
        if self.end is not None and offset < self.end:
            raise EOFError(
                f"the file ends after {offset} bytes and had {self.file.size} when it was cut into tasks; "
                "files must not change while they are read"
            )

    def _seek(self, file: BinaryIO) -> int:
        """Go to the first line that begins in the range; its offset."""
        offset = self.start
        if self.start:
            # The line that the byte before the range belongs to is another task's.
            file.seek(self.start - 1)
            offset += len(self._line(file, self.start)) - 1
        if self.skip:
            header = b"".join(self._line(file, offset) for _ in range(self.skip))
            _check_header(self.parser, header, self.file, self.encoding)
            offset += len(header)
        return offset

    def _line_number(self, offset: int) -> int:
        """The number of the line that begins at an offset, counted only when there is an error to explain."""
        with open_input(self.file.path, self.compression) as file:
            number, left = 1, offset
            while left and (block := file.read(min(_BLOCK, left))):
                number += block.count(b"\n")
                left -= len(block)
        return number

    def _last_line(self) -> int:
        """The number of the last line of which anything can be read."""
        number = 1
        with suppress(Exception), open_input(self.file.path, self.compression) as file:
            while block := cast(io.BufferedIOBase, file).read1(_SAMPLE):
                number += block.count(b"\n")
        return number


def _opening(lines: bytes) -> int:
    r"""Which line the quotation begins in that is open in the end, from 0.

    >>> _opening(b'a,"b"\n"a\nb","c\nd\n')
    2
    """
    opening, is_open = 0, False
    for index, line in enumerate(lines.split(b"\n")):
        quotes = line.count(b'"')
        is_open ^= bool(quotes % 2)
        if is_open and quotes:
            opening = index
    return opening


def transcoded(lines: bytes, encoding: str) -> bytes:
    """Lines as UTF-8, whatever they are. Raises `BadLine` at the first that is no text of the encoding."""
    if encoding == UTF_8:
        return lines
    try:
        return lines.decode(encoding).encode()
    except UnicodeDecodeError as error:
        raise BadLine(lines.count(b"\n", 0, error.start), f"not {encoding} text ({error.reason})") from error


def checked_encoding(name: str) -> str:
    """The name of an encoding of lines. Raises `ValueError` for one that is not known or has no ASCII in it.

    >>> checked_encoding("latin1"), checked_encoding("UTF8")
    ('iso8859-1', 'utf-8')
    """
    try:
        found = codecs.lookup(name).name
        if bytes(range(128)).decode(name) == bytes(range(128)).decode("ascii"):
            return found
    except (LookupError, UnicodeError, TypeError):
        pass
    raise ValueError(
        f"encoding {name!r} is none of which lines can be told; use one with ASCII in it, such as 'latin-1'"
    )


def _check_header(parser: LineParser, header: bytes, file: Found, encoding: str) -> None:
    try:
        parser.check_header(transcoded(header.removeprefix(codecs.BOM_UTF8), encoding), file)
    except BadLine as error:
        raise FileError(file, 1 + error.index, error) from error


@dataclass
class LineFormat:
    """Cuts files of lines."""

    parser: LineParser
    compression: str = "auto"
    header_lines: int = 0
    """Lines at the beginning of each file that are no records."""
    extent: Extent = Extent.LINE
    """How far a record may reach; only files of lines that are a record each are cut."""
    bad_times: FileTimes | None = None
    """Event times of lines that are no record; None where such a line is an error."""
    encoding: str = UTF_8
    _known: dict[str, tuple[int, float]] = field(default_factory=dict, repr=False)

    def cut(self, file: Found, offset: int, records: int) -> tuple[Split, int, int | None]:
        """See `FileFormat`. A compressed file is one piece, as it can only be read from its beginning."""
        compression = compression_of(file.path, self.compression)
        bad = None if self.bad_times is None else self.bad_times.default(file)
        if compression != "uncompressed" or self.extent is not Extent.LINE:
            ratio = 1 if compression == "uncompressed" else _USUAL_RATIO
            how = (self.header_lines, self.extent, bad, self.encoding)
            piece = LineRange(file, 0, None, self.parser, compression, *how)
            return piece, ratio * file.size // _USUAL_RECORD, None
        first, bytes_each = self._look(file)
        start = max(offset, first)
        end = start + max(1, int(records * bytes_each))
        end_of_piece = min(end, file.size)
        piece = LineRange(file, start, end_of_piece, self.parser, compression, bad_time=bad, encoding=self.encoding)
        if end >= file.size:
            return piece, int((file.size - start) / bytes_each), None
        return piece, records, end

    def _look(self, file: Found) -> tuple[int, float]:
        """Where a file's first record begins, and about how many bytes a record has."""
        if file.path not in self._known:
            with open_input(file.path) as opened:
                header = b"".join(opened.readline(LONGEST_LINE) for _ in range(self.header_lines))
                sample = opened.read(_SAMPLE)
            if self.header_lines:
                _check_header(self.parser, header, file, self.encoding)
            lines = sample.count(b"\n")
            self._known = {file.path: (len(header), len(sample) / lines if lines else _USUAL_RECORD)}
        return self._known[file.path]
