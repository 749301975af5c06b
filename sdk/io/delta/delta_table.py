"""Delta tables by the package deltalake: opening, versions, marks of sinks in their transactions, data files.

Tasks write data files, which are unseen until a version of the table names them. A version is read as its data files:
those of a snapshot, and those that a later version has added.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime
from secrets import token_hex
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs

from headrace.lowlevel.columnar.arrow_arrays import is_nested
from headrace.lowlevel.errors import HeadraceError
from headrace.lowlevel.storage.object_store import PATIENCE_SECONDS
from headrace.sdk.functions.changelog import RowOperation
from headrace.sdk.io.epoch_sink import SinkMark
from headrace.sdk.io.files.durable_files import keep_files
from headrace.sdk.io.parquet.hive_partitions import rows_by
from headrace.sdk.io.remote_filesystems import DELTALAKE, table_options

if TYPE_CHECKING:
    from deltalake import CommitProperties, DeltaTable
    from deltalake.transaction import AddAction


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

        Without keys among the options, a function of the program gives those of this moment, see `table_options`.

        >>> TableLocation("s3://bucket/table", {"timeout": "5s"}).patient_options
        {'retry_timeout': '60s', 'timeout': '5s'}
        """
        if self.folder is not None:
            return None if self.options is None else dict(self.options)
        bounds = {"retry_timeout": f"{PATIENCE_SECONDS:.0f}s", "timeout": f"{PATIENCE_SECONDS / 2:.0f}s"}
        return {**bounds, **table_options(self.place, DELTALAKE), **(self.options or {})}

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
    return not is_nested(kind) and not pa.types.is_binary(kind)


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
        if not is_nested(column.type)
    }
    return {"numRecords": table.num_rows, "nullCount": nulls, "minValues": least, "maxValues": greatest}


def _plain(value: object) -> object:
    """A bound for JSON; None if it is none."""
    if isinstance(value, date):
        return value.isoformat()
    return None if isinstance(value, float) and not math.isfinite(value) else value


_REMEDY = "read a snapshot of it with a bounded ReadFromDelta, or begin after it on an empty checkpoint: version={}"


@dataclass(frozen=True, slots=True)
class FileChanges:
    """What the rows of a file are to those who read changes."""

    operation: RowOperation | None
    """What happened to the rows; None if the file says it row by row."""
    version: int
    committed_us: int
    """When the version was committed, microseconds UTC."""
    compared: VersionChanges | None = None
    """The files to compare, of which the file is one; None if the file stands alone."""


@dataclass(frozen=True, slots=True)
class AddedFile:
    """A data file that a version names."""

    path: str
    """Path below the table's folder."""
    size: int
    modified_us: int
    """When it was written, microseconds UTC."""
    partition: tuple[tuple[str, str | None], ...]
    """Partition columns and their values, as the protocol writes them."""
    changes: FileChanges | None = None
    """None if the rows are read as they are."""


@dataclass(frozen=True, slots=True)
class VersionChanges:
    """What a version has changed."""

    committed_us: int
    """When it was committed, microseconds UTC."""
    added: tuple[AddedFile, ...] = ()
    removed: tuple[AddedFile, ...] = ()
    told: tuple[AddedFile, ...] = ()
    """Files that say it row by row; if there are some, `added` and `removed` are left empty."""


