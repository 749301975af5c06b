"""Files of lines, cut into ranges of bytes that begin and end between lines, so that several tasks can read one file.

An error in a file stops the run, and names the file and the line.
"""

from __future__ import annotations

import codecs
import io
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from functools import cache, partial
from typing import BinaryIO, NamedTuple, Self, cast

from headrace.lowlevel.injectors.injector import Split
from headrace.lowlevel.records.record import Batch
from headrace.lowlevel.stored_names import addressed, stored_as
from headrace.sdk.io.dead_letters import Failure, TolerantSource, Unreadable
from headrace.sdk.io.files.file_source import FileSource
from headrace.sdk.io.files.file_times import FileTimes
from headrace.sdk.io.files.filesystem import MatchedFile, compression_of, open_input
from headrace.sdk.io.files.pieces import FileFormat

UTF_8 = "utf-8"
OTHER_ENCODING = "give its encoding, such as encoding='latin-1'"
"""What to do about text that is not UTF-8."""
SET_ASIDE = "correct the line, or have with_exception_handling() of the source set such lines aside"
"""What to do about a line that cannot be read."""
LONGEST_LINE = 128 << 20
"""Greatest number of bytes of a line; a task holds several lines in memory."""
_BLOCK = 1 << 20
"""Bytes that are read at once."""
_SAMPLE = 1 << 16
"""Bytes of a file from which the length of its records is estimated."""
_USUAL_RECORD = 100
"""Bytes of a record, where no sample says how many they are."""
_USUAL_RATIO = 5
"""Ratio of decompressed to compressed size, which is not known before a file is read."""


@stored_as("FileLine")
class FileLine(NamedTuple):
    """A line of a file that cannot be read as a record; an element of dead-letter outputs."""

    path: str
    line: int
    """Number of the line, from 1."""
    text: str


class RecordEnd(Enum):
    """Where a record ends."""

    LINE = "to the end of its line"
    QUOTED = "to the next end of a line that is not between quotation marks"
    FILE = "to the end of the file"


class LineParser(ABC):
    """A parser of lines."""

    @abstractmethod
    def parse(self, lines: bytes, file: MatchedFile) -> Batch:
        """The records of whole lines, in UTF-8. Raises `BadLine`, or another error if the line is not known."""

    def check_header(self, lines: bytes, file: MatchedFile) -> None:  # noqa: B027 - most accept any
        """Raise `BadLine` for a wrong line among those that are skipped at the beginning of a file; any is accepted."""


@addressed("FileError")
class FileError(ValueError):
    r"""An error in a line (numbered from 1) of a file.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import headrace as beam
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "scores.jsonl")
    ...     _ = path.write_text('{"points": 5}\nfive\n')
    ...     try:
    ...         with beam.Pipeline("LocalRunner") as pipeline:
    ...             _ = pipeline | "Scores" >> beam.io.ReadFromJson(str(path))
    ...     except ValueError as error:
    ...         print(type(error.__cause__).__name__, str(error.__cause__).partition(", ")[2])
    FileError line 2: ...
    """

    def __init__(self, file: MatchedFile, line: int, reason: object) -> None:
        super().__init__(f"{file.path}, line {line}: {reason}")


@addressed("BadLine")
class BadLine(ValueError):
    """A line that cannot be parsed.

    Args:
        index: Index of the line among the parsed lines.
        reason: The error in the line.
    """

    def __init__(self, index: int, reason: str) -> None:
        super().__init__(reason)
        self.index = index


