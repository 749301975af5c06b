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

from headrace.lowlevel.records.record import Batch
from headrace.sdk.io.files.file_source import ReadOptions
from headrace.sdk.io.files.file_times import FileTimes
from headrace.sdk.io.files.filesystem import CompressionTypes, MatchedFile, Path, compression_of, match
from headrace.sdk.io.text.line_ranges import (
    UTF_8,
    BadLine,
    FileError,
    LineFormat,
    LineRange,
    RecordEnd,
    checked_encoding,
)
from headrace.sdk.io.text.line_source import LineSource
from headrace.sdk.io.timestamps import BadTimestamp, TimestampOf, timestamps_of
from headrace.sdk.model.row import Row

_ROW = re.compile(r"Row #\d+: ")
_OPEN = "a quotation is not closed; if fields may have several lines, read with splittable=False"


@dataclass(frozen=True, slots=True)
class CsvParser:
    """Parses lines of fields as rows. All tasks use the same columns and types."""

    columns: tuple[str, ...]
    types: Mapping[str, pa.DataType]
    selected: tuple[str, ...] | None
    """Names of the columns to read; None for all."""
    delimiter: str
    nulls: tuple[str, ...] | None
    """Texts that stand for null values; None for Arrow's own."""
    one_line_each: bool
    """Whether every record is one line."""
    timestamp: TimestampOf
    times: FileTimes

    def parse(self, lines: bytes, file: MatchedFile) -> Batch:
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
            line_of_row = [index for index, line in enumerate(lines.splitlines()) if line]
            raise BadLine(line_of_row[error.index], str(error)) from error

    def check_header(self, lines: bytes, file: MatchedFile) -> None:
        """Raise `BadLine` unless a file has the columns of the first file, in the same order."""
        names = header_names(lines, self.delimiter)
        if names != self.columns:
            raise BadLine(
                0,
                f"the columns are {', '.join(names) or 'not there'}, but {', '.join(self.columns)} in the first file; "
                "read files with other columns apart",
            )

    def table(self, lines: bytes) -> pa.Table:
        """The selected fields of some lines. Raises `pyarrow.ArrowInvalid`."""
        return csv.read_csv(
            pa.BufferReader(lines),
            csv.ReadOptions(column_names=list(self.columns), use_threads=False, block_size=max(len(lines), 1)),
            csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=not self.one_line_each),
            csv.ConvertOptions(
                column_types=dict(self.types), include_columns=self.selected, **null_options(self.nulls)
            ),
        )

    def explained(self, lines: bytes, error: pa.ArrowInvalid) -> ValueError:
        """The error, with its line if possible; Arrow does not name it, so each line is parsed alone."""
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
        """The lines that can be parsed as records."""
        return b"".join(line for line in lines.splitlines(keepends=True) if self._is_record(line))

    def _is_record(self, line: bytes) -> bool:
        try:
            self.table(line)
        except pa.ArrowInvalid:
            return False
        return not line.count(b'"') % 2

    def _check_quotes(self, lines: bytes, table: pa.Table) -> None:
        """Raise `BadLine` for a quoted field that spans lines, as Arrow would read all text behind it as one field."""
        row_per_line = table.num_rows == lines.count(b"\n") + (not lines.endswith(b"\n"))
        if not self.one_line_each or (row_per_line and not _ends_open(table)):
            return
        for index, line in enumerate(lines.splitlines()):
            if line.count(b'"') % 2:
                raise BadLine(index, _OPEN)


def null_options(nulls: tuple[str, ...] | None) -> dict[str, object]:
    """Arrow's options for the texts of null values."""
    return {} if nulls is None else {"null_values": list(nulls), "strings_can_be_null": True}


