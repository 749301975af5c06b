"""CSV: rows with the fields that the header names (`apache_beam.io.ReadFromCsv`)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from csv import reader as csv_lines
from dataclasses import dataclass, replace
from os import fspath
from typing import Unpack, cast

import pyarrow as pa
from pyarrow import csv

from headrace.lowlevel.record import Batch
from headrace.sdk.io.files import CompressionTypes, Found, Path, compression_of, match
from headrace.sdk.io.filetimes import FileTimes
from headrace.sdk.io.lines import UTF_8, BadLine, Extent, FileError, LineFormat, LineRange, checked_encoding
from headrace.sdk.io.linesource import LineSource
from headrace.sdk.io.reading import ReadOptions
from headrace.sdk.io.timestamps import BadTimestamp, TimestampOf, timestamps_of
from headrace.sdk.row import Row

_ROW = re.compile(r"Row #\d+: ")
_OPEN = "a quotation is not closed; if fields may have several lines, read with splittable=False"


@dataclass(frozen=True, slots=True)
class CsvParser:
    """Lines of fields as rows. All tasks use the same columns and types."""

    columns: tuple[str, ...]
    types: Mapping[str, pa.DataType]
    wanted: tuple[str, ...] | None
    delimiter: str
    nulls: tuple[str, ...] | None
    one_line_each: bool
    timestamp: TimestampOf
    times: FileTimes

    def parse(self, lines: bytes, file: Found) -> Batch:
        """See `LineParser`."""
        try:
            table = self.table(lines)
        except pa.ArrowInvalid as error:
            raise self.explained(lines, error) from error
        self._check_quotes(lines, table)
        names = table.column_names
        columns = [column.to_pylist() for column in table.columns]
        rows = [Row.of(dict(zip(names, values, strict=True))) for values in zip(*columns, strict=True)]
        try:
            return Batch(rows, timestamps_of(rows, self.timestamp, self.times.default(file)))
        except BadTimestamp as error:
            if not self.one_line_each:
                raise ValueError(f"row {error.index + 1}: {error}") from error
            full = [index for index, line in enumerate(lines.splitlines()) if line]
            raise BadLine(full[error.index], str(error)) from error

    def check_header(self, lines: bytes, file: Found) -> None:
        """Each file must have the columns of the first, in its order."""
        names = header_names(lines, self.delimiter)
        if names != self.columns:
            raise BadLine(
                0,
                f"the columns are {', '.join(names) or 'not there'}, but {', '.join(self.columns)} in the first file; "
                "read files with other columns apart",
            )

    def table(self, lines: bytes) -> pa.Table:
        """The fields of some lines."""
        return csv.read_csv(
            pa.BufferReader(lines),
            csv.ReadOptions(column_names=list(self.columns), use_threads=False, block_size=max(len(lines), 1)),
            csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=not self.one_line_each),
            csv.ConvertOptions(column_types=dict(self.types), include_columns=self.wanted, **null_options(self.nulls)),
        )

    def explained(self, lines: bytes, error: pa.ArrowInvalid) -> ValueError:
        """What is wrong, if possible with its line: Arrow does not say, so each is tried."""
        remedy = "; state the column's type with dtype" if "conversion" in str(error) else ""
        remedy = "; give its encoding" if "invalid UTF8" in str(error) else remedy
        for index, line in enumerate(lines.splitlines() if self.one_line_each else ()):
            if line.count(b'"') % 2:
                return BadLine(index, _OPEN)
            try:
                if line:
                    self.table(line)
            except pa.ArrowInvalid as reason:
                return BadLine(index, f"{_ROW.sub('', str(reason)).strip()}{remedy}")
        return ValueError(f"{error}{remedy}")

    def well_formed(self, lines: bytes) -> bytes:
        """Only those lines that are records, as far as fields go."""
        return b"".join(line for line in lines.splitlines(keepends=True) if self._is_record(line))

    def _is_record(self, line: bytes) -> bool:
        try:
            self.table(line)
        except pa.ArrowInvalid:
            return False
        return not line.count(b'"') % 2

    def _check_quotes(self, lines: bytes, table: pa.Table) -> None:
        """Refuse a quotation that goes on beyond its line, which Arrow takes for one field with all that follows."""
        whole = table.num_rows == lines.count(b"\n") + (not lines.endswith(b"\n"))
        if not self.one_line_each or (whole and not _ends_open(table)):
            return
        for index, line in enumerate(lines.splitlines()):
            if line.count(b'"') % 2:
                raise BadLine(index, _OPEN)


def null_options(nulls: tuple[str, ...] | None) -> dict[str, object]:
    """Arrow's options for texts that stand for no value."""
    return {} if nulls is None else {"null_values": list(nulls), "strings_can_be_null": True}


