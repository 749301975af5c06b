"""An exactly-once sink of files in folders named by column values, as in Hive, Spark and Arrow."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

import pyarrow as pa

from headrace.lowlevel.records.record import Batch
from headrace.lowlevel.stored_names import named
from headrace.sdk.io.files.file_sink import FileSink, IfExists, TableWriter
from headrace.sdk.io.files.filesystem import Path
from headrace.sdk.io.files.output_files import StagedFile
from headrace.sdk.io.parquet.hive_partitions import NULL


@named("PartitionedSink")
class PartitionedSink(FileSink):
    """Writes rows to files in folders `<folder>/<column>=<value>/…`; files are numbered within each folder.

    The files do not contain the columns that name the folders. See `FileSink` for what readers see.

    Args:
        prefix: Folder and beginning of the file names.
        suffix: End of the file names.
        writer: Writer of a file.
        columns: The columns whose values name the folders, outermost first.
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
        self._writer_of_tables = writer
        self.columns = tuple(columns)

    def write_parts(self, batch: Batch, epoch: int, interval: int, token: str) -> list[StagedFile]:
        """Write a hidden file for each folder. Raises `ValueError` for a missing column, or without another column."""
        writer = self._writer_of_tables
        table = writer.columns.table_of(batch)
        if missing := [name for name in self.columns if name not in table.column_names]:
            raise ValueError(f"the elements have no column {missing[0]!r}; they have {table.column_names}")
        if not set(table.column_names) - set(self.columns):
            raise ValueError(f"partition_by takes all columns ({', '.join(self.columns)}); leave one for the files")
        staged = []
        for number, (folder, rows) in enumerate(sorted(self._rows_by_folder(table).items())):
            part = self.write_table(writer, table.take(rows), epoch, interval, f"{token}-{number}")
            staged.append(part._replace(folder=folder))
        return staged

    def _rows_by_folder(self, table: pa.Table) -> dict[str, list[int]]:
        """Folder -> indices of its rows."""
        columns = [table.column(name).to_pylist() for name in self.columns]
        folders: dict[str, list[int]] = {}
        for row, values in enumerate(zip(*columns, strict=True)):
            folders.setdefault(_folder(self.columns, values), []).append(row)
        return folders


def _folder(columns: Sequence[str], values: Sequence[object]) -> str:
    """The folder for values of columns, with a slash between columns.

    >>> _folder(["day", "shop"], ["2024-01-02", None]), _folder(["a"], ["x/y"])
    ('day=2024-01-02/shop=__HIVE_DEFAULT_PARTITION__', 'a=x%2Fy')
    """
    texts = [_text(column, value) for column, value in zip(columns, values, strict=True)]
    return "/".join(f"{quote(column, safe=' ')}={text}" for column, text in zip(columns, texts, strict=True))


def _text(column: str, value: object) -> str:
    """The text of a value in the name of a folder. Raises `ValueError` for one that would be read as another."""
    if value == NULL or isinstance(value, (bytes, list, dict)):
        raise ValueError(
            f"column {column!r} has the value {value!r:.80}, which as the name of a folder would be read as "
            f"{'null' if value == NULL else 'another'}; map it to another text, or leave the column out of partition_by"
        )
    return NULL if value is None else quote(str(value), safe=" ")