class ReadFromCsv(LineSource):
    r"""Rows of CSV files as `Row`s with a field for each column.

    The first line of each file names the columns, and must be the same in all files. Types (whole numbers, numbers,
    dates, times, text) are inferred from the beginning of the first file; a later value of another type is an error
    that names file and line.

    Args:
        path: Which files; see `FileSource`.
        splittable: Whether every record is one line, so that several tasks can read one file.
        sep: The delimiter between fields.
        names: Names of the columns, for files without a line of names.
        usecols: Names of the columns to read; None for all.
        dtype: Types of columns that are not inferred: names of Arrow types (`"float64"`, `"string"`, …).
        na_values: Texts that stand for null; by default those of Arrow (empty, `NA`, `null`, …).
        compression_type: One of `CompressionTypes`.
        encoding: As for `ReadFromText`.
        **options: `timestamp`, `max_delay`, `validate`, `continuous` and the others of `FileSource`.

    >>> import headrace as beam
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(folder, "sales.csv").write_text("item,count\ntea,3\n")
    ...     with beam.Pipeline("LocalRunner") as pipeline:
    ...         sales = pipeline | beam.io.ReadFromCsv(f"{folder}/*.csv")
    ...         _ = sales | beam.Map(lambda sale: print(sale.item, sale.count))
    tea 3
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
        self._extent = RecordEnd.LINE if splittable else RecordEnd.QUOTED
        self._names = None if names is None else tuple(names)
        self._header = 0 if names else 1
        self._selected = None if usecols is None else tuple(usecols)
        self._dtype = {name: _arrow_type(name, alias) for name, alias in (dtype or {}).items()}
        self._nulls = None if na_values is None else tuple(na_values)

    def file_format(self) -> LineFormat:
        """CSV, with the columns and types of the first file."""
        columns, types = self._schema()
        if unknown := [name for name in (*(self._selected or ()), *self._dtype) if name not in columns]:
            raise ValueError(f"{self._path!r} has no column {unknown}; it has {list(columns)}")
        parser = self._parser(columns, types)
        return LineFormat(parser, self.compression, self._header, self._extent, self.bad_times, self._encoding)

    def _parser(self, columns: tuple[str, ...], types: Mapping[str, pa.DataType]) -> CsvParser:
        return CsvParser(
            columns, types, self._selected, self._sep, self._nulls, self._splittable, self.timestamp, self.times
        )

    def _schema(self) -> tuple[tuple[str, ...], dict[str, pa.DataType]]:
        """Names and types of the columns, from the first file."""
        files = match(self._path)
        if not files:
            if self._names is None:
                raise FileNotFoundError(
                    f"no file matches {self._path!r} to take the columns from; give names and dtype"
                )
            return self._names, {name: self._dtype.get(name, pa.string()) for name in self._names}
        first = files[0]
        sample = _Sample()
        compression = compression_of(first.path, self.compression)
        settings = (self._header, self._extent, None, self._encoding)
        next(LineRange(first, 0, None, sample, compression, *settings).read(), None)
        names = self._names or header_names(sample.header, self._sep)
        if not names or len(set(names)) < len(names):
            found = f"columns named {', '.join(names)}" if names else "nothing"
            raise FileError(
                first, 1, f"{found}, where each column should have a name of its own; correct it, or give names"
            )
        return names, self._types(first, names, sample.lines)

    def _types(self, file: MatchedFile, names: tuple[str, ...], sample: bytes) -> dict[str, pa.DataType]:
        """Names and types of the columns; types that are not stated are inferred from the first records."""
        inferred = dict.fromkeys(names, pa.string())
        if sample:
            parser = replace(self._parser(names, self._dtype), selected=None)
            if self.bad_times is not None:
                sample = parser.well_formed(sample)
            try:
                inferred |= {field.name: _nullable(field.type) for field in parser.table(sample).schema}
            except pa.ArrowInvalid as error:
                explained = parser.explained(sample, error)
                line = 1 + self._header + (explained.index if isinstance(explained, BadLine) else 0)
                raise FileError(file, line, explained) from error
        return inferred | self._dtype


def _ends_open(table: pa.Table) -> bool:
    """Whether the last field contains the end of its line."""
    last = table.column(table.num_columns - 1)
    return bool(len(last)) and str(last[-1].as_py()).endswith("\n")


@dataclass
class _Sample:
    """A parser that keeps the lines that it gets."""

    header: bytes = b""
    lines: bytes = b""

    def parse(self, lines: bytes, file: MatchedFile) -> Batch:
        """See `LineParser`."""
        self.lines = lines
        return Batch([], [])

    def check_header(self, lines: bytes, file: MatchedFile) -> None:
        """See `LineParser`."""
        self.header = lines


def header_names(lines: bytes, delimiter: str) -> tuple[str, ...]:
    r"""The names of the columns, from the first line; empty without a line.

    >>> header_names(b'id,"name, first"\n', ",")
    ('id', 'name, first')
    """
    return tuple(next(csv_lines(lines.decode(errors="replace").splitlines(), delimiter=delimiter), ()))


def _nullable(inferred: pa.DataType) -> pa.DataType:
    """The type of a column; text if all values of the sample are null or not UTF-8."""
    return pa.string() if pa.types.is_null(inferred) or pa.types.is_binary(inferred) else inferred


def _arrow_type(name: str, alias: str) -> pa.DataType:
    try:
        return cast(pa.DataType, pa.type_for_alias(alias))
    except (ValueError, AttributeError):
        known = "'int64', 'float64', 'string', 'bool' or another name of an Arrow type"
        raise ValueError(f"dtype of column {name!r} is {alias!r}; use {known}") from None
