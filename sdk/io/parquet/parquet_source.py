"""Parquet files as sources of dicts or `Row`s (`apache_beam.io.parquetio`); their patterns may be elements."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import chain
from typing import NamedTuple, Unpack, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from headrace.lowlevel.columnar.arrow_arrays import to_list
from headrace.lowlevel.injectors.injector import Split
from headrace.lowlevel.records.column_batch import ColumnBatch, Times
from headrace.lowlevel.records.record import Batch
from headrace.lowlevel.stored_names import stored_as
from headrace.lowlevel.time import END_OF_GLOBAL_WINDOW, MIN_TIMESTAMP
from headrace.sdk.expressions.element_schema import shape_of_rows, times_of
from headrace.sdk.io.columns.column_types import is_text as is_text_type
from headrace.sdk.io.columns.source_columns import common_columns
from headrace.sdk.io.columns.tables import to_dicts, to_rows
from headrace.sdk.io.dead_letters import TolerantSource, halves
from headrace.sdk.io.files.file_source import BATCH, FileSource, OtherReadOptions
from headrace.sdk.io.files.file_times import FileTimes
from headrace.sdk.io.files.fileio import ReadableFile, ReadAllFiles
from headrace.sdk.io.files.filesystem import MatchedFile, Path, denied, filesystem_of, match
from headrace.sdk.io.files.pieces import FileFormat
from headrace.sdk.io.parquet.hive_partitions import FolderColumns, files_below, with_constants
from headrace.sdk.io.timestamps import BadTimestamp, TimestampOf, check_range, timestamps_of

_FOOTER_END = 8
"""Bytes behind the footer, the last ones of a file: the footer's length and a word."""
_CHECKED = {} if int(pa.__version__.partition(".")[0]) < 15 else {"page_checksum_verification": True}
"""Arguments of `ParquetFile`: checksums of pages are verified where pyarrow can, from 15 on."""
_MOST_ROWS = 50_000
_MOST_VALUES = 500_000


@stored_as("FileRow")
class FileRow(NamedTuple):
    """A row without a valid event time; an element of dead-letter outputs."""

    path: str
    row: int
    """Number of the row, from 0."""
    fields: dict[str, object]
    """Values by column name."""


