"""What: the data files of an Iceberg table as input: those of a snapshot, then those that each later one appends."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from headrace.lowlevel.injectors.injector import Split
from headrace.lowlevel.records.record import Batch
from headrace.lowlevel.stored_names import named
from headrace.sdk.io.files.filesystem import MatchedFile
from headrace.sdk.io.iceberg.iceberg_table import IcebergError, TableAddress
from headrace.sdk.io.parquet.parquet_source import ParquetFormat
from headrace.sdk.io.timestamps import BadTimestamp
from headrace.sdk.io.versioned.table_versions import FileT, TableInjector, TablePosition, VersionRange

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.table import DataScan, FileScanTask, IncrementalAppendScan, Table
    from pyiceberg.table.snapshots import Snapshot


@dataclass(frozen=True, slots=True)
class IcebergRows:
    """Rows of a data file for one task: those from `start` to before `stop`, deleted ones left out before."""

    address: TableAddress
    schema_id: int
    task: FileScanTask
    start: int
    stop: int
    format: ParquetFormat

    def read(self) -> Iterator[Batch]:
        """The elements of the rows. Raises `IcebergError` that names the file."""
        from pyiceberg.expressions import AlwaysTrue
        from pyiceberg.io.pyarrow import ArrowScan

        path, position = self.task.file.file_path, 0
        file = MatchedFile(path, self.task.file.file_size_in_bytes, 0)
        try:
            table = self.address.load()
            scan = ArrowScan(table.metadata, table.io, self._columns(table.schemas()[self.schema_id]), AlwaysTrue())
            for rows in scan.to_record_batches([self.task]):
                low, high = max(self.start - position, 0), min(self.stop - position, rows.num_rows)
                if low < high:
                    yield self.format.batch(rows.slice(low, high - low), file)
                position += rows.num_rows
                if position >= self.stop:
                    return
        except BadTimestamp as error:
            raise IcebergError(f"{path}, in the rows from {self.start} on: {error}") from error
        except Exception as error:
            raise IcebergError(f"{path} cannot be read; nothing of it is committed: {error}") from error

    def cut(self) -> tuple[Split, int, int | None]:
        """The rows that there are, their number, and the next row if there is one."""
        count = self.task.file.record_count
        stop = min(self.stop, count)
        return replace(self, stop=stop), stop - self.start, stop if stop < count else None

    def _columns(self, schema: Schema) -> Schema:
        """The columns that are read: those of elements, and that of event times."""
        if self.format.columns is None:
            return schema
        by = self.format.timestamp
        names = {*self.format.columns, by} if isinstance(by, str) else {*self.format.columns}
        # Without columns the reader returns no rows.
        return schema.select(*(names or schema.column_names[:1]))


@named("SnapshotInjector")
class SnapshotInjector(TableInjector[FileT]):
    """Follows the snapshots of a table.

    Args:
        address: The table.
        schema_id: Number of the schema that elements have.
        versions: Which snapshots are read.
    """

    def __init__(self, address: TableAddress, schema_id: int, versions: VersionRange) -> None:
        super().__init__(versions)
        self._address, self._schema_id = address, schema_id
        self._table: Table | None = None
        """The table at the last look."""
        self._followers: dict[int | None, int] = {}
        """Each snapshot's next one at the last look."""

    def start(self) -> object:
        """All files of the first snapshot."""
        newest, first = self._address.load().current_snapshot(), self._versions.first
        first = newest.snapshot_id if first is None and newest is not None else first
        return TablePosition(first, True).plain()

    def is_last(self, at: TablePosition) -> bool:
        """See `TableInjector`."""
        until = self._versions.until
        return not self._versions.continuous or (until is not None and at.version == until)

    def snapshot(self, at: TablePosition) -> tuple[Table, Snapshot]:
        """The table, and the snapshot of a position. Raises `IcebergError` if it is gone."""
        assert at.version is not None, "a table without a snapshot has no files"
        table = self._table = self._table or self._address.load()
        if (snapshot := table.snapshot_by_id(at.version)) is None:
            raise gone(self._address, at.version)
        return table, snapshot

    def files_of(self, at: TablePosition, scan: DataScan | IncrementalAppendScan) -> list[FileScanTask]:
        """The files of a scan, ordered by path. Raises `IcebergError`."""
        try:
            return sorted(scan.plan_files(), key=lambda task: task.file.file_path)
        except Exception as error:
            raise IcebergError(
                f"snapshot {at.version} of {self._address.table} cannot be read; nothing of it was read: {error}"
            ) from error

    def following(self, at: TablePosition) -> int | None:
        """See `TableInjector`. Raises `IcebergError` if what follows is gone."""
        if at.version not in self._followers and time.monotonic() - self._looked >= self._interval:
            self._looked = time.monotonic()
            self._table = self._address.load()
            newest = self._table.current_snapshot()
            self._followers = _followers(self._table)
            if newest is not None and at.version not in {newest.snapshot_id, *self._followers}:
                raise gone(self._address, at.version)
        return self._followers.get(at.version)


