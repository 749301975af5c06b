"""CSV: rows with the fields that the header names (`apache_beam.io.ReadFromCsv`)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from csv import reader as csv_lines
from dataclasses import dataclass, replace
from datetime import date, datetime
from io import BytesIO, StringIO
from typing import Literal, TypeAlias, Unpack, cast

import numpy as np
import pyarrow as pa
from pyarrow import csv

from headrace.lowlevel.records.column_batch import ColumnBatch, Times
from headrace.lowlevel.records.record import Batch
from headrace.sdk.expressions.element_schema import shape_of_rows, times_of
from headrace.sdk.io.files.file_source import ReadOptions
from headrace.sdk.io.files.file_times import FileTimes
from headrace.sdk.io.files.filesystem import CompressionTypes, MatchedFile, Path, compression_of, match
from headrace.sdk.io.files.pieces import shown_by_first
from headrace.sdk.io.text.line_ranges import (
    OTHER_ENCODING,
    SET_ASIDE,
    UTF_8,
    BadLine,
    FileError,
    LineFormat,
    LineParser,
    LineRange,
    LineSource,
    RecordEnd,
    checked_encoding,
)
from headrace.sdk.io.timestamps import BadTimestamp, TimestampOf, timestamps_of
from headrace.sdk.model.row import Row

ColumnType: TypeAlias = str | type | pa.DataType
"""How a program states the type of a column: an Arrow type, its name, or a class of Python."""

_ROW = re.compile(r"Row #\d+: ")
_COLUMN = re.compile(r"In CSV column #(\d+): ")
_ZONED = re.compile(r"timestamp\[(\w+), tz=(.*)\]")
_DECIMAL = re.compile(r"decimal(128|256)\((\d+), ?(-?\d+)\)")
_OPEN = "a quotation is not closed; if fields may have several lines, read with splittable=False"


@dataclass(frozen=True, slots=True)
class CsvParser(LineParser):
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
    skip: int = 0
    """Number of lines in front of the line of names."""
    header: tuple[str, ...] | None = None
    """Names in the first line of each file; None if no line has them."""
    origin: str = ""
    """Path of the file from which types were inferred."""
    quoted_nulls: bool = True
    """Whether a text between quotation marks may stand for null."""

    def parse(self, lines: bytes, file: MatchedFile) -> Batch:
        """See `LineParser`."""
        try:
            table = self.table(lines)
        except pa.ArrowInvalid as error:
            raise self.explained(lines, error) from error
        self._check_quotes(lines, table)
        if (batch := self._columns(table, file)) is not None:
            return batch
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
        if self.header is None:
            return
        check_text(lines)
        names = header_names(lines, self.delimiter, self.skip)
        if names != self.header:
            raise BadLine(
                self.skip,
                f"the columns are {', '.join(names) or 'not there'}, but {', '.join(self.header)} in the first file"
                f"{self.origin and f', {self.origin}'}; read files with other columns apart",
            )

    def _columns(self, table: pa.Table, file: MatchedFile) -> ColumnBatch | None:
        """The rows as columns; None unless these are certain to give the same values and event times."""
        parts = table.combine_chunks().to_batches()
        shape = shape_of_rows(parts[0], as_rows=True) if len(parts) == 1 else None
        if shape is None:
            return None
        if self.timestamp is None:
            times: Times | None = np.full(table.num_rows, self.times.default(file), np.int64)
        elif isinstance(self.timestamp, str) and self.timestamp in shape.names:
            times = times_of(parts[0].column(self.timestamp))
        else:
            return None
        return None if times is None else ColumnBatch(parts[0], times, shape)

    def table(self, lines: bytes) -> pa.Table:
        """The selected fields of some lines. Raises `pyarrow.ArrowInvalid`."""
        return csv.read_csv(
            pa.BufferReader(lines),
            csv.ReadOptions(column_names=list(self.columns), use_threads=False, block_size=max(len(lines), 1)),
            csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=not self.one_line_each),
            csv.ConvertOptions(
                column_types=dict(self.types),
                include_columns=self.selected,
                **null_options(self.nulls, self.quoted_nulls),
            ),
        )

    def explained(self, lines: bytes, error: pa.ArrowInvalid) -> ValueError:
        """The error, with its line if possible; Arrow does not name it, so each line is parsed alone."""
        remedy = ""
        if "conversion" in str(error):
            inferred = f" (without it the types are those of {self.origin})" if self.origin else ""
            remedy = f"; state the column's type with dtype{inferred}"
        remedy = f"; {OTHER_ENCODING}" if "invalid UTF8" in str(error) else remedy or f"; {SET_ASIDE}"
        for index, line in enumerate(lines.splitlines() if self.one_line_each else ()):
            if line.count(b'"') % 2:
                return BadLine(index, _OPEN)
            try:
                if line:
                    self.table(line)
            except pa.ArrowInvalid as reason:
                return BadLine(index, f"{self._named(_ROW.sub('', str(reason)).strip())}{remedy}")
        return ValueError(f"{self._named(str(error))}{remedy}")

    def _named(self, reason: str) -> str:
        """A message of Arrow with the name of the column instead of its number."""
        found = _COLUMN.match(reason)
        return reason if found is None else f"column {self.columns[int(found[1])]!r}: {reason[found.end() :]}"

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


def null_options(nulls: tuple[str, ...] | None, quoted: bool = True) -> dict[str, object]:
    """Arrow's options for the texts of null values, and whether these may be quoted."""
    told: dict[str, object] = {} if quoted else {"quoted_strings_can_be_null": False}
    return told if nulls is None else {**told, "null_values": list(nulls), "strings_can_be_null": True}


