"""Delta tables by the package deltalake: opening, marks of sinks in their transactions, and the files of their rows."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa
from pyarrow import fs

from headrace.lowlevel.errors import HeadraceError
from headrace.lowlevel.storage.object_store import PATIENCE_SECONDS
from headrace.sdk.io.epoch_sink import SinkMark

if TYPE_CHECKING:
    from deltalake import CommitProperties, DeltaTable

StorageOptions: TypeAlias = Mapping[str, str] | None
"""Options of deltalake for an object store, such as its address and keys."""
_COLOR = re.compile(r"\x1b\[\d*m|↳")
_BACKTRACE = re.compile(r"\s0: <unknown>.*", re.DOTALL)


class DeltaError(HeadraceError, RuntimeError):
    """A Delta table could not be read or written; the message says what is committed.

    >>> import headrace as beam
    >>> from headrace.io.delta import ReadFromDelta
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     _ = pipeline | ReadFromDelta("/no/such/table")
    Traceback (most recent call last):
      ...
    headrace.sdk.io.delta.delta_table.DeltaError: /no/such/table cannot be read as a Delta table; nothing has run: ...
    """


@dataclass(frozen=True, slots=True)
class TableLocation:
    """The folder of a table, and how it is reached."""

    place: str
    """An absolute path or a URL."""
    options: StorageOptions

    @property
    def folder(self) -> str | None:
        """The folder on a disk of this machine; None for a table in an object store.

        >>> [TableLocation(place, None).folder for place in ("/lake/sales", "file:///lake/sales", "s3://lake/sales")]
        ['/lake/sales', '/lake/sales', None]
        """
        path = self.place.removeprefix("file://")
        return None if "://" in path else path

    @property
    def patient_options(self) -> dict[str, str] | None:
        """The options, so that a store that does not answer is given up as soon as that of a checkpoint is.

        >>> TableLocation("s3://bucket/table", {"timeout": "5s"}).patient_options
        {'retry_timeout': '60s', 'timeout': '5s'}
        """
        if self.folder is not None:
            return None if self.options is None else dict(self.options)
        bounds = {"retry_timeout": f"{PATIENCE_SECONDS:.0f}s", "timeout": f"{PATIENCE_SECONDS / 2:.0f}s"}
        return {**bounds, **(self.options or {})}

    def opened(self, version: int | None = None) -> DeltaTable:
        """The table at its newest version, or another. Raises `TableNotFoundError` or `DeltaError` of deltalake."""
        from deltalake import DeltaTable

        return DeltaTable(self.place, version=version, storage_options=self.patient_options)

    def files(self) -> fs.FileSystem:
        """The files of the table as a file system, whose root is the table's folder."""
        from deltalake.fs import DeltaStorageHandler

        return fs.PyFileSystem(DeltaStorageHandler(self.place, self.patient_options))


def reason(error: Exception) -> str:
    """The text of an error of deltalake in one line, without colors and the places in its own code."""
    return " ".join(_BACKTRACE.sub("", _COLOR.sub("", str(error))).split())


def arrow_schema(table: DeltaTable) -> pa.Schema:
    """The columns of a table, in their order."""
    return pa.schema(table.schema().to_arrow())


def _applications(sink: str) -> tuple[str, str]:
    """Names of the applications whose versions are the mark: the run, and its epoch."""
    return f"headrace/{sink}/run", f"headrace/{sink}/epoch"


def mark_of(table: DeltaTable, sink: str) -> SinkMark | None:
    """What the table keeps under the name of a sink."""
    run, epoch = map(table.transaction_version, _applications(sink))
    return None if run is None or epoch is None else SinkMark(run, epoch)


def moving(sink: str, mark: SinkMark) -> CommitProperties:
    """What a commit needs to move the mark. Of two commits at once that move a mark only one gets its place."""
    from deltalake import CommitProperties, Transaction

    run, epoch = _applications(sink)
    return CommitProperties(
        app_transactions=[Transaction(run, mark.run), Transaction(epoch, mark.epoch)], max_commit_retries=15
    )
