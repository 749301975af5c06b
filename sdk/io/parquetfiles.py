"""Parquet: rows as dicts or `Row`s (`apache_beam.io.parquetio`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Unpack, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headrace.lowlevel.injector import Split
from headrace.lowlevel.record import Batch
from headrace.sdk.io.columns import to_dicts, to_list, to_rows
from headrace.sdk.io.files import Found, Path, filesystem_of
from headrace.sdk.io.filesource import BATCH, FileSource, FileTimes
from headrace.sdk.io.reading import ReadOptions
from headrace.sdk.io.timestamps import BadTimestamp, TimestampOf, check_range, timestamps_of


@dataclass(frozen=True, slots=True)
class ParquetFormat:
    """Cuts by rows; a task opens only the row groups that its rows are in."""

    columns: tuple[str, ...] | None
    as_rows: bool
    timestamp: TimestampOf
    times: FileTimes

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
        """The elements of some rows."""
        fields = table if self.columns is None else table.select(list(self.columns))
        elements = to_rows(fields) if self.as_rows else to_dicts(fields)
        return Batch(elements, self._timestamps(table, elements, file))

    def _timestamps(self, table: pa.RecordBatch, elements: Sequence[object], file: Found) -> list[int]:
        if isinstance(self.timestamp, str) and self.timestamp in table.schema.names:
            column = table.column(self.timestamp)
            if pa.types.is_timestamp(column.type) and column.type.tz and not column.null_count:
                exact = pc.CastOptions(pa.timestamp("us", tz=column.type.tz), allow_time_truncate=True)
                micros = cast(list[int], pc.cast(pc.cast(column, options=exact), pa.int64()).to_pylist())
                check_range(micros, elements)
                return micros
            if self.columns is not None and self.timestamp not in self.columns:
                return timestamps_of(to_list(column), _itself)
        return timestamps_of(elements, self.timestamp, self.times.default(file))


def _itself(value: object) -> object:
    return value


@dataclass(frozen=True, slots=True)
class RowRange:
    """Rows `start` to before `stop` of a file."""

    file: Found
    start: int
    stop: int
    format: ParquetFormat

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
            yield self._batch(table, at)
            at += table.num_rows
        if at < self.stop:
            raise ValueError(
                f"{self.file.path} has no row {at}; it had when it was cut into tasks. "
                "Files must not change while they are read"
            )

    def _tables(self) -> Iterator[pa.RecordBatch]:
        system, path = filesystem_of(self.file.path)
        with pq.ParquetFile(path, filesystem=system) as opened:
            for first, group in self._groups(opened.metadata):
                for table in opened.iter_batches(BATCH, [group], self._columns(opened)):
                    low, high = max(self.start - first, 0), min(self.stop - first, table.num_rows)
                    if low < high:
                        yield table.slice(low, high - low)
                    first += table.num_rows

    def _groups(self, metadata: pq.FileMetaData) -> Iterator[tuple[int, int]]:
        """Row groups that the rows are in: number of the first row, and number of the group."""
        first = 0
        for group in range(metadata.num_row_groups):
            after = first + metadata.row_group(group).num_rows
            if first < self.stop and self.start < after:
                yield first, group
            first = after

    def _columns(self, opened: pq.ParquetFile) -> list[str] | None:
        wanted = self.format.columns
        if wanted is None:
            return None
        if unknown := [name for name in wanted if name not in opened.schema_arrow.names]:
            raise ValueError(f"{self.file.path} has no column {unknown}; it has {opened.schema_arrow.names}")
        if isinstance(self.format.timestamp, str) and self.format.timestamp in opened.schema_arrow.names:
            # Read for the event time alone: as a field it would become a datetime, the costliest value there is.
            return list(dict.fromkeys([*wanted, self.format.timestamp]))
        return list(wanted)

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
        columns: Names of the columns that elements have; None for all. The one that `timestamp` names need not be
            among them: left out, it gives the event time all the same, and reading is several times as quick.
        as_rows: Whether elements are `Row`s instead of dicts.
        **options: `timestamp`, `max_delay`, `validate`, `continuous` and the others of `FileSource`.
    """

    def __init__(
        self,
        file_pattern: Path,
        min_bundle_size: int = 0,
        columns: Sequence[str] | None = None,
        as_rows: bool = False,
        **options: Unpack[ReadOptions],
    ) -> None:
        super().__init__(file_pattern, **options)
        self._columns = None if columns is None else tuple(columns)
        self._as_rows = as_rows

    def file_format(self) -> ParquetFormat:
        """Parquet, cut by rows."""
        return ParquetFormat(self._columns, self._as_rows, self.timestamp, self.times)