@dataclass(frozen=True, slots=True)
class LineRange:
    """The lines that begin in the bytes from `start` to before `end` of a file, for one task."""

    file: MatchedFile
    start: int
    end: int | None
    """End of the range; None for the end of the file."""
    parser: LineParser
    compression: str
    skip: int = 0
    """Number of lines to leave out at the start."""
    extent: RecordEnd = RecordEnd.LINE
    bad_time: int | None = None
    """Event time of unreadable lines, microseconds UTC; None where such a line is an error."""
    encoding: str = UTF_8

    def read(self) -> Iterator[Batch]:
        """The records of the range. Raises `FileError` for a line that cannot be read."""
        for offset, block in self._readable():
            if self.bad_time is not None:
                first_line = cache(partial(self._line_number, offset))
                yield from self._apart(first_line, 0, io.BytesIO(block).readlines(), self.bad_time)
                continue
            try:
                batch = self.parser.parse(transcoded(block, self.encoding), self.file)
            except Exception as error:
                raise self._unparsed(offset, error) from error
            yield batch

    def _unparsed(self, offset: int, error: Exception) -> ValueError:
        """The error for a block that cannot be parsed."""
        if packed := taken_for_plain(self.file.path, self.compression):
            return FileError(self.file, 1, packed)
        number = self._line_number(offset)
        if isinstance(error, BadLine):
            return FileError(self.file, number + error.index, error)
        return ValueError(f"{self.file.path}, in the lines from {number} on: {error}")

    def _apart(self, first_line: Callable[[], int], skipped: int, lines: list[bytes], time: int) -> Iterator[Batch]:
        """Records and `Unreadable`s of a block. A block with a bad line is halved until the line is found.

        Args:
            first_line: Gives the number of the block's first line.
            skipped: Number of lines of the block before `lines`.
            lines: The lines to parse.
            time: Event time of the `Unreadable`s, microseconds UTC.
        """
        try:
            batch = self.parser.parse(transcoded(b"".join(lines), self.encoding), self.file)
        except Exception as error:
            if len(lines) > 1:
                half = len(lines) // 2
                yield from self._apart(first_line, skipped, lines[:half], time)
                yield from self._apart(first_line, skipped + half, lines[half:], time)
                return
            text = b"".join(lines).decode(self.encoding, errors="replace").rstrip("\r\n")
            line = FileLine(self.file.path, first_line() + skipped, text)
            batch = Batch([Unreadable(line, Failure.of(error))], [time])
        yield batch

    def _readable(self) -> Iterator[tuple[int, bytes]]:
        """The blocks of `_blocks`. Raises `FileError` with the last readable line if the file cannot be read on."""
        try:
            yield from self._blocks()
        except FileError:
            raise
        except Exception as error:
            is_packed = compression_of(self.file.path, self.compression) != "uncompressed"
            raise FileError(self.file, self._last_line(), cannot_be_read_on(error, is_packed)) from error

    def _blocks(self) -> Iterator[tuple[int, bytes]]:
        """Blocks of whole records, each with the offset at which it begins."""
        with open_input(self.file.path, self.compression) as file:
            offset = self._seek(file)
            while self.end is None or offset < self.end:
                block = self._block(file, offset)
                if not block:
                    self._check_end(offset)
                    if self.extent is RecordEnd.FILE and not offset:
                        # An empty line is not an empty record: the parser decides.
                        yield offset, block
                    return
                yield offset, block.removeprefix(codecs.BOM_UTF8) if not offset else block
                offset += len(block)

    def _block(self, file: BinaryIO, offset: int) -> bytes:
        """Whole records of about `_BLOCK` bytes; empty at the end of the file."""
        parts = [self._lines(file, offset)]
        quoted, position = self._quotes(parts[0]), offset
        while parts[-1] and (quoted or self.extent is RecordEnd.FILE):
            position += len(parts[-1])
            parts.append(self._lines(file, position))
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
        """The rest of the current line of the file, near `offset`. Raises `FileError` if the line is too long."""
        line = file.readline(LONGEST_LINE)
        if len(line) < LONGEST_LINE or line.endswith(b"\n"):
            return line
        reason = f"longer than {LONGEST_LINE >> 20} MiB, so not read to its end; is this a file of lines?"
        raise FileError(self.file, self._line_number(offset), reason)

    def _quotes(self, lines: bytes) -> bool:
        """Whether the lines open or close a quotation without its other end."""
        return self.extent is RecordEnd.QUOTED and bool(lines.count(b'"') % 2)

    def _check_end(self, offset: int) -> None:
        if self.end is not None and offset < self.end:
            raise EOFError(
                f"the file ends after {offset} bytes and had {self.file.size} when it was cut into tasks; "
                "files must not change while they are read"
            )

    def _seek(self, file: BinaryIO) -> int:
        """Move to the first line that begins in the range; return its offset."""
        offset = self.start
        if self.start:
            # Another task reads the line that contains the byte before the range.
            file.seek(self.start - 1)
            offset += len(self._line(file, self.start)) - 1
        if self.skip:
            header = b"".join(self._line(file, offset) for _ in range(self.skip))
            _check_header(self.parser, header, self.file, self.encoding, self.compression)
            offset += len(header)
        return offset

    def _line_number(self, offset: int) -> int:
        """The number of the line that begins at an offset, from 1; lines are counted only for an error message."""
        with open_input(self.file.path, self.compression) as file:
            number, remaining = 1, offset
            while remaining and (block := file.read(min(_BLOCK, remaining))):
                number += block.count(b"\n")
                remaining -= len(block)
        return number

    def _last_line(self) -> int:
        """The number of the last readable line."""
        number = 1
        with suppress(Exception), open_input(self.file.path, self.compression) as file:
            while block := cast(io.BufferedIOBase, file).read1(_SAMPLE):
                number += block.count(b"\n")
        return number


