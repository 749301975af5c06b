"""Counts the records that a task reads in an epoch of one stage, and hashes them if other tasks read the same."""

from __future__ import annotations

import time
from hashlib import blake2b

from headrace.lowlevel.columnar.arrow_ipc import encode_tables
from headrace.lowlevel.errors import HeadraceError
from headrace.lowlevel.records.column_batch import ColumnBatch
from headrace.lowlevel.records.record import Batch

MOST_SECONDS = 2.0
"""Seconds after which a task gives up an epoch of one stage, so that several tasks can share its work."""


class TooMuchError(HeadraceError, RuntimeError):
    """An epoch is too large for one stage. Nothing of it is committed; the executor runs it again, level by level."""


class UnlikeError(HeadraceError, RuntimeError):
    """Tasks that should read the same records cannot compare them. The consequences are those of `TooMuchError`."""


class RecordsRead:
    """The records that the current task of this process has read; they are hashed only if other tasks read the same."""

    def __init__(self) -> None:
        self.begin(is_shared=False)

    def begin(self, is_shared: bool) -> None:
        """Begin a task; `is_shared` says whether other tasks are to read the same records."""
        self._began, self._records = time.perf_counter(), 0
        self._is_shared, self._hash = is_shared, blake2b(digest_size=16)

    def add(self, batch: Batch, most: int) -> None:
        """Count a batch of an epoch that may have `most` records. Raises `TooMuchError` or `UnlikeError`."""
        self._records += len(batch)
        if self._records > most or time.perf_counter() - self._began > MOST_SECONDS:
            raise TooMuchError("an epoch has too many records for one stage")
        if self._is_shared:
            if not isinstance(batch, ColumnBatch):
                raise UnlikeError("an epoch has records that are not columns")
            # Equal numbers of records prove nothing, as a file may be written while it is read.
            self._hash.update(encode_tables([batch.table], batch.table.schema))
            self._hash.update(batch.times.tobytes())

    def digest(self) -> bytes:
        """The hash of all records that were read; empty if no other task is to read them."""
        return self._hash.digest() if self._is_shared else b""
