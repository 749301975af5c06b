"""CSV: rows with the fields that the header names (`apache_beam.io.ReadFromCsv`)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import fspath
from typing import Unpack, cast

import pyarrow as pa
from pyarrow import csv

from headrace.lowlevel.record import Batch
from headrace.sdk.io.files import CompressionTypes, Found, Path, compression_of, match, open_input
from headrace.sdk.io.filesource import FileSource, FileTimes
from headrace.sdk.io.lines import BadLine, LineFormat
from headrace.sdk.io.reading import ReadOptions
from headrace.sdk.io.timestamps import TimestampOf, timestamps_of
from headrace.sdk.row import Row

_ROW = re.compile(r"Row #\d+: ")
_SAMPLE = 1 << 20
"""Bytes of the first file from which the types of its columns are told."""


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
            table = self._table(lines)
        except pa.ArrowInvalid as error:
            raise self._explained(lines, error) from error
        names = table.column_names
        columns = [column.to_pylist() for column in table.columns]
        rows = [Row.of(dict(zip(names, values, strict=True))) for values in zip(*columns, strict=True)]
        return Batch(rows, timestamps_of(rows, self.timestamp, self.times.default(file)))

    def _table(self, lines: bytes) -> pa.Table:
        return csv.read_csv(
            pa.BufferReader(lines),
            csv.ReadOptions(column_names=list(self.columns), use_threads=False, block_size=max(len(lines), 1)),
            csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=not self.one_line_each),
            csv.ConvertOptions(column_types=dict(self.types), include_columns=self.wanted, **null_options(self.nulls)),
        )

    def _explained(self, lines: bytes, error: pa.ArrowInvalid) -> ValueError:
        """Arrow does not say which line is wrong, so each is tried."""
        remedy = "; state the column's type with dtype" if "conversion" in str(error) else ""
        for index, line in enumerate(lines.splitlines() if self.one_line_each else ()):
            try:
                self._table(line)
            except pa.ArrowInvalid as reason:
                return BadLine(index, f"{_ROW.sub('', str(reason)).strip()}{remedy}")
        return ValueError(f"{error}{remedy}")


def null_options(nulls: tuple[str, ...] | None) -> dict[str, object]:
    """Arrow's options for texts that stand for no value."""
    return {} if nulls is None else {"null_values": list(nulls), "strings_can_be_null": True}


class ReadFromCsv(FileSource):
    """Rows of CSV files as `Row`s with a field for each column.

    Columns are named by the first line of each file, and have the types that the beginning of the first file suggests
    (whole numbers, numbers, dates, times, text); another type later on is an error that names file and line.

    Args:
        path: Which files; see `FileSource`.
        splittable: Whether every record is one line, so that a big file can be several tasks' work.
        sep: What stands between fields.
        names: Names of the columns, where the files have no line with them.
        usecols: Names of the columns to read; None for all.
        dtype: Types of columns that are not to be guessed: names of Arrow types (`"float64"`, `"string"`, …).
        na_values: Texts that stand for no value; by default those that Arrow knows (empty, `NA`, `null`, …).
        compression_type: One of `CompressionTypes`.
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
        **options: Unpack[ReadOptions],
    ) -> None:
        super().__init__(path, compression_type, **options)
        self._path = fspath(path)
        self._splittable, self._sep = splittable, sep
        self._names = None if names is None else tuple(names)
        self._wanted = None if usecols is None else tuple(usecols)
        self._dtype = {name: _arrow_type(name, wanted) for name, wanted in (dtype or {}).items()}
        self._nulls = None if na_values is None else tuple(na_values)

    def file_format(self) -> LineFormat:
        """CSV, with columns and types as the first file has them."""
        columns, types = self._look()
        if unknown := [name for name in (*(self._wanted or ()), *self._dtype) if name not in columns]:
            raise ValueError(f"{self._path!r} has no column {unknown}; it has {list(columns)}")
        parser = CsvParser(
            columns, types, self._wanted, self._sep, self._nulls, self._splittable, self.timestamp, self.times
        )
        return LineFormat(parser, self.compression, 0 if self._names else 1, self._splittable)

    def _look(self) -> tuple[tuple[str, ...], dict[str, pa.DataType]]:
        """Names and types of the columns."""
        files = match(self._path)
        if not files:
            if self._names is None:
                raise FileNotFoundError(
                    f"no file matches {self._path!r} to take the columns from; give names and dtype"
                )
            return self._names, {name: self._dtype.get(name, pa.string()) for name in self._names}
        with open_input(files[0].path, compression_of(files[0].path, self.compression)) as file:
            sample = file.read(_SAMPLE) + file.readline()
        table = csv.read_csv(
            pa.BufferReader(sample),
            csv.ReadOptions(column_names=self._names, use_threads=False, block_size=len(sample) or 1),
            csv.ParseOptions(delimiter=self._sep, newlines_in_values=not self._splittable),
            csv.ConvertOptions(column_types=self._dtype, **null_options(self._nulls)),
        )
        types = {field.name: _nullable(field.type) for field in table.schema}
        return tuple(table.column_names), types


def _nullable(guessed: pa.DataType) -> pa.DataType:
    """The type of a column; one of which nothing was seen yet can hold any text."""
    return pa.string() if pa.types.is_null(guessed) else guessed


def _arrow_type(name: str, wanted: str) -> pa.DataType:
    try:
        return cast(pa.DataType, pa.type_for_alias(wanted))
    except ValueError:
        known = "'int64', 'float64', 'string', 'bool' or another name of an Arrow type"
        raise ValueError(f"dtype of column {name!r} is {wanted!r}; use {known}") from None
