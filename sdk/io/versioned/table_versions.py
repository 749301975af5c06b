"""What: a table that grows by versions, as input: all files of one version, then those that each later version adds."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar, cast

import pyarrow as pa

from headrace.lowlevel.code_pickling import Portable
from headrace.lowlevel.injectors.injector import BaseInjector, Delivery, Split, divided
from headrace.lowlevel.stored_names import named
from headrace.lowlevel.time import MAX_TIMESTAMP, Duration, DurationTypes
from headrace.lowlevel.watermarks.far_future import DAY
from headrace.sdk.io.argument_checks import check_column_names
from headrace.sdk.io.files.file_times import FileTimes
from headrace.sdk.io.files.pieces import Pieces
from headrace.sdk.io.parquet.hive_partitions import FolderColumns
from headrace.sdk.io.parquet.parquet_source import ParquetFormat
from headrace.sdk.io.timestamps import TimestampOf, check_timestamp, now_micros
from headrace.sdk.transforms.core.low_level import Source

FileT = TypeVar("FileT")
"""A data file, as the table's format describes it."""


@dataclass(frozen=True, slots=True)
class TablePosition:
    """The position of the source. Persisted: every field, as a tuple."""

    version: int | None
    """The version or snapshot whose files are read; None for a table that has none yet."""
    is_whole: bool
    """Whether all of its files are read, or those that it has added."""
    file: int = 0
    """Number of the next file."""
    row: int = 0
    """Number of its next row."""
    table: str = ""
    """What tells the table from another at its place, if its versions do not."""

    def plain(self) -> object:
        """The position for the checkpoint."""
        return (self.version, self.is_whole, self.file, self.row, self.table)

    @classmethod
    def of(cls, plain: object) -> TablePosition:
        """The position of the result of `plain`."""
        return cls(*cast("tuple[int | None, bool, int, int, str]", plain))


@dataclass(frozen=True, slots=True)
class VersionRange:
    """Which versions of a table are read, and when later ones are looked for."""

    first: int | None
    """The version that is read as a whole; None for the newest one when the pipeline first starts."""
    continuous: bool
    """Whether later versions are read."""
    until: int | None
    """The last version; None for no end."""
    max_delay: int | None
    """Microseconds that the watermark stays behind the greatest timestamp; None for none before the end."""
    interval: float
    """Seconds between two looks for a new version."""


@named("TableInjector")
class TableInjector(BaseInjector, ABC, Generic[FileT]):
    """Reads the files of a version, and those that later versions add.

    Args:
        versions: Which ones are read.
    """

    def __init__(self, versions: VersionRange) -> None:
        self.max_delay = versions.max_delay
        self.is_bounded = self.max_delay is None and (not versions.continuous or versions.until is not None)
        self._versions, self._interval = versions, versions.interval
        self._looked = float("-inf")
        self._known: tuple[int | None, bool, list[FileT]] | None = None
        """The version that was looked at last, and its files."""

    @abstractmethod
    def planned(self, at: TablePosition) -> list[FileT]:
        """The files of a version or those that it has added, always in the same order."""

    @abstractmethod
    def cut(self, file: FileT, row: int, records: int) -> tuple[Split, int, int | None]:
        """Rows of a file from one on, about so many: their split, their number, the next row if there is one."""

    @abstractmethod
    def following(self, at: TablePosition) -> int | None:
        """The version after one that is not the last, as far as it is time to look."""

    @abstractmethod
    def is_last(self, at: TablePosition) -> bool:
        """Whether no later version is read."""

    def plan(self, position: object, limit: int, splits: int) -> Delivery:
        """The next files, in the order of versions."""
        at, total = TablePosition.of(position), 0
        share = max(1, -(-limit // max(1, splits)))
        pieces: list[Split] = []
        while total < limit:
            found = self._files(at)
            if at.file < len(found):
                piece, count, row = self.cut(found[at.file], at.row, min(share, limit - total))
                pieces.append(piece)
                total += max(1, count)
                at = replace(at, file=at.file + 1, row=0) if row is None else replace(at, row=row)
            elif self.is_last(at) or (version := self.following(at)) is None:
                break
            else:
                at = TablePosition(version, False, table=at.table)
        done = at.file >= len(self._files(at)) and self.is_last(at)
        idle = not pieces and not done
        quiet = max(0.0, self._looked + self._interval - time.monotonic()) if idle else None
        follows = self.max_delay is not None and not self.is_last(at)
        latest = now_micros() + DAY if follows else MAX_TIMESTAMP
        tasks = [part[0] if len(part) == 1 else Pieces(tuple(part)) for part in divided(pieces, splits)]
        return Delivery(tasks, at.plain(), done=done, latest=latest, idle=idle, quiet_seconds=quiet)

    def _files(self, at: TablePosition) -> list[FileT]:
        if self._known is None or self._known[:2] != (at.version, at.is_whole):
            self._known = (at.version, at.is_whole, self.planned(at))
        return self._known[2]


class TableSource(Source):
    """The base of sources of tables that have versions."""

    def __init__(self, schema: pa.Schema, format_: ParquetFormat, versions: VersionRange) -> None:
        super().__init__()
        self._schema, self._format, self._versions = schema, format_, versions
        self.is_bounded = not versions.continuous or versions.until is not None

    def arrow_schema(self) -> pa.Schema | None:
        """See `Source`: the columns of the table."""
        columns = self._format.columns
        return self._schema if columns is None else pa.schema([self._schema.field(name) for name in columns])


def reading(
    table: str, schema: pa.Schema, columns: Sequence[str] | None, as_rows: bool, timestamp: TimestampOf
) -> tuple[tuple[str, ...] | None, bool, TimestampOf, FileTimes, FolderColumns]:
    """How rows of a table become elements: the first arguments of `ParquetFormat`.

    Raises `ValueError` for a column that is to be read and that the table does not have, `TypeError` for no list.
    """
    if columns is not None:
        check_column_names("columns", columns)
    used = [*(columns or ()), *([timestamp] if isinstance(timestamp, str) else [])]
    if unknown := [name for name in used if name not in schema.names]:
        raise ValueError(f"{table} has no column {unknown[0]!r}; it has {schema.names}")
    by = Portable(timestamp, "the function timestamp") if callable(timestamp) else timestamp
    return None if columns is None else tuple(columns), as_rows, by, FileTimes(False, None), FolderColumns()


def check_continuous(
    timestamp: TimestampOf, max_delay: DurationTypes | None, continuous: bool, interval: DurationTypes
) -> int | None:
    """Microseconds of `max_delay`. Raises `ValueError` or `TypeError` if the arguments do not fit together."""
    delay = check_timestamp(timestamp, max_delay)
    if continuous and delay is None:
        raise ValueError("continuous reading needs event times, and how late they may be; give timestamp and max_delay")
    if Duration.of(interval).micros < 0:
        raise ValueError(f"interval is {interval!r:.80} s; give 0 or more seconds")
    return delay
