"""What the package uses of pyiceberg without a promise of its documentation; check this module at each upgrade.

- `_dataframe_to_data_files` writes rows as data files of a table, with statistics and partitions, and commits nothing.
  It is what `Table.append` calls. If it changes, tasks can write Parquet files for `Transaction.add_files`, which knows
  fewer partition transforms.
- A transaction whose commit fails because the table has changed builds its snapshots anew and tries again
  (`_rebuild_snapshot_updates`). An epoch that somebody else has written meanwhile would then be there twice, so this
  gives up instead, and the sink looks at the table first.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table, Transaction


class TableMovedError(Exception):
    """Another commit was faster; nothing of this transaction is in the table."""


def written_files(table: Table, rows: pa.Table) -> list[DataFile]:
    """Data files with rows, which no snapshot of the table names yet."""
    from pyiceberg.io.pyarrow import _dataframe_to_data_files

    return list(_dataframe_to_data_files(table.metadata, rows, table.io, write_uuid=uuid.uuid4()))


def transaction_of(table: Table) -> Transaction:
    """A transaction that raises `TableMovedError` if the table has changed since it was loaded."""
    from pyiceberg.table import Transaction as Base

    class OneAttempt(Base):
        """Commits at the first attempt or not at all."""

        def _rebuild_snapshot_updates(self) -> None:
            raise TableMovedError

    return OneAttempt(table)
