"""What: the changes of the rows of an Iceberg table, snapshot by snapshot, as `RowChange`s.

The rows of a snapshot that appends are insertions. Of any other one, the data files are compared with those of the
snapshot before it, each with the deletes that apply to it: rows of files that both have are not read.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.lowlevel.injectors.injector import Split
from headrace.lowlevel.records.record import Batch
from headrace.lowlevel.stored_names import named
from headrace.sdk.functions.changelog import RowOperation
from headrace.sdk.io.files.filesystem import MatchedFile
from headrace.sdk.io.iceberg.iceberg_files import IcebergRows, SnapshotInjector, appended_by, gone, operation_of
from headrace.sdk.io.iceberg.iceberg_table import TableAddress
from headrace.sdk.io.parquet.parquet_source import ParquetFormat
from headrace.sdk.io.versioned.table_changes import UNKNOWN_VERSION, WHOLE, ComparedFiles, VersionStamp
from headrace.sdk.io.versioned.table_versions import TablePosition, VersionRange

if TYPE_CHECKING:
    from pyiceberg.table import FileScanTask, Table
    from pyiceberg.table.snapshots import Snapshot


@dataclass(frozen=True, slots=True)
class SnapshotFormat(ParquetFormat):
    """Makes changes of rows."""

    operation: RowOperation = RowOperation.INSERT
    stamp: VersionStamp = UNKNOWN_VERSION

    def batch(self, table: pa.RecordBatch, file: MatchedFile) -> Batch:
        """The changes of some rows."""
        return self.stamp.changes(self, table, [self.operation] * table.num_rows, file)


@dataclass(frozen=True, slots=True)
class ChangedFiles:
    """A file whose rows are changes, or the files of a snapshot that are compared."""

    added: tuple[FileScanTask, ...]
    removed: tuple[FileScanTask, ...]
    operation: RowOperation
    """What happened to the rows of the added file, if there is one alone."""
    stamp: VersionStamp


@named("IcebergChangesInjector")
class IcebergChangesInjector(SnapshotInjector[ChangedFiles]):
    """Reads the rows of a snapshot, and what later ones change.

    Args:
        address: The table.
        schema_id: Number of the schema that rows have.
        format_: What becomes of rows.
        versions: Which snapshots are read.
        with_snapshot: Whether the rows of the first snapshot are read.
    """

    def __init__(
        self,
        address: TableAddress,
        schema_id: int,
        format_: SnapshotFormat,
        versions: VersionRange,
        with_snapshot: bool,
    ) -> None:
        super().__init__(address, schema_id, versions)
        self._format, self._with_snapshot = format_, with_snapshot

    def planned(self, at: TablePosition) -> list[ChangedFiles]:
        """See `TableInjector`. Raises `IcebergError`."""
        if at.version is None or (at.is_whole and not self._with_snapshot):
            return []
        table, snapshot = self.snapshot(at)
        # Tables of the first format have no sequence numbers; those of later formats begin at 1.
        stamp = VersionStamp((snapshot.sequence_number or 0, snapshot.timestamp_ms), 1000 * snapshot.timestamp_ms)
        if at.is_whole:
            whole = self.files_of(at, table.scan(snapshot_id=at.version))
            return [ChangedFiles((file,), (), RowOperation.READ, stamp) for file in whole]
        operation = operation_of(snapshot)
        if operation == "replace":
            return []
        if operation == "append":
            appended = self.files_of(at, appended_by(table, at.version))
            return [ChangedFiles((file,), (), RowOperation.INSERT, stamp) for file in appended]
        return self._compared(at, table, snapshot, stamp)

    def _compared(self, at: TablePosition, table: Table, snapshot: Snapshot, stamp: VersionStamp) -> list[ChangedFiles]:
        """The files that are not in both a snapshot and the one before it, with the deletes that apply to them."""
        parent = snapshot.parent_snapshot_id
        if parent is not None and table.snapshot_by_id(parent) is None:
            raise gone(self._address, parent)
        before = [] if parent is None else self.files_of(at, table.scan(snapshot_id=parent))
        after = self.files_of(at, table.scan(snapshot_id=at.version))
        unchanged = {*map(_identity, before)} & {*map(_identity, after)}
        removed = tuple(file for file in before if _identity(file) not in unchanged)
        added = tuple(file for file in after if _identity(file) not in unchanged)
        if added and removed:
            return [ChangedFiles(added, removed, RowOperation.INSERT, stamp)]
        return [
            *(ChangedFiles((file,), (), RowOperation.DELETE, stamp) for file in removed),
            *(ChangedFiles((file,), (), RowOperation.INSERT, stamp) for file in added),
        ]

    def cut(self, file: ChangedFiles, row: int, records: int) -> tuple[Split, int, int | None]:
        """See `TableInjector`; files that are compared go to one task."""
        if not file.removed:
            return self._rows(file.added[0], file.operation, file.stamp, row, records).cut()
        added = [self._rows(each, RowOperation.INSERT, file.stamp, 0, WHOLE).cut() for each in file.added]
        removed = [self._rows(each, RowOperation.DELETE, file.stamp, 0, WHOLE).cut() for each in file.removed]
        compared = ComparedFiles(tuple(split for split, _, _ in removed), tuple(split for split, _, _ in added))
        return compared, sum(count for _, count, _ in [*added, *removed]), None

    def _rows(
        self, file: FileScanTask, operation: RowOperation, stamp: VersionStamp, row: int, records: int
    ) -> IcebergRows:
        format_ = replace(self._format, operation=operation, stamp=stamp)
        return IcebergRows(self._address, self._schema_id, file, row, row + records, format_)


def _identity(task: FileScanTask) -> tuple[str, frozenset[str]]:
    """What tells the rows of a file from those of others, or of itself with other deletes."""
    return task.file.file_path, frozenset(delete.file_path for delete in task.delete_files)
