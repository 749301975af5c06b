"""Text: each line of a file as an element (`apache_beam.io.textio`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self, Unpack, cast

from headrace.lowlevel.records.record import Batch
from headrace.sdk.coders.coder import Coder
from headrace.sdk.coders.plain import StrUtf8Coder
from headrace.sdk.graph.pvalue import PBegin, PCollection
from headrace.sdk.io.files.beam_arguments import refuse_unless
from headrace.sdk.io.files.file_source import OtherReadOptions
from headrace.sdk.io.files.file_times import FileTimes
from headrace.sdk.io.files.filesystem import CompressionTypes, MatchedFile, Path
from headrace.sdk.io.text.line_ranges import UTF_8, BadLine, LineFormat, checked_encoding
from headrace.sdk.io.text.line_source import LineSource
from headrace.sdk.io.text.read_all import ReadAllFromText
from headrace.sdk.io.timestamps import BadTimestamp, TimestampOf, timestamps_of
from headrace.sdk.transforms.core.create import Create


@dataclass(frozen=True, slots=True)
class TextParser:
    """Parses lines as str."""

    strip: bool
    """Whether the ends of lines are left out."""
    timestamp: TimestampOf
    times: FileTimes
    coder: Coder | None = None
    """Decodes a line; None for text in UTF-8."""

    def parse(self, lines: bytes, file: MatchedFile) -> Batch:
        """See `LineParser`."""
        texts = split_lines(decoded(lines), self.strip) if self.coder is None else [*self._decoded(lines)]
        try:
            return Batch(texts, timestamps_of(texts, self.timestamp, self.times.default(file)))
        except BadTimestamp as error:
            raise BadLine(error.index, str(error)) from error

    def _decoded(self, lines: bytes) -> Iterator[object]:
        # As one character for each byte, no other than LF ends a line.
        for line in split_lines(lines.decode("latin-1"), self.strip):
            yield cast(Coder, self.coder).decode(line.encode("latin-1"))

    def check_header(self, lines: bytes, file: MatchedFile) -> None:
        """Accept any header."""


def decoded(lines: bytes) -> str:
    """Lines in UTF-8 as text. Raises `BadLine` for the first line that is not UTF-8."""
    try:
        return lines.decode()
    except UnicodeDecodeError as error:
        raise BadLine(lines.count(b"\n", 0, error.start), f"not UTF-8 text ({error.reason})") from error


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
        """See `Tolerant.tolerant`. Raises `ValueError` if there is a delimiter."""
        if self._all is not None:
            raise ValueError(f"{self.label} has a delimiter, and cannot go on after a bad line; leave one of them out")
        return super().tolerant()

    def file_format(self) -> LineFormat:
        """Text, with one record for each line."""
        parser = TextParser(self._strip, self.timestamp, self.times, self._coder)
        return LineFormat(parser, self.compression, self._header, bad_times=self.bad_times, encoding=self._encoding)