_TYPES: dict[object, str] = {
    **{str: "string", int: "int64", float: "float64", bool: "bool", object: "string"},
    **{date: "date32", datetime: "timestamp[us]"},
    **{"str": "string", "int": "int64", "float": "float64", "object": "string", "Int64": "int64", "boolean": "bool"},
    **{"datetime64[ns]": "timestamp[ns]", "datetime64[us]": "timestamp[us]", "datetime64[s]": "timestamp[s]"},
}
"""Types as pandas and Python call them -> names of Arrow types."""
_WHOLE = re.compile(r"[+-]?[0-9]+")
_QUOTED = re.compile('"[^"]*"?')
_INSTEAD = {
    "comment": "leave such lines out where the files are written, or read with ReadFromText, filter and parse",
    "parse_dates": "dates and times are inferred; state another type with dtype, such as {'at': 'timestamp[us]'}",
    "escapechar": 'a quotation mark within a quoted field is written twice (""); read other files with ReadFromText',
    "quotechar": "fields are quoted with double quotation marks",
    "index_col": "rows have no index; each column is a field",
    "nrows": "filter the rows, or take some with beam.combiners.Sample",
    "chunksize": "the engine chooses how much a task reads",
    "converters": "convert the fields with a Map behind the source",
    "filename_column": "read with ReadFromTextWithFilename and parse the lines",
    "skipfooter": "leave the last lines out where the files are written",
    "keep_default_na": "give na_values, which replaces the default texts",
    "compression": "give compression_type",
    "on_bad_lines": "use with_exception_handling() of the source",
    "error_bad_lines": "use with_exception_handling() of the source",
}
"""Arguments of pandas that the source does not take -> what to do instead."""


