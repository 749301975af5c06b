"""Text and JSON: each line of a file, or the object in it, as an element; patterns of files may be elements.

The sources are `apache_beam.io.textio` and `apache_beam.io.ReadFromJson`.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import BinaryIO, Self, Unpack, cast

from headrace.lowlevel.errors import HeadraceError
from headrace.lowlevel.records.record import Batch
from headrace.sdk.coders.coder import Coder, StrUtf8Coder
from headrace.sdk.graph.ptransform import PTransform
from headrace.sdk.graph.pvalue import PBegin, PCollection
from headrace.sdk.io.argument_checks import refuse_unless
from headrace.sdk.io.files.file_source import OtherReadOptions, ReadOptions
from headrace.sdk.io.files.file_times import FileTimes
from headrace.sdk.io.files.fileio import ReadableFile, ReadAllFiles
from headrace.sdk.io.files.filesystem import CompressionTypes, MatchedFile, Path, compression_of
from headrace.sdk.io.text.line_ranges import (
    OTHER_ENCODING,
    SET_ASIDE,
    UTF_8,
    BadLine,
    FileError,
    LineFormat,
    LineParser,
    LineSource,
    RecordEnd,
    cannot_be_read_on,
    checked_encoding,
    taken_for_plain,
)
from headrace.sdk.io.timestamps import BadTimestamp, TimestampOf, timestamps_of
from headrace.sdk.model.row import Row
from headrace.sdk.transforms.core.create import Create


@dataclass(frozen=True, slots=True)
class TextParser(LineParser):
    """Parses lines as str."""

    strip: bool
    """Whether the ends of lines are left out."""
    timestamp: TimestampOf
    times: FileTimes
    coder: Coder | None = None
    """Decodes a line; None for text in UTF-8."""

    def parse(self, lines: bytes, file: MatchedFile) -> Batch:
        """See `LineParser`."""
        texts = (
            split_lines(decoded(lines, _OTHER_ENCODING), self.strip) if self.coder is None else [*self._decoded(lines)]
        )
        try:
            return Batch(texts, timestamps_of(texts, self.timestamp, self.times.default(file)))
        except BadTimestamp as error:
            raise BadLine(error.index, str(error)) from error

    def _decoded(self, lines: bytes) -> Iterator[object]:
        # As one character for each byte, no other than LF ends a line.
        for line in split_lines(lines.decode("latin-1"), self.strip):
            yield cast(Coder, self.coder).decode(line.encode("latin-1"))


_OTHER_ENCODING = f"{OTHER_ENCODING}, {SET_ASIDE.removeprefix('correct the line, ')}"
_NO_ENCODING = (
    "write the file as UTF-8, read it by ReadFromText with its encoding, such as encoding='latin-1', or have "
    "coder=BytesCoder() give bytes, which a step of yours decodes"
)
_MUST_BE_UTF8 = f"write the file as UTF-8, {SET_ASIDE.removeprefix('correct the line, ')}"


def decoded(lines: bytes, remedy: str) -> str:
    """Lines in UTF-8 as text. Raises `BadLine` with the remedy for the first line that is not UTF-8."""
    try:
        return lines.decode()
    except UnicodeDecodeError as error:
        raise BadLine(lines.count(b"\n", 0, error.start), f"not UTF-8 text ({error.reason}); {remedy}") from error


def split_lines(text: str, strip: bool = True) -> list[str]:
    """The lines of a text; `strip` leaves their ends (LF or CR LF) out.

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
    r"""Lines of text files as str.

    Args:
        file_pattern: Which files; see `FileSource`.
        min_bundle_size: Without effect, accepted as in Beam: the engine chooses how much a task reads.
        compression_type: One of `CompressionTypes`. A compressed file is read by one task.
        strip_trailing_newlines: Whether the ends of lines are left out.
        coder: Decodes the bytes of a line; by default lines are text, see `encoding`.
        validate: Whether a file must match when the pipeline is built.
        skip_header_lines: Number of lines at the beginning of each file to leave out.
        delimiter: Bytes that end a line, instead of LF and CR LF. Each file is then read by one task; `encoding` and
            the options of `FileSource` are not supported.
        escapechar: Not supported.
        encoding: Encoding of the text: UTF-8, or another encoding that contains ASCII, such as `latin-1`.
        **options: `timestamp`, `max_delay`, `continuous` and the others of `FileSource`.

    Raises:
        TypeError: An argument that is not supported differs from Beam's default.

    >>> import headrace as beam
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(folder, "words.txt").write_text("tea\njam\n")
    ...     with beam.Pipeline("LocalRunner") as pipeline:
    ...         _ = pipeline | beam.io.ReadFromText(f"{folder}/*.txt") | beam.Map(print)
    tea
    jam
    """

    record_format = "text"

    def __init__(
        self,
        file_pattern: Path,
        min_bundle_size: int = 0,
        compression_type: str = CompressionTypes.AUTO,
        strip_trailing_newlines: bool = True,
        coder: Coder | None = None,
        validate: bool = True,
        skip_header_lines: int = 0,
        delimiter: bytes | None = None,
        escapechar: None = None,
        *,
        encoding: str = UTF_8,
        **options: Unpack[OtherReadOptions],
    ) -> None:
        if coder is not None and not isinstance(coder, Coder):
            raise TypeError(f"coder is {coder!r:.200}; give an instance of a Coder, such as BytesCoder()")
        self._coder = None if isinstance(coder, StrUtf8Coder) else coder
        refuse_unless("ReadFromText", "escapechar", escapechar, None, "each LF ends a line")
        given = [*options, *(["encoding"] if encoding != UTF_8 else [])]
        if delimiter is not None and given:
            raise TypeError(f"ReadFromText with a delimiter takes no {given[0]}; leave one of them out")
        if type(skip_header_lines) is not int or skip_header_lines < 0:
            raise TypeError(f"skip_header_lines is a number of lines, got {skip_header_lines!r:.200}; give 0 or more")
        super().__init__(file_pattern, compression_type, validate=validate, **options)
        self._strip = strip_trailing_newlines
        self._header = skip_header_lines
        self._encoding = checked_encoding(encoding)
        self._all: ReadAllFromText | None = None
        if delimiter is not None:
            lines = (strip_trailing_newlines, False, coder, skip_header_lines, False, delimiter)
            self._all = ReadAllFromText(0, 0, compression_type, *lines)

    def expand(self, inputs: PBegin) -> PCollection[object]:
        """See `Source`."""
        begin = super().expand(inputs)
        return begin if self._all is None else inputs.pipeline | Create([self.pattern]) | "Read" >> self._all

    def tolerant(self) -> Self:
        """See `TolerantSource`. Raises `ValueError` if there is a delimiter."""
        if self._all is not None:
            raise ValueError(f"{self.label} has a delimiter, and cannot go on after a bad line; leave one of them out")
        return super().tolerant()

    def file_format(self) -> LineFormat:
        """Text, with one record for each line."""
        parser = TextParser(self._strip, self.timestamp, self.times, self._coder)
        return LineFormat(parser, self.compression, self._header, bad_times=self.bad_times, encoding=self._encoding)


