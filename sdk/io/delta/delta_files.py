"""What: the data files of a Delta table as input: those of a version, then those that each later version adds."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyarrow import fs

from headrace.lowlevel.injectors.injector import Split
from headrace.lowlevel.stored_names import named
from headrace.sdk.io.delta.delta_table import AddedFile, DeltaError, DeltaLog, TableLocation
from headrace.sdk.io.files.filesystem import MatchedFile
from headrace.sdk.io.parquet.parquet_source import ParquetFormat
from headrace.sdk.io.versioned.table_versions import TableInjector, TablePosition, VersionRange


@dataclass(frozen=True, slots=True)
class DataFileFormat(ParquetFormat):
    """Reads a data file of a table as the table's columns."""

    location: TableLocation | None = None
    schema: pa.Schema | None = None
    partition: tuple[tuple[str, str | None], ...] = ()
    """Partition columns of the file and their values, as the protocol writes them."""

    def located(self, file: MatchedFile) -> tuple[fs.FileSystem, str]:
        """See `ParquetFormat`; the file's path is below the table's folder."""
        assert self.location is not None, "the source gives it"
        return self.location.files(), file.path

    def selected(self, file: MatchedFile, stored: list[str]) -> list[str]:
        """See `ParquetFormat`; the file may be older than some columns of the table."""
        wanted = self._fields().names
        # Without columns the reader returns no rows.
        return [name for name in stored if name in wanted] or stored[:1]

    def constants(self, file: MatchedFile) -> list[tuple[str, pa.Scalar]]:
        """See `ParquetFormat`."""
        types = {field.name: field.type for field in self._fields()}
        return [(name, _scalar(text, types[name])) for name, text in self.partition if name in types]

    def completed(self, table: pa.RecordBatch, constants: Sequence[tuple[str, pa.Scalar]]) -> pa.RecordBatch:
        """The columns of the table in its order and types; null where the file is older than a column."""
        values, fields = dict(constants), self._fields()
        columns = []
        for field in fields:
            if field.name in values:
                columns.append(pa.repeat(values[field.name], table.num_rows))
            elif field.name in table.schema.names:
                columns.append(_cast(table.column(field.name), field))
            else:
                columns.append(pa.nulls(table.num_rows, field.type))
        return pa.RecordBatch.from_arrays(columns, names=fields.names)

    def _fields(self) -> pa.Schema:
        """The columns that are read."""
        assert self.schema is not None, "the source gives it"
        if self.columns is None:
            return self.schema
        wanted = {*self.columns, self.timestamp} if isinstance(self.timestamp, str) else {*self.columns}
        return pa.schema([field for field in self.schema if field.name in wanted])


def _cast(column: pa.Array, field: pa.Field) -> pa.Array:
    try:
        return column.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise ValueError(
            f"column {field.name!r} is of type {column.type} in a data file, with a value that the table's type "
            f"{field.type} does not hold ({error}); another writer has made it. "
            "Rewrite the file with the types of the table"
        ) from error


def _scalar(text: str | None, kind: pa.DataType) -> pa.Scalar:
    if text is None or (text == "" and not pa.types.is_binary(kind)):
        return pa.scalar(None, kind)
    if pa.types.is_timestamp(kind):
        return pa.scalar(text, pa.string()).cast(pa.timestamp("us")).cast(kind)
    return pa.scalar(text, pa.string()).cast(kind)


@named("DeltaInjector")
class DeltaInjector(TableInjector[AddedFile]):
    """Reads the files of a version, and those that later versions add.

    Args:
        log: The versions of the table.
        format_: How data files are read.
        versions: Which ones are read.
    """

    def __init__(self, log: DeltaLog, format_: DataFileFormat, versions: VersionRange) -> None:
        super().__init__(versions)
        self._log, self._format = log, format_
        self._compared = float("-inf")
        """When it was last made sure that the table is the same."""

    def start(self) -> object:
        """All files of the first version."""
        (newest, table), first = self._log.newest(), self._versions.first
        return TablePosition(newest if first is None else first, True, table=table).plain()

    def planned(self, at: TablePosition) -> list[AddedFile]:
        """See `TableInjector`. Raises `DeltaError`."""
        if time.monotonic() - self._compared >= self._interval:
            self._newest(at)
        return self._log.snapshot(version_of(at)) if at.is_whole else self._log.added(version_of(at))

    def cut(self, file: AddedFile, row: int, records: int) -> tuple[Split, int, int | None]:
        """See `TableInjector`. Raises `DeltaError` for a file that is gone."""
        return self.cut_by(self._format, file, row, records)

    def cut_by(self, format_: DataFileFormat, file: AddedFile, row: int, records: int) -> tuple[Split, int, int | None]:
        """Do what `cut` does, with a format for this file. Raises `DeltaError` for a file that is gone."""
        whole = MatchedFile(file.path, file.size, file.modified_us)
        try:
            return replace(format_, partition=file.partition).cut(whole, row, records)
        except ValueError as error:
            raise self._log.unreadable(file, error) from error

    def is_last(self, at: TablePosition) -> bool:
        """See `TableInjector`."""
        until = self._versions.until
        return not self._versions.continuous or (until is not None and version_of(at) >= until)

    def following(self, at: TablePosition) -> int | None:
        """See `TableInjector`."""
        version, now = version_of(at) + 1, time.monotonic()
        if now - self._looked < self._interval:
            return None
        there, is_first = self._log.exists(version), self._looked == float("-inf")
        if not there:
            self._looked = now
        # After a long pause the entry may be cleaned up, so that what it added is not known any more.
        return version if there or (is_first and version <= self._newest(at)) else None

    def _newest(self, at: TablePosition) -> int:
        """The newest version. Raises `DeltaError` for another table than that of the position."""
        self._compared = time.monotonic()
        newest, table = self._log.newest()
        if table != at.table:
            raise DeltaError(
                f"{self._log.place} is not the table that this run has read: it was removed and made anew; nothing of "
                f"its version {at.version} was read. To read it, begin on an empty checkpoint"
            )
        return newest


def version_of(at: TablePosition) -> int:
    """The version of a position."""
    assert at.version is not None, "a Delta table has a version from its beginning on"
    return at.version
