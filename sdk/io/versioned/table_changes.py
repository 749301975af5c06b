"""What: the changes of the rows of a table that has versions, by comparison of data files where need be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import cast

import pyarrow as pa

from headrace.lowlevel.injectors.injector import Split
from headrace.lowlevel.records.record import Batch
from headrace.lowlevel.time import DurationTypes
from headrace.sdk.functions.changelog import RowChange, RowOperation
from headrace.sdk.io.columns.tables import to_dicts, to_rows
from headrace.sdk.io.files.filesystem import MatchedFile
from headrace.sdk.io.parquet.parquet_source import ParquetFormat
from headrace.sdk.io.timestamps import TimestampOf, delay_micros
from headrace.sdk.io.versioned.table_versions import check_continuous

WHOLE = 1 << 62
"""More rows than a file has."""


@dataclass(frozen=True, slots=True)
class VersionStamp:
    """What changes of one version have in common."""

    sequence: tuple[int, ...]
    """Orders versions; changes have one number more, as deletions come before the other changes of a version."""
    committed_us: int
    """When the version was committed, microseconds UTC: the event time of changes, unless a column gives it."""

    def changes(
        self, form: ParquetFormat, rows: pa.RecordBatch, operations: Sequence[RowOperation], file: MatchedFile
    ) -> Batch:
        """The changes of rows; there is an operation for each."""
        fields = rows if form.columns is None else rows.select(list(form.columns))
        elements = to_rows(fields) if form.as_rows else to_dicts(fields)
        committed = [self.committed_us] * rows.num_rows
        times = committed if form.timestamp is None else form.event_times(rows, elements, file)
        pairs = zip(operations, elements, strict=True)
        return Batch([self._change(operation, element) for operation, element in pairs], times)

    def _change(self, operation: RowOperation, row: object) -> RowChange:
        if operation is RowOperation.DELETE:
            return RowChange(operation, row, None, (*self.sequence, 0))
        return RowChange(operation, None, row, (*self.sequence, 1))


UNKNOWN_VERSION = VersionStamp((0,), 0)
"""What a format of changes has until a file is planned."""


@dataclass(frozen=True, slots=True)
class ComparedFiles:
    """The changes of a version that has rewritten files, for one task: rows of both sides have not changed."""

    removed: tuple[Split, ...]
    """Rows of removed files, as deletions."""
    added: tuple[Split, ...]
    """Rows of added files, as insertions."""

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
    """A hash of each row and its event time, which is equal for equal ones."""
    changes = cast("list[RowChange]", batch.values)
    rows = [change.after if change.before is None else change.before for change in changes]
    pairs = zip(rows, batch.timestamps, strict=True)
    return [blake2b(repr((row, int(micros))).encode(), digest_size=16).digest() for row, micros in pairs]


def delay_of(
    timestamp: TimestampOf, max_delay: DurationTypes | None, continuous: bool, interval: float, changes: bool
) -> int | None:
    """Microseconds of `max_delay`. Versions are in the order of their commits, so changes at these need no delay.

    Raises `ValueError` or `TypeError` if the arguments do not fit together.
    """
    if changes and continuous and timestamp is None:
        check_continuous(None, None, False, interval)
        return delay_micros(0 if max_delay is None else max_delay)
    return check_continuous(timestamp, max_delay, continuous, interval)