@dataclass(frozen=True, slots=True)
class ParquetFormat(FileFormat):
    """Cuts Parquet files by rows; a task reads only the row groups that contain its rows."""

    columns: tuple[str, ...] | None
    as_rows: bool
    timestamp: TimestampOf
    times: FileTimes
    folders: FolderColumns
    tolerant: bool = False
    """Whether rows without a valid event time become `Unreadable`s instead of errors."""

    def cut(self, file: MatchedFile, offset: int, records: int) -> tuple[Split, int, int | None]:
        """See `FileFormat.cut`. Offsets are numbers of rows, from 0."""
        system, path = self.located(file)
        try:
            rows = pq.read_metadata(path, filesystem=system).num_rows
        except PermissionError as error:
            raise denied(file.path, error) from None
        except Exception as error:
            raise no_whole_file(file.path, error) from error
        if offset >= rows > 0 or offset > rows:
            raise ValueError(
                f"{file.path} has {rows} rows, of which {offset} were read before: it was replaced by another. "
                "Put the earlier one back, or start on an empty checkpoint"
            )
        stop = min(offset + records, rows)
        return ParquetRows(file, offset, stop, self), stop - offset, None if stop >= rows else stop

    def mark(self, file: MatchedFile, offset: int) -> str:
        """See `FileFormat.mark`: of the footer, which has the sizes and statistics of all row groups."""
        system, path = self.located(file)
        with system.open_input_file(path) as opened:
            opened.seek(max(0, file.size - _FOOTER_END))
            length = int.from_bytes(opened.read(4), "little")
            opened.seek(max(0, file.size - _FOOTER_END - length))
            return sha256(opened.read(length)).hexdigest()[:16]

    def located(self, file: MatchedFile) -> tuple[fs.FileSystem, str]:
        """The file system of a file, and its path there."""
        return filesystem_of(file.path)

    def selected(self, file: MatchedFile, stored: list[str]) -> list[str]:
        """The columns to read from a file that has `stored`. Raises `ValueError` for missing or equal columns."""
        refuse_equal_names(file.path, stored)
        if both := [name for name in self.folders.names if name in stored]:
            raise ValueError(f"{file.path} has column {both[0]!r} itself; leave it out of partition_by")
        if self.columns is None:
            return stored
        selected = tuple(name for name in self.columns if name not in self.folders.names)
        if unknown := [name for name in selected if name not in stored]:
            raise ValueError(f"{file.path} has no column {unknown}; it has {stored}")
        if isinstance(self.timestamp, str) and self.timestamp in stored:
            # The column is read for the event time; as a field of elements it would become datetimes, which are slow.
            return list(dict.fromkeys([*selected, self.timestamp]))
        # Without columns the reader returns no rows.
        return list(selected or stored[:1])

    def constants(self, file: MatchedFile) -> list[tuple[str, pa.Scalar]]:
        """Names and values of columns that a file does not contain. Raises `ValueError` that names the file."""
        return self.folders.of(file)

    def completed(self, table: pa.RecordBatch, constants: Sequence[tuple[str, pa.Scalar]]) -> pa.RecordBatch:
        """Rows of a file with the columns that it does not contain."""
        return with_constants(table, constants)

    def batch(self, table: pa.RecordBatch, file: MatchedFile) -> Batch:
        """The elements of some rows; as columns if the columns are certain to give the same values."""
        fields = table if self.columns is None else table.select(list(self.columns))
        shape = shape_of_rows(fields, self.as_rows)
        if shape is None:
            elements = to_rows(fields) if self.as_rows else to_dicts(fields)
            return Batch(elements, self.event_times(table, elements, file))
        times = self._times(table, file)
        if times is not None and _in_range(times):
            return ColumnBatch(fields, times, shape)
        elements = shape.values(fields)
        return ColumnBatch(fields, np.array(self.event_times(table, elements, file), np.int64), shape, elements)

    def _times(self, table: pa.RecordBatch, file: MatchedFile) -> Times | None:
        """The event times, int64 microseconds UTC, one for each row; None if columns cannot give them."""
        if self.timestamp is None:
            return np.full(table.num_rows, self.times.default(file), np.int64)
        if isinstance(self.timestamp, str) and self.timestamp in table.schema.names:
            return times_of(table.column(self.timestamp))
        return None

    def event_times(self, table: pa.RecordBatch, elements: Sequence[object], file: MatchedFile) -> list[int]:
        """The event times of some rows, of which `elements` were made; microseconds UTC. Raises `BadTimestamp`."""
        if isinstance(self.timestamp, str) and self.timestamp in table.schema.names:
            column = table.column(self.timestamp)
            if pa.types.is_timestamp(column.type) and (times := times_of(column)) is not None:
                micros = cast(list[int], times.tolist())
                check_range(micros, elements)
                return micros
            if self.columns is not None and self.timestamp not in self.columns:
                return timestamps_of(to_list(column), _identity)
        return timestamps_of(elements, self.timestamp, self.times.default(file))


def no_whole_file(path: str, error: Exception) -> ValueError:
    """The error for a file of which the footer cannot be read."""
    return ValueError(f"{path} is no whole Parquet file ({error}); {_WHOLE}")


def unreadable_rows(path: str, row: int, error: Exception) -> ValueError:
    """The error for rows of a file that cannot be read; `row` is the number of the first one, from 0."""
    # What is not Arrow's has a remedy of its own.
    is_damaged = isinstance(error, (pa.ArrowException, OSError))
    remedy = f"; it is damaged, or changed while it was read: {_WHOLE}" if is_damaged else ""
    return ValueError(f"{path}, cannot be read from row {row} on: {error}{remedy}")


_WHOLE = "put a whole one there, or take it out of what is read"


def refuse_equal_names(path: str, names: Sequence[str]) -> None:
    """Raise `ValueError` if several columns of a file have one name."""
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(
            f"{path} has several columns named {twice!r}, of which an element could have only one; write the file with "
            "other names"
        )


_SMALLEST_TEXT = 4
"""Bytes of a text's length in a page without a dictionary."""


def encoded_columns(file: pq.ParquetFile, groups: Sequence[int], columns: Sequence[str]) -> list[str]:
    """The columns of text whose values the row groups have as numbers of a dictionary.

    The metadata do not say whether a writer gave a dictionary up halfway, but then, values take at least
    `_SMALLEST_TEXT` bytes.
    """
    metadata = file.metadata
    names = [metadata.schema.column(number).path for number in range(metadata.num_columns)]
    places = [
        names.index(name) for name in columns if name in names and is_text_type(file.schema_arrow.field(name).type)
    ]

    def is_encoded(place: int) -> bool:
        chunks = [metadata.row_group(group).column(place) for group in groups]
        return all(
            chunk.has_dictionary_page and chunk.total_uncompressed_size < _SMALLEST_TEXT * chunk.num_values
            for chunk in chunks
        )

    return [names[place] for place in places if groups and is_encoded(place)]


def _in_range(times: Times) -> bool:
    return not len(times) or bool(times.min() >= MIN_TIMESTAMP and times.max() < END_OF_GLOBAL_WINDOW)


