"""What: the changes of the rows of a Delta table, version by version, as `RowChange`s.

A version with change files (`_change_data`, if the table has a change data feed) is read from these alone. Of any other
version the rows of added files are inserted, and those of removed files deleted; if there are both, a row that stands
in both has not changed, and one task compares them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from headrace.lowlevel.injectors.injector import Split
from headrace.lowlevel.records.record import Batch
from headrace.lowlevel.stored_names import named
from headrace.sdk.functions.changelog import RowOperation
from headrace.sdk.io.delta.delta_files import DataFileFormat, DeltaInjector, version_of
from headrace.sdk.io.delta.delta_table import AddedFile, DeltaLog, FileChanges
from headrace.sdk.io.files.filesystem import MatchedFile
from headrace.sdk.io.versioned.table_changes import UNKNOWN_VERSION, WHOLE, ComparedFiles, VersionStamp
from headrace.sdk.io.versioned.table_versions import TablePosition, VersionRange

KIND = "_change_type"
"""The column of change files that says what happened to the row."""
_OPERATIONS = {
    "insert": RowOperation.INSERT,
    "update_postimage": RowOperation.UPDATE,
    "delete": RowOperation.DELETE,
    "update_preimage": RowOperation.DELETE,
}


@dataclass(frozen=True, slots=True)
class ChangeFormat(DataFileFormat):
    """Reads rows of a file as changes."""

    operation: RowOperation | None = None
    stamp: VersionStamp = UNKNOWN_VERSION

    def selected(self, file: MatchedFile, stored: list[str]) -> list[str]:
        """See `ParquetFormat`."""
        found = super(ChangeFormat, self).selected(file, stored)
        return found if self.operation is not None else [*found, KIND]

    def completed(self, table: pa.RecordBatch, constants: Sequence[tuple[str, pa.Scalar]]) -> pa.RecordBatch:
        """See `DataFileFormat`; with the kinds of changes, if the file has them."""
        rows = super(ChangeFormat, self).completed(table, constants)
        return rows if self.operation is not None else rows.append_column(KIND, table.column(KIND))

    def batch(self, table: pa.RecordBatch, file: MatchedFile) -> Batch:
        """The changes of some rows."""
        if self.operation is not None:
            return self.stamp.changes(self, table, [self.operation] * table.num_rows, file)
        operations = [_OPERATIONS[kind] for kind in table.column(KIND).to_pylist()]
        return self.stamp.changes(self, table.drop_columns([KIND]), operations, file)


@named("DeltaChangesInjector")
class DeltaChangesInjector(DeltaInjector):
    """Reads the rows of a version, and what later versions change, as `RowChange`s.

    Args:
        log: The versions of the table.
        format_: How data files are read.
        versions: Which ones are read.
        with_snapshot: Whether the rows of the first version are read.
    """

    def __init__(self, log: DeltaLog, format_: ChangeFormat, versions: VersionRange, with_snapshot: bool) -> None:
        super().__init__(log, format_, versions)
        self._changes, self._with_snapshot = format_, with_snapshot

    def planned(self, at: TablePosition) -> list[AddedFile]:
        """See `TableInjector`: the files, each with what its rows are. Raises `DeltaError`."""
        version = version_of(at)
        if at.is_whole:
            files = super().planned(at) if self._with_snapshot else []
            told = FileChanges(RowOperation.READ, version, self._log.committed_us(version, files) if files else 0)
            return [replace(file, changes=told) for file in files]
        found = self._log.changes(version)
        if found.added and found.removed:
            told = FileChanges(None, version, found.committed_us, found)
            return [replace(found.added[0], changes=told)]
        return [
            replace(file, changes=FileChanges(operation, version, found.committed_us))
            for operation, files in (
                (None, found.told),
                (RowOperation.INSERT, found.added),
                (RowOperation.DELETE, found.removed),
            )
            for file in files
        ]

    def cut(self, file: AddedFile, row: int, records: int) -> tuple[Split, int, int | None]:
        """See `TableInjector`; files that are compared go to one task."""
        changes = file.changes
        assert changes is not None, "`planned` has said what the rows are"
        if changes.compared is None:
            return self._cut(file, changes.operation, changes, row, records)
        removed = [self._whole(each, RowOperation.DELETE, changes) for each in changes.compared.removed]
        added = [self._whole(each, RowOperation.INSERT, changes) for each in changes.compared.added]
        total = sum(count for _, count in [*removed, *added])
        return ComparedFiles(tuple(split for split, _ in removed), tuple(split for split, _ in added)), total, None

    def _whole(self, file: AddedFile, operation: RowOperation, changes: FileChanges) -> tuple[Split, int]:
        split, count, _ = self._cut(file, operation, changes, 0, WHOLE)
        return split, count

    def _cut(
        self, file: AddedFile, operation: RowOperation | None, changes: FileChanges, row: int, records: int
    ) -> tuple[Split, int, int | None]:
        stamp = VersionStamp((changes.version,), changes.committed_us)
        format_ = replace(self._changes, operation=operation, stamp=stamp)
        return self.cut_by(format_, file, row, records)