_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class _ReadLines:
    """Reads the lines of a file."""

    strip: bool
    coder: Coder
    header: int
    delimiter: bytes | None

    def __call__(self, file: ReadableFile) -> Iterator[object]:
        """The elements of the file's lines. Raises `FileError` with file and line for what cannot be read."""
        number, decode, strip = 0, self.coder.decode, self.strip
        try:
            with file.open() as opened:
                lines = _lines(opened) if self.delimiter is None else _split(opened, self.delimiter)
                read = islice(_without_mark(lines), self.header, None)
                for number, (line, end) in enumerate(read, self.header + 1):
                    try:
                        element = decode(line if strip else line + end)
                    except Exception as error:
                        raise self._undecoded(file, number, error) from error
                    yield element
        except (FileError, HeadraceError, PermissionError, FileNotFoundError):
            raise
        except Exception as error:
            is_packed = compression_of(file.metadata.path, file.compression or "auto") != "uncompressed"
            raise FileError(_matched(file), max(number, 1), cannot_be_read_on(error, is_packed)) from error

    def _undecoded(self, file: ReadableFile, number: int, error: Exception) -> FileError:
        if packed := taken_for_plain(file.metadata.path, file.compression or "auto"):
            return FileError(_matched(file), 1, packed)
        if isinstance(self.coder, StrUtf8Coder) and isinstance(error, UnicodeDecodeError):
            return FileError(_matched(file), number, f"not UTF-8 text ({error.reason}); {_NO_ENCODING}")
        name = type(self.coder).__name__
        return FileError(
            _matched(file),
            number,
            f"{name}.decode raised {type(error).__name__} ({error}); give the coder of such lines",
        )


def _matched(file: ReadableFile) -> MatchedFile:
    return MatchedFile(file.metadata.path, file.metadata.size_in_bytes, 0)


def _without_mark(lines: Iterator[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, bytes]]:
    """The lines without a byte order mark before the first."""
    for line, end in islice(lines, 1):
        first = line.removeprefix(codecs.BOM_UTF8)
        if first or end:
            yield first, end
    yield from lines


def _lines(file: BinaryIO) -> Iterator[tuple[bytes, bytes]]:
    """Each line and its end, which is LF, CR LF, or empty at the end of the file."""
    for line in file:
        content = line.removesuffix(b"\n")
        content = content.removesuffix(b"\r") if content != line else content
        yield content, line[len(content) :]