def rows_at_once(columns: Sequence[str]) -> int:
    """Rows to read at once: many, as columns are faster so, but fewer with many columns, as dicts take memory."""
    return max(BATCH, min(_MOST_ROWS, _MOST_VALUES // max(1, len(columns))))


def _identity(value: object) -> object:
    return value


@dataclass(frozen=True, slots=True)
class ParquetRows:
    """The rows from `start` to before `stop` of a file, for one task."""

    file: MatchedFile
    start: int
    stop: int
    format: ParquetFormat

    def count_records(self) -> int:
        """See `SizedSplit`."""
        return self.stop - self.start

    def read(self) -> Iterator[Batch]:
        """The elements of the rows. Raises `ValueError` that names file and row (from 0)."""
        position = self.start
        tables = self._tables()
        while True:
            try:
                table = next(tables, None)
            except Exception as error:
                raise unreadable_rows(self.file.path, position, error) from error
            if table is None:
                break
            if self.format.tolerant:
                yield from self._apart(table, position)
            else:
                yield self._batch(table, position)
            position += table.num_rows
        if position < self.stop:
            raise ValueError(
                f"{self.file.path} has no row {position}, which existed when the file was cut into tasks. "
                "Files must not change while they are read"
            )

    def _tables(self) -> Iterator[pa.RecordBatch]:
        system, path = self.format.located(self.file)
        constants = self.format.constants(self.file)
        with system.open_input_file(path) as opened:
            file = pq.ParquetFile(opened, **_CHECKED)
            columns = self.format.selected(self.file, cast(list[str], file.schema_arrow.names))
            if encoded := encoded_columns(file, [group for _, group in self._groups(file.metadata)], columns):
                file = pq.ParquetFile(opened, metadata=file.metadata, read_dictionary=encoded, **_CHECKED)
            for first, group in self._groups(file.metadata):
                for table in file.iter_batches(rows_at_once(columns), [group], columns):
                    low, high = max(self.start - first, 0), min(self.stop - first, table.num_rows)
                    if low < high:
                        yield self.format.completed(table.slice(low, high - low), constants)
                    first += table.num_rows

    def _groups(self, metadata: pq.FileMetaData) -> Iterator[tuple[int, int]]:
        """The row groups that contain the rows: number of the group's first row, and number of the group."""
        first = 0
        for group in range(metadata.num_row_groups):
            after = first + metadata.row_group(group).num_rows
            if first < self.stop and self.start < after:
                yield first, group
            first = after

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


def _stored_schema(file: MatchedFile) -> pa.Schema:
    system, path = filesystem_of(file.path)
    return pq.read_schema(path, filesystem=system)


class ReadFromParquet(FileSource, TolerantSource):
    """Rows of Parquet files as dicts.

    `with_exception_handling` sets rows without a valid event time apart, as `FileRow`s. A file that cannot be read, or
    lacks columns, still stops the run.

    Args:
        file_pattern: Which files; see `FileSource`.
        min_bundle_size: Without effect, accepted as in Beam: the engine chooses how much a task reads.
        validate: Whether a file must match when the pipeline is built.
        columns: Names of the columns that elements have; None for all. The column that `timestamp` names gives the
            event time also if it is left out here, and reading is several times as fast then.
        as_rows: Whether elements are `Row`s instead of dicts.
        partition_by: Columns whose values are in the names of folders, as `WriteToParquet` and Hive write them: a dict
            of names and Arrow types (`{"day": "string", "shop": "int64"}`), or a list of names of text columns. With
            it, a folder as `file_pattern` stands for all files below it.
        **options: `timestamp`, `max_delay`, `continuous` and the others of `FileSource`.

    >>> import pyarrow as pa
    >>> import pyarrow.parquet as pq
    >>> import headrace as beam
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     _ = pq.write_table(pa.table({"item": ["tea"], "count": [3]}), f"{folder}/sales.parquet")
    ...     with beam.Pipeline("LocalRunner") as pipeline:
    ...         _ = pipeline | beam.io.ReadFromParquet(f"{folder}/*.parquet") | beam.Map(print)
    {'item': 'tea', 'count': 3}
    """

    record_format = "Parquet"

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
        self._folders = FolderColumns.of_names(partition_by)
        super().__init__(files_below(file_pattern) if partition_by else file_pattern, validate=validate, **options)
        self._columns = None if columns is None else tuple(columns)
        self._as_rows = as_rows

    def arrow_schema(self) -> pa.Schema | None:
        """See `Source`: the columns of the first file and the last; columns may have been added meanwhile."""
        try:
            found = match(self.pattern)
            stored = common_columns([_stored_schema(file) for file in dict.fromkeys([*found[:1], *found[-1:]])])
        except (pa.ArrowException, OSError):
            # Whoever reads the file says so.
            return None
        if not found or stored is None:
            return None
        fields = {field.name: field for field in stored} | {
            name: pa.field(name, kind) for name, kind in self._folders.columns
        }
        names = [*fields] if self._columns is None else self._columns
        known = {*names} <= {*fields} and len({*names}) == len(names)
        return pa.schema([fields[name] for name in names]) if known else None

    def file_format(self) -> ParquetFormat:
        """Parquet, cut by rows."""
        return ParquetFormat(self._columns, self._as_rows, self.timestamp, self.times, self._folders, self._tolerant)


@dataclass(frozen=True, slots=True)
class _Tables:
    """Reads the row groups of a file, as tables or as dicts."""

    columns: tuple[str, ...] | None
    as_tables: bool

    def __call__(self, file: ReadableFile) -> Iterator[object]:
        system, path = filesystem_of(file.metadata.path)
        name = file.metadata.path
        with self._opened(system, path, name) as opened:
            try:
                whole = pq.ParquetFile(opened, **_CHECKED)
            except Exception as error:
                raise no_whole_file(name, error) from error
            if not self.as_tables:
                refuse_equal_names(name, whole.schema_arrow.names)
            tables = self._tables(whole, name)
            if self.as_tables:
                yield from tables
            else:
                yield from chain.from_iterable(to_dicts(batch) for table in tables for batch in table.to_batches())

    @staticmethod
    def _opened(system: fs.FileSystem, path: str, name: str) -> pa.NativeFile:
        try:
            return system.open_input_file(path)
        except PermissionError as error:
            raise denied(name, error) from None

    def _tables(self, file: pq.ParquetFile, name: str) -> Iterator[pa.Table]:
        columns = None if self.columns is None else list(self.columns)
        first = 0
        for number in range(file.num_row_groups):
            try:
                table = file.read_row_group(number, columns)
            except Exception as error:
                raise unreadable_rows(name, first, error) from error
            yield table
            first += table.num_rows


class ReadAllFromParquetBatched(ReadAllFiles):
    """The row groups of the Parquet files of each pattern, as `pyarrow.Table`s; each file is read by one task.

    Args:
        min_bundle_size: Without effect, accepted as in Beam.
        desired_bundle_size: Without effect, accepted as in Beam.
        columns: Names of the columns to read; by default all.
        with_filename: Whether elements are pairs of the file's path and a table.
        label: Label of the step.

    >>> import pyarrow as pa
    >>> import pyarrow.parquet as pq
    >>> import headrace as beam
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     _ = pq.write_table(pa.table({"item": ["tea"], "count": [3]}), f"{folder}/sales.parquet")
    ...     with beam.Pipeline("LocalRunner") as pipeline:
    ...         paths = pipeline | beam.Create([f"{folder}/sales.parquet"])
    ...         _ = paths | beam.io.ReadAllFromParquetBatched() | beam.Map(lambda table: print(table.num_rows))
    1
    """

    def __init__(
        self,
        min_bundle_size: int = 0,
        desired_bundle_size: int = 64 << 20,
        columns: Sequence[str] | None = None,
        with_filename: bool = False,
        label: str | None = None,
    ) -> None:
        read = _Tables(None if columns is None else tuple(columns), as_tables=True)
        super().__init__(read, "ReadTables", with_filename, label)


class ReadAllFromParquet(ReadAllFiles):
    """The rows of the Parquet files of each pattern, as dicts; each file is read by one task.

    Args:
        with_filename: Whether elements are pairs of the file's path and a row.
        columns: Names of the columns to read; by default all.
        min_bundle_size: Without effect, accepted as in Beam.
        desired_bundle_size: Without effect, accepted as in Beam.
        label: Label of the step.

    >>> import pyarrow as pa
    >>> import pyarrow.parquet as pq
    >>> import headrace as beam
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     _ = pq.write_table(pa.table({"item": ["tea"], "count": [3]}), f"{folder}/sales.parquet")
    ...     with beam.Pipeline("LocalRunner") as pipeline:
    ...         paths = pipeline | beam.Create([f"{folder}/sales.parquet"])
    ...         _ = paths | beam.io.ReadAllFromParquet() | beam.Map(print)
    {'item': 'tea', 'count': 3}
    """

    def __init__(
        self,
        with_filename: bool = False,
        *,
        columns: Sequence[str] | None = None,
        min_bundle_size: int = 0,
        desired_bundle_size: int = 64 << 20,
        label: str | None = None,
    ) -> None:
        read = _Tables(None if columns is None else tuple(columns), as_tables=False)
        super().__init__(read, "ReadRows", with_filename, label)