def _opening(lines: bytes) -> int:
    r"""The index of the line in which the quotation begins that is still open at the end of the lines.

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
    """Lines as UTF-8. Raises `BadLine` at the first line that is not valid in the encoding."""
    if encoding == UTF_8:
        return lines
    try:
        return lines.decode(encoding).encode()
    except UnicodeDecodeError as error:
        raise BadLine(
            lines.count(b"\n", 0, error.start), f"not {encoding} text ({error.reason}); give the encoding that it has"
        ) from error


def checked_encoding(name: str) -> str:
    """The normalized name of an encoding. Raises `ValueError` if it is unknown or does not encode ASCII as ASCII.

    >>> checked_encoding("latin1"), checked_encoding("UTF8")
    ('iso8859-1', 'utf-8')
    """
    try:
        codec = codecs.lookup(name).name
        if bytes(range(128)).decode(name) == bytes(range(128)).decode("ascii"):
            return codec
    except (LookupError, UnicodeError, TypeError):
        pass
    raise ValueError(
        f"encoding {name!r} is not a known encoding that contains ASCII, by which lines are told apart; use 'utf-8' or "
        "'latin-1'"
    )


def _check_header(
    parser: LineParser, header: bytes, file: MatchedFile, encoding: str, compression: str = "uncompressed"
) -> None:
    try:
        parser.check_header(transcoded(header.removeprefix(codecs.BOM_UTF8), encoding), file)
    except BadLine as error:
        packed = taken_for_plain(file.path, compression)
        raise FileError(file, 1 if packed else 1 + error.index, packed or error) from error


def cannot_be_read_on(error: Exception, is_packed: bool) -> str:
    """What to say of a file whose next bytes cannot be read, with a remedy if it is compressed."""
    remedy = "; put a whole file there, or state compression_type if its name misleads" if is_packed else ""
    return f"cannot be read on ({type(error).__name__}: {error}){remedy}"


_PACKED = {"gzip": b"\x1f\x8b", "bzip2": b"BZh", "xz": b"\xfd7zXZ", "zstd": b"\x28\xb5\x2f\xfd", "": b"PK\x03\x04"}
"""Compression -> the first bytes of a file; an empty name for ZIP archives, which cannot be read."""


def taken_for_plain(path: str, compression: str) -> str | None:
    """What to say of a compressed file that is read as if it was not; None for other files. It looks at the file.

    Args:
        path: The file.
        compression: The compression with which it is read, as for `compression_of`.
    """
    if compression_of(path, compression) != "uncompressed":
        return None
    head = b""
    with suppress(Exception), open_input(path) as file:
        head = file.read(6)
    for name, begin in _PACKED.items():
        if head.startswith(begin):
            what = f"compressed, with {name}; give compression_type={name!r}" if name else "a ZIP archive; unpack it"
            return f"the file is {what}"
    return None


@dataclass
class LineFormat(FileFormat):
    """Cuts files of lines."""

    parser: LineParser
    compression: str = "auto"
    header_lines: int = 0
    """Number of lines at the beginning of each file that are not records."""
    extent: RecordEnd = RecordEnd.LINE
    """Where a record ends; only files with one record for each line are cut."""
    bad_times: FileTimes | None = None
    """Event times of unreadable lines; None where such a line is an error."""
    encoding: str = UTF_8
    _layouts: dict[MatchedFile, tuple[int, float]] = field(default_factory=dict, repr=False)
    """The result of `_layout` for the newest file."""

    def cut(self, file: MatchedFile, offset: int, records: int) -> tuple[Split, int, int | None]:
        """See `FileFormat.cut`. A compressed file is one piece, as it can only be read from its beginning."""
        compression = compression_of(file.path, self.compression)
        bad_time = None if self.bad_times is None else self.bad_times.default(file)
        if not self.is_divided(file):
            if offset:
                raise ValueError(
                    f"{file.path} was read to byte {offset}, and cannot be read on from there if its lines are "
                    "compressed or no records (compression_type, splittable=False, lines=False), so they would be read "
                    "twice; let the source be as it was until the file is read, or start on an empty checkpoint"
                )
            ratio = 1 if compression == "uncompressed" else _USUAL_RATIO
            settings = (self.header_lines, self.extent, bad_time, self.encoding)
            piece = LineRange(file, 0, None, self.parser, compression, *settings)
            return piece, ratio * file.size // _USUAL_RECORD, None
        header_size, record_size = self._layout(file)
        start = max(offset, header_size)
        end = start + max(1, int(records * record_size))
        stop = min(end, file.size)
        piece = LineRange(file, start, stop, self.parser, compression, bad_time=bad_time, encoding=self.encoding)
        if end >= file.size:
            return piece, int((file.size - start) / record_size), None
        return piece, records, end

    def is_divided(self, file: MatchedFile) -> bool:
        """See `FileFormat.is_divided`."""
        return self.extent is RecordEnd.LINE and compression_of(file.path, self.compression) == "uncompressed"

    def _layout(self, file: MatchedFile) -> tuple[int, float]:
        """Bytes of a file's header, and about how many bytes a record has. Raises `FileError` for a wrong header."""
        if file not in self._layouts:
            with open_input(file.path) as opened:
                header = b"".join(opened.readline(LONGEST_LINE) for _ in range(self.header_lines))
                sample = opened.read(_SAMPLE)
            if self.header_lines:
                _check_header(self.parser, header, file, self.encoding)
            lines = sample.count(b"\n")
            self._layouts = {file: (len(header), len(sample) / lines if lines else _USUAL_RECORD)}
        return self._layouts[file]


class LineSource(FileSource, TolerantSource):
    """The base of sources of lines.

    `with_exception_handling` sets lines apart, as `FileLine`s, that cannot be read or have no valid event time. A wrong
    header, or a file that cannot be read to its end, still stops the run.
    """

    one_line_each = True
    """Whether every record is one line."""

    @property
    def bad_times(self) -> FileTimes | None:
        """Event times for unreadable lines; None where such a line stops the run."""
        return self.times if self._tolerant else None

    def tolerant(self) -> Self:
        """See `TolerantSource`. Raises `ValueError` if records may have several lines."""
        if not self.one_line_each:
            raise ValueError(
                f"{self.label} reads records of several lines, and cannot go on after a bad one; read lines"
            )
        return super().tolerant()