@dataclass(frozen=True, slots=True)
class DeltaLog(TableLocation):
    """The versions of a table."""

    def newest(self) -> tuple[int, str]:
        """The newest version, and what tells the table from one that is made anew at its place."""
        table = self.opened()
        return int(table.version()), str(table.metadata().id)

    def schema(self, version: int | None = None) -> pa.Schema:
        """The columns at a version, or at the newest. Raises `DeltaError` for columns that cannot be read."""
        table = self.opened(version)
        if table.metadata().configuration.get("delta.columnMapping.mode", "none") != "none":
            raise DeltaError(f"{self.place} has column mapping, which is not supported; nothing was read")
        schema = arrow_schema(table)
        for name in table.metadata().partition_columns:
            if not has_partition_values(schema.field(name).type):
                raise DeltaError(f"{self.place} is partitioned by {name!r}, which is of bytes; nothing was read")
        return schema

    def snapshot(self, version: int) -> list[AddedFile]:
        """All files of a version, ordered by path. Raises `DeltaError` for deletion vectors."""
        table = self.opened(version)
        if "deletionVectors" in (table.protocol().reader_features or ()) and any(table.deletion_vectors()):
            raise self._deletion_vectors(version)
        found = []
        for row in pa.table(table.get_add_actions(flatten=False)).to_pylist():
            partition = tuple((name, partition_value(value)) for name, value in (row.get("partition") or {}).items())
            found.append(AddedFile(unquote(row["path"]), row["size_bytes"], 1000 * row["modification_time"], partition))
        return sorted(found, key=lambda file: file.path)

    def exists(self, version: int) -> bool:
        """Whether a version has been written."""
        info = self.files().get_file_info(_entry(version))
        return bool(info.type == fs.FileType.File)

    def added(self, version: int) -> list[AddedFile]:
        """The files that a version has added, ordered by path; none for one that only arranges rows anew.

        Raises `DeltaError` for a version that deletes or changes rows, or whose log entry is gone.
        """
        actions = self._actions(version)
        if any(action["remove"].get("dataChange", True) for action in actions if "remove" in action):
            name = next((action["commitInfo"].get("operation") for action in actions if "commitInfo" in action), None)
            raise DeltaError(
                f"version {version} of {self.place} deletes or changes rows ({name or 'unknown operation'}), which "
                f"elements that were read cannot follow; nothing of it was read. To go on, {_REMEDY.format(version)}, "
                "or read changes=True"
            )
        adds = _changing(actions, "add")
        if any(add.get("deletionVector") for add in adds):
            raise self._deletion_vectors(version)
        return _files(adds)

    def changes(self, version: int) -> VersionChanges:
        """What a version has changed; no files for one that only arranges rows anew.

        Raises `DeltaError` for deletion vectors without change files, or if the log entry is gone.
        """
        actions = self._actions(version)
        committed = _committed(actions)
        if told := [action["cdc"] for action in actions if "cdc" in action]:
            return VersionChanges(committed, told=tuple(_files(told)))
        adds, removes = _changing(actions, "add"), _changing(actions, "remove")
        if any(each.get("deletionVector") for each in [*adds, *removes]):
            raise self._deletion_vectors(version)
        if any("partitionValues" not in each for each in removes) and self.opened().metadata().partition_columns:
            raise DeltaError(
                f"version {version} of {self.place} does not say which partitions its removed files were in; nothing "
                "of it was read. Let the writer of the table keep a change data feed (delta.enableChangeDataFeed)"
            )
        return VersionChanges(committed, tuple(_files(adds)), tuple(_files(removes)))

    def committed_us(self, version: int, files: Sequence[AddedFile]) -> int:
        """When a version was committed, microseconds UTC; if its entry is gone, when its last file was written."""
        committed = _committed(self._actions(version)) if self.exists(version) else 0
        return committed or max((file.modified_us for file in files), default=0)

    def _actions(self, version: int) -> list[dict[str, Any]]:
        """The entry of a version in the log. Raises `DeltaError` if there is none."""
        try:
            with self.files().open_input_stream(_entry(version)) as file:
                lines = file.read().decode().splitlines()
        except FileNotFoundError as error:
            raise DeltaError(
                f"version {version} of {self.place} is gone from its log, or never was; nothing of it was read. "
                f"Keep entries longer (delta.logRetentionDuration); to go on, {_REMEDY.format('…')}"
            ) from error
        return [json.loads(line) for line in lines if line.strip()]

    def unreadable(self, file: AddedFile, error: Exception) -> DeltaError:
        """The error for a data file that cannot be read."""
        info = self.files().get_file_info(file.path)
        if info.type == fs.FileType.File:
            return DeltaError(f"data file {file.path} of {self.place} cannot be read: {reason(error)}")
        return DeltaError(
            f"data file {file.path} of {self.place} is gone, as VACUUM removes those that newer versions do not name; "
            "nothing of it was read. Keep files longer (delta.deletedFileRetentionDuration); to go on, "
            + _REMEDY.format("…")
        )

    def _deletion_vectors(self, version: int) -> DeltaError:
        return DeltaError(
            f"version {version} of {self.place} has deletion vectors, which are not supported; nothing of it was read. "
            "Let the writer of the table apply them first (REORG TABLE … APPLY (PURGE))"
        )


def _entry(version: int) -> str:
    return f"_delta_log/{version:020d}.json"


def _changing(actions: Sequence[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    """The files that a version adds or removes, without those that only arrange rows anew."""
    return [action[kind] for action in actions if kind in action and action[kind].get("dataChange", True)]


def _files(named: Sequence[dict[str, Any]]) -> list[AddedFile]:
    """Files of actions, ordered by path. Removed files and change files have not all that added files have."""
    found = [
        AddedFile(
            unquote(each["path"]),
            each.get("size") or 0,
            1000 * (each.get("modificationTime") or 0),
            tuple((each.get("partitionValues") or {}).items()),
        )
        for each in named
    ]
    return sorted(found, key=lambda file: file.path)


def _committed(actions: Sequence[dict[str, Any]]) -> int:
    """When a version was committed, microseconds UTC; 0 if its entry does not say so."""
    info: dict[str, Any] = next((action["commitInfo"] for action in actions if "commitInfo" in action), {})
    return 1000 * int(info.get("inCommitTimestamp") or info.get("timestamp") or 0)
