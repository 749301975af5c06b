"""Parquet files in folders by the values of columns, exactly once, as Hive, Spark and Arrow have them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import BinaryIO, Protocol
from urllib.parse import quote

import pyarrow as pa

from headrace.lowlevel.record import Batch
from headrace.sdk.io.fileparts import Part
from headrace.sdk.io.files import Path, open_output
from headrace.sdk.io.filesink import FileSink, IfExists, PartWriter
from headrace.sdk.io.foldercolumns import NULL
from headrace.sdk.io.tables import table_of


class TableWriter(PartWriter, Protocol):
    """Writes rows with columns."""

    @property
    def schema(self) -> pa.Schema | None:
        """The columns and their types; None for what the elements suggest."""

    def write_table(self, table: pa.Table, file: BinaryIO) -> None:
        """Make a file of some rows."""


class PartitionedSink(FileSink):
    """Rows become files in folders `<folder>/<column>=<value>/…`, with names and numbers of their own in each.

    The columns are in the names of the folders and no longer in the files. See `FileSink` for what readers see.

    Args:
        prefix: Folder and beginning of the names.
        suffix: End of the names.
        writer: How a part is written.
        columns: The columns that make the folders, from the outermost in.
        if_exists: As for `FileSink`.
    """

    def __init__(
        self,
        prefix: Path,
        suffix: str,
        writer: TableWriter,
        columns: Sequence[str],
        if_exists: IfExists = "replace",
    ) -> None:
        super().__init__(prefix, suffix, writer, if_exists)
        self._tables = writer
        self.columns = tuple(columns)

    def write_parts(self, batch: Batch, epoch: int, interval: int, token: str) -> list[Part]:
        """A hidden file for each folder."""
        table = table_of(batch, self._tables.schema)
        if missing := [name for name in self.columns if name not in table.column_names]:
            raise ValueError(f"the elements have no column {missing[0]!r}; they have {table.column_names}")
        if not set(table.column_names) - set(self.columns):
            raise ValueError(f"partition_by takes all columns ({', '.join(self.columns)}); leave one for the files")
        staged = []
        for number, (folder, rows) in enumerate(sorted(self._parts(table).items())):
            some = table.take(rows).drop_columns(list(self.columns))
            part = self.write_part(epoch, interval, f"{token}-{number}", partial(self._write, some))
            staged.append(part._replace(folder=folder))
        return staged

    def _write(self, table: pa.Table, path: str) -> None:
        with open_output(path) as file:
            self._tables.write_table(table, file)

    def _parts(self, table: pa.Table) -> dict[str, list[int]]:
        """Folder -> the rows that belong there."""
        columns = [table.column(name).to_pylist() for name in self.columns]
        parts: dict[str, list[int]] = {}
        for row, values in enumerate(zip(*columns, strict=True)):
            parts.setdefault(_folder(self.columns, values), []).append(row)
        return parts


def _folder(columns: Sequence[str], values: Sequence[object]) -> str:
    """The folder of some values.

    >>> _folder(["day", "shop"], ["2024-01-02", None]), _folder(["a"], ["x/y"])
    ('day=2024-01-02/shop=__HIVE_DEFAULT_PARTITION__', 'a=x%2Fy')
    """
    texts = [NULL if value is None else quote(str(value), safe=" ") for value in values]
    return "/".join(f"{quote(column, safe=' ')}={text}" for column, text in zip(columns, texts, strict=True))