@named("IcebergInjector")
class IcebergInjector(SnapshotInjector["FileScanTask"]):
    """Reads the files of a snapshot, and those that later ones append.

    Args:
        address: The table.
        schema_id: Number of the schema that elements have.
        format_: What becomes of rows.
        versions: Which snapshots are read.
    """

    def __init__(self, address: TableAddress, schema_id: int, format_: ParquetFormat, versions: VersionRange) -> None:
        super().__init__(address, schema_id, versions)
        self._format = format_

    def cut(self, file: FileScanTask, row: int, records: int) -> tuple[Split, int, int | None]:
        """See `TableInjector`."""
        piece = IcebergRows(self._address, self._schema_id, file, row, row + records, self._format)
        return piece.cut()

    def planned(self, at: TablePosition) -> list[FileScanTask]:
        """See `TableInjector`; ordered by path. Raises `IcebergError`."""
        if at.version is None:
            return []
        table, snapshot = self.snapshot(at)
        if at.is_whole:
            return self.files_of(at, table.scan(snapshot_id=at.version))
        if (operation := operation_of(snapshot)) == "append":
            return self.files_of(at, appended_by(table, at.version))
        if operation == "replace":
            return []
        raise IcebergError(
            f"snapshot {at.version} of {self._address.table} deletes or changes rows ({operation}), which "
            "elements that were read cannot follow; nothing of it was read. To go on, read the table with a "
            f"bounded ReadFromIceberg, begin after it on an empty checkpoint: snapshot_id={at.version}, or read "
            "changes=True"
        )


def _followers(table: Table) -> dict[int | None, int]:
    """Snapshot -> the one that came after it on the way to the newest, as far back as the table has kept them."""
    known = {snapshot.snapshot_id: snapshot for snapshot in table.snapshots()}
    followers: dict[int | None, int] = {}
    snapshot = table.current_snapshot()
    while snapshot is not None:
        followers[snapshot.parent_snapshot_id] = snapshot.snapshot_id
        snapshot = known.get(snapshot.parent_snapshot_id) if snapshot.parent_snapshot_id is not None else None
    return followers


def operation_of(snapshot: Snapshot) -> str:
    """What a snapshot has done, as Iceberg calls it."""
    return "unknown operation" if snapshot.summary is None else str(snapshot.summary.operation.value)


def appended_by(table: Table, snapshot: int) -> IncrementalAppendScan:
    """The files that a snapshot has appended."""
    return table.incremental_append_scan().from_snapshot_id_inclusive(snapshot).to_snapshot_id_inclusive(snapshot)


def gone(address: TableAddress, snapshot: int | None) -> IcebergError:
    """The error for a snapshot whose followers are not known."""
    return IcebergError(
        f"what follows snapshot {snapshot} of {address.table} is no longer known: it has expired, or the table was "
        "rolled back; nothing of it was read. Keep snapshots longer; to go on, begin on an empty checkpoint"
    )
