"""Data files of a Delta table: written by tasks, and unseen until a version of the table names them."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime
from secrets import token_hex
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs

from headrace.sdk.io.delta.delta_table import TableLocation
from headrace.sdk.io.files.durable_files import keep_files
from headrace.sdk.io.parquet.hive_partitions import rows_by

if TYPE_CHECKING:
    from deltalake.transaction import AddAction


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file that a task has written. Persisted as part of a receipt: every field, as JSON."""

    path: str
    """Path below the table's folder."""
    size: int
    partition: dict[str, str | None]
    """Partition column -> value, as Delta's protocol writes it."""
    stats: str

    def added(self) -> AddAction:
        """The action that adds the file."""
        from deltalake.transaction import AddAction

        now = time.time_ns() // 1_000_000
        return AddAction(self.path, self.size, self.partition, now, True, self.stats)


@dataclass(frozen=True, slots=True)
class DataFiles(TableLocation):
    """Writes and finds the data files of a table.

    Args:
        place: See `TableLocation`.
        options: See `TableLocation`.
        partition_by: The partition columns, which files do not contain.
    """

    partition_by: Sequence[str]

    def write(self, table: pa.Table, name: str) -> list[DataFile]:
        """Write rows, a file for each partition; returns when the files are durable."""
        system = self.files()
        return [
            self._write(system, table.take(rows), values, f"{name}-{number}-{token_hex(8)}.parquet")
            for number, (values, rows) in enumerate(self._partitions(table).items())
        ]

    def _write(self, system: fs.FileSystem, table: pa.Table, values: Sequence[str | None], path: str) -> DataFile:
        contents = table.drop_columns(list(self.partition_by))
        with system.open_output_stream(path) as file:
            pq.write_table(contents, file, compression="snappy")
        if (folder := self.folder) is not None:
            keep_files(fs.LocalFileSystem(), [f"{folder}/{path}"])
        partition = dict(zip(self.partition_by, values, strict=True))
        return DataFile(path, system.get_file_info(path).size, partition, json.dumps(stats_of(contents)))

    def _partitions(self, table: pa.Table) -> dict[tuple[str | None, ...], list[int]]:
        """Values of the partition columns -> indices of their rows."""
        if not self.partition_by:
            return {(): list(range(table.num_rows))}
        return rows_by(table, self.partition_by, lambda values: tuple(map(partition_value, values)))

    def lost(self, paths: Iterable[str]) -> list[str]:
        """The files among some that no longer exist."""
        found = self.files().get_file_info(list(paths))
        return [info.path for info in found if info.type != fs.FileType.File]


def encoded(written: Iterable[DataFile]) -> bytes:
    """Files as the contents of a receipt."""
    return json.dumps([asdict(file) for file in written]).encode()


def decoded(receipt: bytes) -> list[DataFile]:
    """The files of the result of `encoded`."""
    return [DataFile(**file) for file in json.loads(receipt)]


def has_partition_values(kind: pa.DataType) -> bool:
    """Whether values of a type have a text by which all readers of Delta know them; of bytes there are several."""
    return not pa.types.is_nested(kind) and not pa.types.is_binary(kind)


def partition_value(value: object) -> str | None:
    """The value of a partition column as Delta's protocol writes it; an empty text is null there.

    >>> partition_value(True), partition_value(date(2024, 1, 2)), partition_value(datetime(2024, 1, 2, tzinfo=UTC))
    ('true', '2024-01-02', '2024-01-02 00:00:00.000000')
    """
    if value is None or value == "":
        return None
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        return (value.astimezone(UTC) if value.tzinfo else value).strftime("%Y-%m-%d %H:%M:%S.%f")
    return value.isoformat() if isinstance(value, date) else str(value)


def stats_of(table: pa.Table) -> dict[str, object]:
    """Statistics by which readers leave files out: rows, nulls, and bounds of columns of numbers and times.

    >>> stats_of(pa.table({"a": [1, None], "b": ["x", "y"]}))
    {'numRecords': 2, 'nullCount': {'a': 1, 'b': 0}, 'minValues': {'a': 1}, 'maxValues': {'a': 1}}
    """
    least: dict[str, object] = {}
    greatest: dict[str, object] = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        kind = column.type
        # NaN is greater than all numbers in Delta, and no bound that JSON has.
        is_number = pa.types.is_integer(kind) or (pa.types.is_floating(kind) and not pc.any(pc.is_nan(column)).as_py())
        if is_number or pa.types.is_date32(kind):
            bounds = pc.min_max(column).as_py()
            low, high = _plain(bounds["min"]), _plain(bounds["max"])
            if low is not None and high is not None:
                least[name], greatest[name] = low, high
    nulls = {
        name: column.null_count
        for name, column in zip(table.column_names, table.columns, strict=True)
        if not pa.types.is_nested(column.type)
    }
    return {"numRecords": table.num_rows, "nullCount": nulls, "minValues": least, "maxValues": greatest}


def _plain(value: object) -> object:
    """A bound for JSON; None if it is none."""
    if isinstance(value, date):
        return value.isoformat()
    return None if isinstance(value, float) and not math.isfinite(value) else value
