"""Parquet files in folders by the values of columns, exactly once, as Hive, Spark and Arrow have them."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import BinaryIO, Protocol, cast
from urllib.parse import quote

import pyarrow as pa

from headrace.lowlevel.errors import CheckpointError
from headrace.lowlevel.record import Batch
from headrace.sdk.io.files import Path, open_output
from headrace.sdk.io.filesink import FileSink, PartWriter, part_of
from headrace.sdk.io.foldercolumns import NULL
from headrace.sdk.io.tables import table_of

_FOLDER = re.compile(r"[^/\\\0=]+=[^/\\\0]*")


class TableWriter(PartWriter, Protocol):
    """Writes rows with columns."""

    @property
    def schema(self) -> pa.Schema | None:
        """The columns and their types; None for what the elements suggest."""

    def write_table(self, table: pa.Table, file: BinaryIO) -> None:
        """Make a file of some rows."""


class PartitionedSink(FileSink):
    """Each epoch's rows become files `<folder>/<column>=<value>/…/<name>-<epoch>-<number><suffix>`.

    The columns are in the names of the folders and no longer in the files. See `FileSink` for what readers see.

    Args:
        prefix: Folder and beginning of the names.
        suffix: End of the names.
        writer: How a part is written.
        columns: The columns that make the folders, from the outermost in.
    """

    def __init__(self, prefix: Path, suffix: str, writer: TableWriter, columns: Sequence[str]) -> None:
        super().__init__(prefix, suffix, writer)
        self._tables = writer
        self._columns = tuple(columns)

    def stage(self, batch: Batch, epoch: int, interval: int, token: str) -> bytes | None:
        """In the task: a hidden file for each folder; the receipt says which file is for which."""
        if not len(batch):
            return None
        table = table_of(batch, self._tables.schema)
        if missing := [name for name in self._columns if name not in table.column_names]:
            raise ValueError(f"the elements have no column {missing[0]!r}; they have {table.column_names}")
        if not set(table.column_names) - set(self._columns):
            raise ValueError(f"partition_by takes all columns ({', '.join(self._columns)}); leave one for the files")
        staged = []
        for number, (folder, part) in enumerate(sorted(self._parts(table).items())):
            name = self._staged(epoch, interval, f"{token}-{number}")
            with open_output(self._hidden_path(name)) as file:
                self._tables.write_table(table.take(part).drop_columns(list(self._columns)), file)
            staged.append((name, folder))
        return json.dumps(staged).encode()

    def _parts(self, table: pa.Table) -> dict[str, list[int]]:
        """Folder -> the rows that belong there."""
        columns = [table.column(name).to_pylist() for name in self._columns]
        parts: dict[str, list[int]] = {}
        for row, values in enumerate(zip(*columns, strict=True)):
            parts.setdefault(_folder(self._columns, values), []).append(row)
        return parts

    def name_parts(self, epoch: int, receipts: Sequence[bytes], infix: str = "", numbered_of: bool = False) -> None:
        """Move parts into their folders; see `FileSink`."""
        system, path, hidden, name = self._places()
        top = path.rpartition("/")[0]
        places: dict[str, list[str]] = {}
        for receipt in receipts:
            for given, folder in cast("list[tuple[object, object]]", json.loads(receipt)):
                places.setdefault(_checked(folder), []).append(part_of(given, f"{name}-{epoch:06d}-"))
        for place, parts in places.items():
            system.create_dir(f"{top}/{place}", recursive=True)
            of = f"-of-{len(parts):05d}" if numbered_of else ""
            for number, part in enumerate(parts):
                final = f"{top}/{place}/{name}{infix}-{epoch:06d}-{number:05d}{of}"
                self._move(system, f"{hidden}/{part}", final, epoch)


def _folder(columns: Sequence[str], values: Sequence[object]) -> str:
    """The folder of some values.

    >>> _folder(["day", "shop"], ["2024-01-02", None]), _folder(["a"], ["x/y"])
    ('day=2024-01-02/shop=__HIVE_DEFAULT_PARTITION__', 'a=x%2Fy')
    """
    texts = [NULL if value is None else quote(str(value), safe=" ") for value in values]
    return "/".join(f"{quote(column, safe=' ')}={text}" for column, text in zip(columns, texts, strict=True))


def _checked(folder: object) -> str:
    """A folder of a receipt: receipts come out of the checkpoint, where others may have written."""
    if not isinstance(folder, str) or not all(map(_FOLDER.fullmatch, folder.split("/"))):
        raise CheckpointError(
            f"the checkpoint has a receipt for folder {folder!r:.200}, which is none of columns and values; somebody "
            "else wrote it. Nothing was moved for it"
        )
    return folder