@dataclass(frozen=True, slots=True)
class CsvFormat:
    """CSV with the columns and types of the first file; see `InferringFormat`."""

    parser: CsvParser
    """The parser, of which columns and types are what the program states."""
    names: tuple[str, ...] | None
    """Names that the program states."""
    every: pa.DataType | None
    """The type that the program states for all columns."""
    compression: str
    has_header: bool
    extent: RecordEnd
    bad_times: FileTimes | None
    encoding: str

    @property
    def _skipped(self) -> int:
        return self.parser.skip + self.has_header

    def infer(self, first: MatchedFile) -> object:
        """Names of the columns, their types, and the names in the first line; the path of the file."""
        sample = _FirstLines()
        compression = compression_of(first.path, self.compression)
        settings = (self._skipped, self.extent, None, self.encoding)
        next(LineRange(first, 0, None, sample, compression, *settings).read(), None)
        header = header_names(sample.header, self.parser.delimiter, self.parser.skip) if self.has_header else None
        names = self.names or header
        if not names or len(set(names)) < len(names):
            found = f"columns named {', '.join(names)}" if names else "nothing"
            raise FileError(
                first,
                self._skipped or 1,
                f"{found}, where each column should have a name of its own; correct it, or give names",
            )
        if header is None and header_names(sample.lines, self.parser.delimiter, 0) == names:
            raise FileError(
                first,
                self._skipped + 1,
                f"the names {', '.join(names)} themselves, which would become a record; leave names out, or give "
                "header=0 with them",
            )
        types = self._types(first, names, sample.lines)
        return names, tuple(str(types[name]) for name in names) if types else (), header, first.path

    def is_settled(self, inferred: object) -> bool:
        """Whether the types are known: those of a file without records are not."""
        _, texts, _, _ = cast("tuple[object, tuple[str, ...], object, object]", inferred)
        return bool(texts)

    def inferred(self, inferred: object) -> LineFormat:
        """Lines of CSV. Raises `ValueError` for a stated column that is not there."""
        columns, texts, header, origin = cast(
            "tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...] | None, str]", inferred
        )
        if self.names is not None and self.names != columns and len(self.names) == len(columns):
            columns = self.names
        parser = self.parser
        if unknown := [name for name in (*(parser.selected or ()), *parser.types) if name not in columns]:
            raise ValueError(f"{origin!r} has no column {unknown}; it has {list(columns)}")
        stated = {**(dict.fromkeys(columns, self.every) if self.every else {}), **parser.types}
        texts = texts or ("string",) * len(columns)
        types = {name: _type_of(text) for name, text in zip(columns, texts, strict=True)} | stated
        header = header if self.has_header else None
        ready = replace(parser, columns=columns, types=types, header=header, origin=origin)
        return LineFormat(ready, self.compression, self._skipped, self.extent, self.bad_times, self.encoding)

    def _types(self, file: MatchedFile, names: tuple[str, ...], sample: bytes) -> dict[str, pa.DataType]:
        """Types of the columns; those that are not stated are inferred; none if the file has no records."""
        inferred = dict.fromkeys(names, self.every or pa.string())
        stated = {name: kind for name, kind in self.parser.types.items() if name in names}
        if self.every is None and not stated.keys() >= set(names):
            parser = replace(self.parser, columns=names, types=stated, selected=None)
            if self.bad_times is not None:
                sample = parser.well_formed(sample)
            if not sample.strip():
                return {}
            try:
                table = parser.table(sample)
                inferred |= {field.name: _nullable(field.type) for field in table.schema}
                inferred |= _of_long_numbers(parser, sample, table)
            except pa.ArrowInvalid as error:
                explained = parser.explained(sample, error)
                line = 1 + self._skipped + (explained.index if isinstance(explained, BadLine) else 0)
                raise FileError(file, line, explained) from error
        return inferred | stated


