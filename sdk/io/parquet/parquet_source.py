"""Parquet: rows as dicts or `Row`s (`apache_beam.io.parquetio`)."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self, Unpack, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from headrace.lowlevel.columns import ColumnBatch, Times
from headrace.lowlevel.injector import Split
from headrace.lowlevel.record import Batch
from headrace.lowlevel.time import END_OF_GLOBAL_WINDOW, MIN_TIMESTAMP
from headrace.sdk.columns.reading import shape_of_rows, times_of
from headrace.sdk.io.apart import ReadApart, halves
from headrace.sdk.io.columns import to_dicts, to_list, to_rows
from headrace.sdk.io.files import Found, Path, filesystem_of
from headrace.sdk.io.filesource import BATCH, FileSource
from headrace.sdk.io.filetimes import FileTimes
from headrace.sdk.io.foldercolumns import FolderColumns, added, below
from headrace.sdk.io.reading import OtherReadOptions
from headrace.sdk.io.timestamps import BadTimestamp, TimestampOf, check_range, timestamps_of

_MOST_ROWS = 50_000
_MOST_VALUES = 500_000


class FileRow(NamedTuple):
    """A row of a file whose event time cannot be told."""

    path: str
    row: int
    """Its number, from 0."""
    fields: dict[str, object]
    """By the names of columns."""


@dataclass(frozen=True, slots=True)
class ParquetFormat:
    """Cuts by rows; a task opens only the row groups that its rows are in."""

    columns: tuple[str, ...] | None
    as_rows: bool
    timestamp: TimestampOf
    times: FileTimes
    folders: FolderColumns
    tolerant: bool = False
    """Whether rows whose event time cannot be told are set apart."""

    def cut(self, file: Found, offset: int, records: int) -> tuple[Split, int, int | None]:
        """See `FileFormat`. Offsets are numbers of rows."""
        system, path = filesystem_of(file.path)
        try:
            rows = pq.read_metadata(path, filesystem=system).num_rows
        except Exception as error:
            raise ValueError(f"{file.path} is no whole Parquet file ({error})") from error
        stop = min(offset + records, rows)
        return RowRange(file, offset, stop, self), stop - offset, None if stop >= rows else stop

    def batch(self, table: pa.RecordBatch, file: Found) -> Batch:
        """The elements of some rows, as columns if that is certain to come to the same."""
        fields = table if self.columns is None else table.select(list(self.columns))
        shape = shape_of_rows(fields, self.as_rows)
        if shape is None:
            elements = to_rows(fields) if self.as_rows else to_dicts(fields)
            return Batch(elements, self._timestamps(table, elements, file))
        times = self._times(table, file)
        if times is not None and _in_time(times):
            return ColumnBatch(fields, times, shape)
        elements = shape.values(fields)
        batch = ColumnBatch(fields, np.array(self._timestamps(table, elements, file), np.int64), shape)
        batch.values = elements
        return batch

    def _times(self, table: pa.RecordBatch, file: Found) -> Times | None:
        """The event times without a look at the elements; None if that cannot be."""
        if self.timestamp is None:
            return np.full(table.num_rows, self.times.default(file), np.int64)
        if isinstance(self.timestamp, str) and self.timestamp in table.schema.names:
            return times_of(table.column(self.timestamp))
        return None

    def _timestamps(self, table: pa.RecordBatch, elements: Sequence[object], file: Found) -> list[int]:
        if isinstance(self.timestamp, str) and self.timestamp in table.schema.names:
            column = table.column(self.timestamp)
            if pa.types.is_timestamp(column.type) and (times := times_of(column)) is not None:
                micros = cast(list[int], times.tolist())
                check_range(micros, elements)
                return micros
            if self.columns is not None and self.timestamp not in self.columns:
                return timestamps_of(to_list(column), _itself)
        return timestamps_of(elements, self.timestamp, self.times.default(file))


def _in_time(times: Times) -> bool:
    return not len(times) or bool(times.min() >= MIN_TIMESTAMP and times.max() < END_OF_GLOBAL_WINDOW)


def _rows_at_once(columns: Sequence[str]) -> int:
    """How many rows are read at once: columns pay with many, but rows of many fields take room once they are dicts."""
    return max(BATCH, min(_MOST_ROWS, _MOST_VALUES // max(1, len(columns))))


def _itself(value: object) -> object:
    return value


@dataclass(frozen=True, slots=True)
class RowRange:
    """Rows `start` to before `stop` of a file."""

    file: Found
    start: int
    stop: int
    format: ParquetFormat

    def count_records(self) -> int:
        """See `SizedSplit`."""
        return self.stop - self.start

    def read(self) -> Iterator[Batch]:
        """Their records. Raises `ValueError` naming file and row (from 0)."""
        at = self.start
        tables = self._tables()
        while True:
            try:
                table = next(tables, None)
            except Exception as error:
                raise ValueError(f"{self.file.path}, cannot be read from row {at} on: {error}") from error
            if table is None:
                break
            if self.format.tolerant:
                yield from self._apart(table, at)
            else:
                yield self._batch(table, at)
            at += table.num_rows
        if at < self.stop:
            raise ValueError(
                f"{self.file.path} has no row {at}; it had when it was cut into tasks. "
                "Files must not change while they are read"
            )

    def _tables(self) -> Iterator[pa.RecordBatch]:
        system, path = filesystem_of(self.file.path)
        folders = self.format.folders.of(self.file)
        with pq.ParquetFile(path, filesystem=system) as opened:
            columns = self._columns(opened)
            for first, group in self._groups(opened.metadata):
                for table in opened.iter_batches(_rows_at_once(columns), [group], columns):
                    low, high = max(self.start - first, 0), min(self.stop - first, table.num_rows)
                    if low < high:
                        yield added(table.slice(low, high - low), folders)
                    first += table.num_rows

    def _groups(self, metadata: pq.FileMetaData) -> Iterator[tuple[int, int]]:
        """Row groups that the rows are in: number of the first row, and number of the group."""
        first = 0
        for group in range(metadata.num_row_groups):
            after = first + metadata.row_group(group).num_rows
            if first < self.stop and self.start < after:
                yield first, group
            first = after

    def _columns(self, opened: pq.ParquetFile) -> list[str]:
        """The columns to read from the file."""
        wanted, there = self.format.columns, cast(list[str], opened.schema_arrow.names)
        if both := [name for name in self.format.folders.names if name in there]:
            raise ValueError(f"{self.file.path} has column {both[0]!r} itself; leave it out of partition_by")
        if wanted is None:
            return there
        wanted = tuple(name for name in wanted if name not in self.format.folders.names)
        if unknown := [name for name in wanted if name not in there]:
            raise ValueError(f"{self.file.path} has no column {unknown}; it has {there}")
        if isinstance(self.format.timestamp, str) and self.format.timestamp in there:
            # Read for the event time alone: as a field it would become a datetime, the costliest value there is.
            return list(dict.fromkeys([*wanted, self.format.timestamp]))
        # Of no column the reader gives no rows.
        return list(wanted or there[:1])

    def _apart(self, table: pa.RecordBatch, first: int) -> Iterator[Batch]:
        def bad(row: int) -> FileRow:
            return FileRow(self.file.path, row, to_dicts(table.slice(row - first, 1))[0])

        def batch(part: pa.RecordBatch) -> Batch:
            return self.format.batch(part, self.file)

        return halves(table, first, batch, bad, self.format.times.default(self.file))

    def _batch(self, table: pa.RecordBatch, first: int) -> Batch:
        try:
            return self.format.batch(table, self.file)
        except BadTimestamp as error:
            raise ValueError(f"{self.file.path}, row {first + error.index}: {error}") from error
        except Exception as error:
            raise ValueError(f"{self.file.path}, in the rows from {first} on: {error}") from error


class ReadFromParquet(FileSource):
    """Rows of Parquet files as dicts.

    Args:
        file_pattern: Which files; see `FileSource`.
        min_bundle_size: Accepted for Beam's sake: the engine chooses how much a task reads.
        validate: Whether there must be a file when the pipeline is built.
        columns: Names of the columns that elements have; None for all. The one that `timestamp` names need not be
            among them: left out, it gives the event time all the same, and reading is several times as quick.
        as_rows: Whether elements are `Row`s instead of dicts.
        partition_by: Columns that are in the names of folders, as `WriteToParquet` and Hive make them; a dict says
            their types by the names that Arrow has for them (`{"day": "string", "shop": "int64"}`), a list is all text.
            A folder as `file_pattern` then stands for all files below it.
        **options: `timestamp`, `max_delay`, `continuous` and the others of `FileSource`.
    """

    def __init__(
        self,
        file_pattern: Path,
        min_bundle_size: int = 0,
        validate: bool = True,
        columns: Sequence[str] | None = None,
        as_rows: bool = False,
        *,
        partition_by: Sequence[str] | Mapping[str, str] = (),
        **options: Unpack[OtherReadOptions],
    ) -> None:
        self._folders = FolderColumns.named(partition_by)
        super().__init__(below(file_pattern) if partition_by else file_pattern, validate=validate, **options)
        self._columns = None if columns is None else tuple(columns)
        self._as_rows = as_rows
        self._tolerant = False

    def file_format(self) -> ParquetFormat:
        """Parquet, cut by rows."""
        how = (self._columns, self._as_rows, self.timestamp, self.times)
        return ParquetFormat(*how, self._folders, self._tolerant)

    def tolerant(self) -> Self:
        """See `Tolerant`."""
        other = copy.copy(self)
        other._tolerant = True
        return other

    def with_exception_handling(self, main_tag: str = "good", dead_letter_tag: str = "bad") -> ReadApart:
        """The same with an output for rows whose event time cannot be told.

        Its elements are pairs (`FileRow`, (class of the error, its repr, lines of its traceback)). A file that cannot
        be read, or lacks columns, stops the run all the same.
        """
        return ReadApart(self.tolerant(), main_tag, dead_letter_tag)
