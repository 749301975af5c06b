"""What: a table that grows by versions, as input: all files of one version, then those that each later version adds."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar, cast

import pyarrow as pa

from headrace.lowlevel.injectors.injector import BaseInjector, Delivery, Split
from headrace.lowlevel.stored_names import named
from headrace.lowlevel.time import MAX_TIMESTAMP, Duration, DurationTypes
from headrace.lowlevel.watermarks.far_future import DAY
from headrace.sdk.io.columns.tables import check_column_names
from headrace.sdk.io.files.reading.pieces import Pieces
from headrace.sdk.io.timestamps import TimestampOf, check_timestamp

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


@named("TableInjector")
class TableInjector(BaseInjector, ABC, Generic[FileT]):
    """Reads the files of a version, and those that later versions add.

    Args:
        max_delay: Microseconds that the watermark stays behind the greatest timestamp; None for none before the end.
        interval: Seconds between two looks for a new version.
    """

    def __init__(self, max_delay: int | None, interval: float) -> None:
        self.max_delay = max_delay
        self._interval = interval
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
        latest = time.time_ns() // 1000 + DAY if follows else MAX_TIMESTAMP
        return Delivery(
            _for_tasks(pieces, splits), at.plain(), done=done, latest=latest, idle=idle, quiet_seconds=quiet
        )

    def _files(self, at: TablePosition) -> list[FileT]:
        if self._known is None or self._known[:2] != (at.version, at.is_whole):
            self._known = (at.version, at.is_whole, self.planned(at))
        return self._known[2]


def _for_tasks(pieces: Sequence[Split], splits: int) -> list[Split]:
    """The pieces for tasks, neighbours together."""
    each = max(1, -(-len(pieces) // max(1, splits)))
    groups = [tuple(pieces[first : first + each]) for first in range(0, len(pieces), each)]
    return [group[0] if len(group) == 1 else Pieces(group) for group in groups]


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


def check_columns(table: str, schema: pa.Schema, columns: Sequence[str] | None, timestamp: TimestampOf) -> None:
    """Raise `ValueError` for a column that is to be read and that the table does not have, `TypeError` for no list."""
    if columns is not None:
        check_column_names("columns", columns)
    used = [*(columns or ()), *([timestamp] if isinstance(timestamp, str) else [])]
    if unknown := [name for name in used if name not in schema.names]:
        raise ValueError(f"{table} has no column {unknown[0]!r}; it has {schema.names}")


def check_options(name: str, options: object) -> None:
    """Raise `TypeError` for an argument that is no mapping of texts, without the values, which may be secret."""
    if options is None:
        return
    if not isinstance(options, Mapping):
        raise TypeError(f"{name} must be a dict of names and texts, got an object of type {type(options).__name__}")
    for key, value in options.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise TypeError(f"{name} must be a dict of names and texts, but {key!r:.80} is a {type(value).__name__}")
