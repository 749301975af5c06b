"""What: the changes of the rows of a Delta table, version by version, as `RowChange`s.

A version with change files (`_change_data`, if the table has a change data feed) is read from these alone. Of any other
version the rows of added files are inserted, and those of removed files deleted; if there are both, a row that stands
in both has not changed, and one task compares them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import cast

import pyarrow as pa

from headrace.lowlevel.injectors.injector import Split
from headrace.lowlevel.records.record import Batch
from headrace.lowlevel.stored_names import named
from headrace.sdk.functions.changelog import RowChange, RowOperation
from headrace.sdk.io.columns.tables import to_dicts, to_rows
from headrace.sdk.io.delta.delta_files import DataFileFormat, DeltaInjector, version_of
from headrace.sdk.io.delta.delta_table import AddedFile, DeltaLog, FileChanges
from headrace.sdk.io.files.filesystem import MatchedFile
from headrace.sdk.io.table_versions import TablePosition, VersionRange

KIND = "_change_type"
"""The column of change files that says what happened to the row."""
_OPERATIONS = {
    "insert": RowOperation.INSERT,
    "update_postimage": RowOperation.UPDATE,
    "delete": RowOperation.DELETE,
    "update_preimage": RowOperation.DELETE,
}
_ALL = 1 << 62


@dataclass(frozen=True, slots=True)
class ChangeFormat(DataFileFormat):
    """Reads rows of a file as changes. Deletions of a version come before its other changes in sequence."""

    operation: RowOperation | None = None
    version: int = 0
    committed_us: int = 0

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
        operations = [self.operation] * table.num_rows
        if self.operation is None:
            operations = [_OPERATIONS[kind] for kind in table.column(KIND).to_pylist()]
            table = table.drop_columns([KIND])
        fields = table if self.columns is None else table.select(list(self.columns))
        rows = to_rows(fields) if self.as_rows else to_dicts(fields)
        committed = [self.committed_us] * table.num_rows
        times = committed if self.timestamp is None else self._timestamps(table, rows, file)
        pairs = zip(operations, rows, strict=True)
        return Batch([self._change(operation, row) for operation, row in pairs if operation is not None], times)

    def _change(self, operation: RowOperation, row: object) -> RowChange:
        if operation is RowOperation.DELETE:
            return RowChange(operation, row, None, (self.version, 0))
        return RowChange(operation, None, row, (self.version, 1))


@dataclass(frozen=True, slots=True)
class ComparedFiles:
    """The changes of a version that has rewritten files, for one task."""

    removed: tuple[Split, ...]
    added: tuple[Split, ...]

    def read(self) -> Iterator[Batch]:
        """Deletions of rows that no added file has, then insertions of those that no removed file has."""
        there = Counter(digest for split in self.added for batch in split.read() for digest in _digests(batch))
        kept = Counter[bytes]()
        for split in self.removed:
            for batch in split.read():
                yield _without(batch, there, kept)
        for split in self.added:
            for batch in split.read():
                yield _without(batch, kept, Counter())


def _without(batch: Batch, unchanged: Counter[bytes], taken: Counter[bytes]) -> Batch:
    """The changes without those of rows in `unchanged`, which move to `taken`."""
    left: list[tuple[object, int]] = []
    for row, digest in zip(batch.rows(), _digests(batch), strict=True):
        if unchanged[digest]:
            unchanged[digest] -= 1
            taken[digest] += 1
        else:
            left.append(row)
    return Batch([change for change, _ in left], [micros for _, micros in left])


def _digests(batch: Batch) -> list[bytes]:
    """A hash of each row, which is equal for equal rows."""
    changes = cast("list[RowChange]", batch.values)
    rows = [change.after if change.before is None else change.before for change in changes]
    return [blake2b(repr(row).encode(), digest_size=16).digest() for row in rows]


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
        split, count, _ = self._cut(file, operation, changes, 0, _ALL)
        return split, count

    def _cut(
        self, file: AddedFile, operation: RowOperation | None, changes: FileChanges, row: int, records: int
    ) -> tuple[Split, int, int | None]:
        format_ = replace(
            self._changes, operation=operation, version=changes.version, committed_us=changes.committed_us
        )
        return self.cut_by(format_, file, row, records)
