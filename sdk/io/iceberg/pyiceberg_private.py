"""What the package uses of pyiceberg without a promise of its documentation; check this module at each upgrade.

- `_dataframe_to_data_files` writes rows as data files of a table, with statistics and partitions, and commits nothing.
  It is what `Table.append` calls. If it changes, tasks can write Parquet files for `Transaction.add_files`, which knows
  fewer partition transforms.
- A transaction whose commit fails because the table has changed builds its snapshots anew and tries again
  (`_rebuild_snapshot_updates`). An epoch that somebody else has written meanwhile would then be there twice, so this
  gives up instead, and the sink looks at the table first.
- `Transaction.table_metadata` copies all metadata, so all snapshots, each time it is asked, which pyiceberg does more
  than ten times in a commit. Here it is asked once for each step of the transaction (`_updates`).
- An overwrite keeps manifests that name deleted files only, one more with each commit, and reads all of them in the
  next one. Here they are left out (`_process_manifests`), as pyiceberg does where it merges manifests.
- `_append_snapshot_producer` merges manifests if the table's property `commit.manifest-merge.enabled` says so.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile, ManifestFile
    from pyiceberg.table import Table, Transaction
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update.snapshot import _FastAppendFiles, _OverwriteFiles


class TableMovedError(Exception):
    """Another commit was faster; nothing of this transaction is in the table."""


def written_files(table: Table, rows: pa.Table) -> list[DataFile]:
    """Data files with rows, which no snapshot of the table names yet; none without rows."""
    from pyiceberg.io.pyarrow import _dataframe_to_data_files

    if not rows.num_rows:
        return []
    return list(_dataframe_to_data_files(table.metadata, rows, table.io, write_uuid=uuid.uuid4()))


def transaction_of(table: Table) -> Transaction:
    """A transaction that raises `TableMovedError` if the table has changed since it was loaded."""
    from pyiceberg.table import Transaction as Base

    class OneAttempt(Base):
        """Commits at the first attempt or not at all."""

        _known: tuple[object, TableMetadata] | None = None
        """Updates, and the metadata that they have led to."""

        @property
        def table_metadata(self) -> TableMetadata:
            if self._known is None or self._known[0] is not self._updates:
                self._known = (self._updates, super().table_metadata if self._updates else self._table.metadata)
            return self._known[1]

        def _rebuild_snapshot_updates(self) -> None:
            raise TableMovedError

    return OneAttempt(table)


def appending(transaction: Transaction, summary: dict[str, str]) -> _FastAppendFiles:
    """A snapshot that only adds files."""
    return transaction._append_snapshot_producer(summary)


def overwriting(table: Table, transaction: Transaction, summary: dict[str, str]) -> _OverwriteFiles:
    """A snapshot that adds and removes files."""
    from pyiceberg.table.snapshots import Operation
    from pyiceberg.table.update.snapshot import _OverwriteFiles as Base

    class Overwrite(Base):
        """Keeps no manifests without files of the table."""

        def _process_manifests(self, manifests: list[ManifestFile]) -> list[ManifestFile]:
            return [
                each
                for each in super()._process_manifests(manifests)
                if each.has_added_files() or each.has_existing_files() or each.added_snapshot_id == self._snapshot_id
            ]

    return Overwrite(Operation.OVERWRITE, transaction, table.io, snapshot_properties=summary)