class ReadFromCsv(LineSource):
    """Rows of CSV files as `Row`s with a field for each column.

    Columns are named by the first line of each file, which must be the same in all of them, and have the types that the
    beginning of the first file suggests (whole numbers, numbers, dates, times, text); another type later on is an
    error that names file and line.

    Args:
        path: Which files; see `FileSource`.
        splittable: Whether every record is one line, so that a big file can be several tasks' work.
        sep: What stands between fields.
        names: Names of the columns, where the files have no line with them.
        usecols: Names of the columns to read; None for all.
        dtype: Types of columns that are not to be guessed: names of Arrow types (`"float64"`, `"string"`, …).
        na_values: Texts that stand for no value; by default those that Arrow knows (empty, `NA`, `null`, …).
        compression_type: One of `CompressionTypes`.
        encoding: As for `ReadFromText`.
        **options: `timestamp`, `max_delay`, `validate`, `continuous` and the others of `FileSource`.
    """

    def __init__(
        self,
        path: Path,
        *,
        splittable: bool = True,
        sep: str = ",",
        names: Sequence[str] | None = None,
        usecols: Sequence[str] | None = None,
        dtype: Mapping[str, str] | None = None,
        na_values: Sequence[str] | None = None,
        compression_type: str = CompressionTypes.AUTO,
        encoding: str = UTF_8,
        **options: Unpack[ReadOptions],
    ) -> None:
        super().__init__(path, compression_type, **options)
        self._path, self._encoding = fspath(path), checked_encoding(encoding)
        self._splittable, self._sep = splittable, sep
        self.one_line_each = splittable
        self._extent = Extent.LINE if splittable else Extent.QUOTED
        self._names = None if names is None else tuple(names)
        self._header = 0 if names else 1
        self._wanted = None if usecols is None else tuple(usecols)
        self._dtype = {name: _arrow_type(name, wanted) for name, wanted in (dtype or {}).items()}
        self._nulls = None if na_values is None else tuple(na_values)

    def file_format(self) -> LineFormat:
        """CSV, with columns and types as the first file has them."""
        columns, types = self._look()
        if unknown := [name for name in (*(self._wanted or ()), *self._dtype) if name not in columns]:
            raise ValueError(f"{self._path!r} has no column {unknown}; it has {list(columns)}")
        parser = self._parser(columns, types)
        return LineFormat(parser, self.compression, self._header, self._extent, self.bad_times, self._encoding)

    def _parser(self, columns: tuple[str, ...], types: Mapping[str, pa.DataType]) -> CsvParser:
        return CsvParser(
            columns, types, self._wanted, self._sep, self._nulls, self._splittable, self.timestamp, self.times
        )

    def _look(self) -> tuple[tuple[str, ...], dict[str, pa.DataType]]:
        """Names and types of the columns."""
        files = match(self._path)
        if not files:
            if self._names is None:
                raise FileNotFoundError(
                    f"no file matches {self._path!r} to take the columns from; give names and dtype"
                )
            return self._names, {name: self._dtype.get(name, pa.string()) for name in self._names}
        first = files[0]
        beginning = _Beginning()
        compression = compression_of(first.path, self.compression)
        how = (self._header, self._extent, None, self._encoding)
        next(LineRange(first, 0, None, beginning, compression, *how).read(), None)
        names = self._names or header_names(beginning.header, self._sep)
        if not names or len(set(names)) < len(names):
            found = f"columns named {', '.join(names)}" if names else "nothing"
            raise FileError(
                first, 1, f"{found}, where each column should have a name of its own; correct it, or give names"
            )
        return names, self._types(first, names, beginning.lines)

    def _types(self, file: Found, names: tuple[str, ...], sample: bytes) -> dict[str, pa.DataType]:
        """What the first records suggest, where nothing is stated."""
        guessed = dict.fromkeys(names, pa.string())
        if sample:
            parser = replace(self._parser(names, self._dtype), wanted=None)
            if self.bad_times is not None:
                sample = parser.well_formed(sample)
            try:
                guessed |= {field.name: _nullable(field.type) for field in parser.table(sample).schema}
            except pa.ArrowInvalid as error:
                wrong = parser.explained(sample, error)
                line = 1 + self._header + (wrong.index if isinstance(wrong, BadLine) else 0)
                raise FileError(file, line, wrong) from error
        return guessed | self._dtype


def _ends_open(table: pa.Table) -> bool:
    """Whether the last field has the end of its line in it."""
    last = table.column(table.num_columns - 1)
    return bool(len(last)) and str(last[-1].as_py()).endswith("\n")


@dataclass
class _Beginning:
    """A parser that only keeps what it is given."""

    header: bytes = b""
    lines: bytes = b""

    def parse(self, lines: bytes, file: Found) -> Batch:
        """See `LineParser`."""
        self.lines = lines
        return Batch([], [])

    def check_header(self, lines: bytes, file: Found) -> None:
        """See `LineParser`."""
        self.header = lines


def header_names(lines: bytes, delimiter: str) -> tuple[str, ...]:
    r"""Names of the columns.

    >>> header_names(b'id,"name, first"\n', ",")
    ('id', 'name, first')
    """
    return tuple(next(csv_lines(lines.decode(errors="replace").splitlines(), delimiter=delimiter), ()))


def _nullable(guessed: pa.DataType) -> pa.DataType:
    """The type of a column; one of which nothing was seen yet can hold any text. What is no text is not meant to be."""
    return pa.string() if pa.types.is_null(guessed) or pa.types.is_binary(guessed) else guessed


def _arrow_type(name: str, wanted: str) -> pa.DataType:
    try:
        return cast(pa.DataType, pa.type_for_alias(wanted))
    except (ValueError, AttributeError):
        known = "'int64', 'float64', 'string', 'bool' or another name of an Arrow type"
        raise ValueError(f"dtype of column {name!r} is {wanted!r}; use {known}") from None