def _split(file: BinaryIO, delimiter: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Each piece of a file between delimiters, and the delimiter behind it."""
    rest = b""
    while chunk := file.read(_CHUNK):
        *pieces, rest = (rest + chunk).split(delimiter)
        for piece in pieces:
            yield piece, delimiter
    if rest:
        yield rest, b""


def check_delimiter(delimiter: object) -> None:
    """Raise `ValueError` unless it is None, or bytes that do not end as they begin.

    >>> check_delimiter(b"||-")
    """
    if delimiter is None:
        return
    if not isinstance(delimiter, bytes) or not delimiter:
        raise ValueError(f"delimiter is {delimiter!r:.200}; give one or more bytes")
    if any(delimiter.startswith(delimiter[start:]) for start in range(1, len(delimiter))):
        raise ValueError(
            f"delimiter {delimiter!r:.200} ends as it begins, so it is not clear where several in a row are; it must "
            "not self-overlap, so give other bytes"
        )


class ReadAllFromText(ReadAllFiles):
    r"""Lines of the text files of each pattern; each file is read by one task.

    Args:
        min_bundle_size: Without effect, accepted as in Beam.
        desired_bundle_size: Without effect, accepted as in Beam.
        compression_type: One of `CompressionTypes`.
        strip_trailing_newlines: Whether the ends of lines are left out.
        validate: Without effect, accepted as in Beam: patterns are not known before the pipeline runs.
        coder: Decodes the bytes of a line.
        skip_header_lines: Number of lines at the beginning of each file to leave out.
        with_filename: Whether elements are pairs of the file's path and a line.
        delimiter: Bytes that end a line, instead of LF and CR LF.
        escapechar: Not supported.

    >>> import headrace as beam
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(folder, "words.txt").write_text("tea\njam\n")
    ...     with beam.Pipeline("LocalRunner") as pipeline:
    ...         _ = pipeline | beam.Create([f"{folder}/words.txt"]) | beam.io.ReadAllFromText() | beam.Map(print)
    tea
    jam
    """

    def __init__(
        self,
        min_bundle_size: int = 0,
        desired_bundle_size: int = 64 << 20,
        compression_type: str = CompressionTypes.AUTO,
        strip_trailing_newlines: bool = True,
        validate: bool = False,
        coder: Coder | None = None,
        skip_header_lines: int = 0,
        with_filename: bool = False,
        delimiter: bytes | None = None,
        escapechar: None = None,
    ) -> None:
        refuse_unless("ReadAllFromText", "escapechar", escapechar, None, "each delimiter ends a line")
        check_delimiter(delimiter)
        compression_of("", compression_type)
        read = _ReadLines(strip_trailing_newlines, coder or StrUtf8Coder(), skip_header_lines, delimiter)
        super().__init__(read, "ReadLines", with_filename, compression=compression_type)


class ReadFromTextWithFilename(PTransform[PBegin, PCollection[object]]):
    r"""Pairs of a file's path and a line, for the text files of a pattern.

    Args:
        file_pattern: The pattern.
        min_bundle_size: Without effect, accepted as in Beam.
        compression_type: As for `ReadAllFromText`, as are the other arguments.
        strip_trailing_newlines: See `ReadAllFromText`.
        coder: See `ReadAllFromText`.
        validate: Without effect, accepted as in Beam: files are looked for when the pipeline runs.
        skip_header_lines: See `ReadAllFromText`.
        delimiter: See `ReadAllFromText`.
        escapechar: Not supported.

    >>> import headrace as beam
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(folder, "words.txt").write_text("tea\njam\n")
    ...     with beam.Pipeline("LocalRunner") as pipeline:
    ...         lines = pipeline | beam.io.ReadFromTextWithFilename(f"{folder}/*.txt")
    ...         _ = lines | beam.MapTuple(lambda path, line: print(Path(path).name, line))
    words.txt tea
    words.txt jam
    """

    def __init__(
        self,
        file_pattern: str,
        min_bundle_size: int = 0,
        compression_type: str = CompressionTypes.AUTO,
        strip_trailing_newlines: bool = True,
        coder: Coder | None = None,
        validate: bool = True,
        skip_header_lines: int = 0,
        delimiter: bytes | None = None,
        escapechar: None = None,
    ) -> None:
        super().__init__()
        self._pattern = file_pattern
        self._read = ReadAllFromText(
            compression_type=compression_type,
            strip_trailing_newlines=strip_trailing_newlines,
            coder=coder,
            skip_header_lines=skip_header_lines,
            with_filename=True,
            delimiter=delimiter,
            escapechar=escapechar,
        )

    def expand(self, inputs: PBegin) -> PCollection[object]:
        """The pairs."""
        return inputs.pipeline | Create([self._pattern]) | self._read


@dataclass(frozen=True, slots=True)
class JsonParser(LineParser):
    """Parses JSON objects as rows; other JSON values stay as they are."""

    lines: bool
    """Whether each line is a JSON value; else each file is one."""
    timestamp: TimestampOf
    times: FileTimes

    def parse(self, lines: bytes, file: MatchedFile) -> Batch:
        """See `LineParser`."""
        text = decoded(lines, _MUST_BE_UTF8)
        values = self._each(split_lines(text)) if self.lines else _whole(text)
        rows = [Row.of(value) if isinstance(value, dict) else value for value in values]
        try:
            return Batch(rows, timestamps_of(rows, self.timestamp, self.times.default(file)))
        except BadTimestamp as error:
            if not self.lines:
                raise ValueError(f"element {error.index + 1}: {error}") from error
            line_of_row = [index for index, line in enumerate(split_lines(text)) if not _is_blank(line)]
            raise BadLine(line_of_row[error.index], str(error)) from error

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