class ReadFromCsv(LineSource):
    r"""Rows of CSV files as `Row`s with a field for each column.

    The first line of each file names the columns, and must be the same in all files. Types (whole numbers, numbers,
    dates, times, text) are inferred from the beginning of the first file that has records; a later value of another
    type is an error that names file, line and column. Names and types are part of the checkpoint: a restart goes on
    with them, whatever files are there then.

    Args:
        path: Which files; see `FileSource`.
        splittable: Whether every record is one line, so that several tasks can read one file.
        sep: The delimiter between fields.
        names: Names of the columns, for files without a line of names; with `header=0` they replace that line.
        usecols: Names of the columns to read; None for all.
        dtype: Types of columns that are not inferred, by name, or one type for all columns: Arrow types or their
            names (`pa.decimal128(12, 2)`, `"decimal128(12, 2)"`, `"float64"`, …), or Python's `str`, `int`, `float`,
            `bool`, `date` and `datetime`.
        na_values: Texts that stand for null in all columns. By default those of Arrow (empty, `NA`, `null`, …) do so in
            columns of numbers, dates and times, and columns of text keep them as text.
        quoted_strings_can_be_null: Whether such a text may stand between quotation marks. With `na_values=[""]` and
            False, nulls and empty texts that `WriteToCsv` has written are read as what they were.
        compression_type: One of `CompressionTypes`.
        encoding: As for `ReadFromText`.
        delimiter: Another name of `sep`.
        header: 0 if the first line has names, None if no line has; by default None if there are `names`.
        skiprows: Number of lines at the beginning of each file to leave out.
        **options: `timestamp`, `max_delay`, `validate`, `continuous` and the others of `FileSource`.

    Raises:
        TypeError: An argument of pandas that is not supported; the message says what to do instead.

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

    record_format = "CSV"

    def __init__(
        self,
        path: Path,
        *,
        splittable: bool = True,
        sep: str = ",",
        names: Sequence[str] | None = None,
        usecols: Sequence[str] | None = None,
        dtype: Mapping[str, ColumnType] | ColumnType | None = None,
        na_values: Sequence[str] | None = None,
        quoted_strings_can_be_null: bool = True,
        compression_type: str = CompressionTypes.AUTO,
        encoding: str = UTF_8,
        delimiter: str | None = None,
        header: int | Literal["infer"] | None = "infer",
        skiprows: int = 0,
        **options: Unpack[ReadOptions],
    ) -> None:
        for name in _INSTEAD.keys() & options.keys():
            raise TypeError(f"ReadFromCsv has no {name}: {_INSTEAD[name]}")
        super().__init__(path, compression_type, **options)
        if header not in ("infer", 0, None) or header is False:
            raise ValueError(f"header is {header!r:.200}; give 0 if the first line has names, None if no line has")
        if type(skiprows) is not int or skiprows < 0:
            raise TypeError(f"skiprows is a number of lines at the beginning of a file, got {skiprows!r:.200}")
        if header is None and names is None:
            raise ValueError("header is None, so that no line has the names of the columns; give names")
        self._encoding = checked_encoding(encoding)
        self._splittable, self._sep, self._skip = splittable, _checked_separator(delimiter or sep), skiprows
        self.one_line_each = splittable
        self._names = None if names is None else tuple(names)
        self._has_header = header == 0 if header != "infer" else not names
        self._selected = None if usecols is None else tuple(usecols)
        by_name = dtype if isinstance(dtype, Mapping) else {}
        self._dtype = {name: _arrow_type(f"of column {name!r} ", alias) for name, alias in by_name.items()}
        self._every = None if dtype is None or by_name or dtype == {} else _arrow_type("", dtype)
        self._nulls = None if na_values is None else tuple(na_values)
        if type(quoted_strings_can_be_null) is not bool:
            raise TypeError(f"quoted_strings_can_be_null is True or False, got {quoted_strings_can_be_null!r:.200}")
        self._quoted_nulls = quoted_strings_can_be_null

    def arrow_schema(self) -> pa.Schema | None:
        """See `Source`: the columns and types of the first file."""
        format_ = self.file_format()
        try:
            inferred = shown_by_first(format_, match(self.pattern))
            if inferred is None or not format_.is_settled(inferred):
                return None
            parser = cast(CsvParser, format_.inferred(inferred).parser)
        except (ValueError, OSError):
            # Whoever reads the file says so.
            return None
        names = parser.columns if parser.selected is None else parser.selected
        return pa.schema([(name, parser.types[name]) for name in names])

    def file_format(self) -> CsvFormat:
        """CSV, with the columns and types of the first file."""
        stated = (self._names or (), self._dtype, self._selected, self._sep, self._nulls, self._splittable)
        return CsvFormat(
            CsvParser(*stated, self.timestamp, self.times, self._skip, quoted_nulls=self._quoted_nulls),
            self._names,
            self._every,
            self.compression,
            self._has_header,
            RecordEnd.LINE if self._splittable else RecordEnd.QUOTED,
            self.bad_times,
            self._encoding,
        )


def _checked_separator(sep: str) -> str:
    """The separator. Raises `ValueError` unless it is one ASCII character, as Arrow needs it."""
    if len(str(sep)) != 1 or not str(sep).isascii():
        raise ValueError(f"sep is {sep!r:.80}; give one ASCII character, such as ';' or '\\t'")
    return sep


def _ends_open(table: pa.Table) -> bool:
    """Whether the last field contains the end of its line."""
    last = table.column(table.num_columns - 1)
    return bool(len(last)) and str(last[-1].as_py()).endswith("\n")


@dataclass
class _FirstLines(LineParser):
    """A parser that keeps the lines that it gets."""

    header: bytes = b""
    lines: bytes = b""

    def parse(self, lines: bytes, file: MatchedFile) -> Batch:
        """See `LineParser`."""
        self.lines = lines
        return Batch([], [])

    def check_header(self, lines: bytes, file: MatchedFile) -> None:
        """See `LineParser`."""
        check_text(lines)
        self.header = lines


def check_text(header: bytes) -> None:
    r"""Raise `BadLine` for the first lines of a file whose other lines, or the names in them, would not be found.

    >>> check_text(b'id,"first\rname"\r\n')
    >>> check_text(b"id,name\r1,tea\r2,jam\r")
    Traceback (most recent call last):
      ...
    headrace.sdk.io.text.line_ranges.BadLine: its lines end with CR (\r) alone, so that it is one line; ...
    """
    for index, line in enumerate(header.split(b"\n")):
        if b"\0" in line:
            raise BadLine(index, "it has zero bytes, as UTF-16 has; write the file as UTF-8")
        try:
            text = line.decode()
        except UnicodeDecodeError as error:
            raise BadLine(
                index, f"not UTF-8 text ({error.reason}); {OTHER_ENCODING}, or write UTF-16 as UTF-8"
            ) from None
        if "\r" in _QUOTED.sub("", text).removesuffix("\r"):
            raise BadLine(index, "its lines end with CR (\\r) alone, so that it is one line; write LF or CR LF instead")


def header_names(lines: bytes, delimiter: str, skip: int = 0) -> tuple[str, ...]:
    r"""The names of the columns, from the first line behind `skip` others; empty without a line.

    >>> header_names(b'id,"name, first"\n', ",")
    ('id', 'name, first')
    """
    text = b"\n".join(lines.split(b"\n")[skip:]).decode(errors="replace")
    return tuple(next(csv_lines(StringIO(text, newline=""), delimiter=delimiter), ()))


def _of_long_numbers(parser: CsvParser, sample: bytes, table: pa.Table) -> dict[str, pa.DataType]:
    """Types of the columns that Arrow takes for fractions because a whole number in them has more than 64 bits."""
    names = [field.name for field in table.schema if pa.types.is_float64(field.type) and field.name not in parser.types]
    if not names:
        return {}
    # Texts that stand for nulls are nulls then, too.
    nulls = parser.nulls or tuple(csv.ConvertOptions().null_values)
    texts = replace(parser, types=dict.fromkeys(names, pa.string()), selected=tuple(names), nulls=nulls).table(sample)
    found: dict[str, pa.DataType] = {}
    for name, column in zip(names, texts.columns, strict=True):
        numbers = [text.strip() for text in column.to_pylist() if text is not None]
        if numbers and all(map(_WHOLE.fullmatch, numbers)):
            fits = all(number.isdigit() and int(number) < 1 << 64 for number in numbers)
            found[name] = pa.uint64() if fits else pa.string()
    return found


def _nullable(inferred: pa.DataType) -> pa.DataType:
    """The type of a column; text if all values of the sample are null or not UTF-8."""
    return pa.string() if pa.types.is_null(inferred) or pa.types.is_binary(inferred) else inferred


def _type_of(text: str) -> pa.DataType:
    """The Arrow type whose text this is.

    >>> _type_of("timestamp[ns, tz=UTC]"), _type_of("decimal128(12, 2)")
    (TimestampType(timestamp[ns, tz=UTC]), Decimal128Type(decimal128(12, 2)))
    """
    if zoned := _ZONED.fullmatch(text):
        return pa.timestamp(zoned[1], zoned[2])
    if decimal := _DECIMAL.fullmatch(text):
        return (pa.decimal128 if decimal[1] == "128" else pa.decimal256)(int(decimal[2]), int(decimal[3]))
    return cast(pa.DataType, pa.type_for_alias(text))


def _arrow_type(column: str, stated: object) -> pa.DataType:
    try:
        kind = stated if isinstance(stated, pa.DataType) else _type_of(cast(str, _TYPES.get(stated, stated)))
        # Arrow says so for types that no field of text can have, such as lists.
        csv.read_csv(BytesIO(b"a\n"), convert_options=csv.ConvertOptions(column_types={"a": kind}))
    except (ValueError, AttributeError, TypeError, pa.ArrowNotImplementedError):
        names = "'int64', 'float64', 'string', 'date32', 'timestamp[us]', 'decimal128(12, 2)'"
        raise ValueError(
            f"dtype {column}is {stated!r:.200}; use the name of an Arrow type of single values ({names}), such a type "
            "of pyarrow, or str, int, float, bool, date or datetime"
        ) from None
    return kind
