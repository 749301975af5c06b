"""What: rows of an Iceberg table as a collection: those of a snapshot, or also those that each later one appends."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import pyarrow as pa

from headrace.lowlevel.injectors.injector import Split
from headrace.lowlevel.records.record import Batch
from headrace.lowlevel.stored_names import named
from headrace.lowlevel.time import DurationTypes
from headrace.sdk.io.argument_checks import require_package
from headrace.sdk.io.files.filesystem import MatchedFile
from headrace.sdk.io.iceberg.iceberg_table import IcebergError, TableAddress, columns_of
from headrace.sdk.io.parquet.parquet_source import ParquetFormat
from headrace.sdk.io.table_versions import (
    TableInjector,
    TablePosition,
    TableSource,
    VersionRange,
    check_continuous,
    reading,
)
from headrace.sdk.io.timestamps import BadTimestamp, TimestampOf

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.table import DataScan, FileScanTask, IncrementalAppendScan, Table
    from pyiceberg.table.snapshots import Snapshot


@dataclass(frozen=True, slots=True)
class IcebergRows:
    """Rows of a data file for one task: those from `start` to before `stop`, deleted ones left out before."""

    address: TableAddress
    schema_id: int
    task: FileScanTask
    start: int
    stop: int
    format: ParquetFormat

    def read(self) -> Iterator[Batch]:
        """The elements of the rows. Raises `IcebergError` that names the file."""
        from pyiceberg.expressions import AlwaysTrue
        from pyiceberg.io.pyarrow import ArrowScan

        path, position = self.task.file.file_path, 0
        file = MatchedFile(path, self.task.file.file_size_in_bytes, 0)
        try:
            table = self.address.load()
            scan = ArrowScan(table.metadata, table.io, self._columns(table.schemas()[self.schema_id]), AlwaysTrue())
            for rows in scan.to_record_batches([self.task]):
                low, high = max(self.start - position, 0), min(self.stop - position, rows.num_rows)
                if low < high:
                    yield self.format.batch(rows.slice(low, high - low), file)
                position += rows.num_rows
                if position >= self.stop:
                    return
        except BadTimestamp as error:
            raise IcebergError(f"{path}, in the rows from {self.start} on: {error}") from error
        except Exception as error:
            raise IcebergError(f"{path} cannot be read; nothing of it is committed: {error}") from error

    def _columns(self, schema: Schema) -> Schema:
        """The columns that are read: those of elements, and that of event times."""
        if self.format.columns is None:
            return schema
        by = self.format.timestamp
        names = {*self.format.columns, by} if isinstance(by, str) else {*self.format.columns}
        # Without columns the reader returns no rows.
        return schema.select(*(names or schema.column_names[:1]))


@named("IcebergInjector")
class IcebergInjector(TableInjector["FileScanTask"]):
    """Reads the files of a snapshot, and those that later ones append.

    Args:
        address: The table.
        schema_id: Number of the schema that elements have.
        format_: What becomes of rows.
        versions: Which snapshots are read.
    """

    def __init__(self, address: TableAddress, schema_id: int, format_: ParquetFormat, versions: VersionRange) -> None:
        super().__init__(versions)
        self._address, self._schema_id, self._format = address, schema_id, format_
        self._table: Table | None = None
        """The table at the last look."""
        self._followers: dict[int | None, int] = {}
        """Each snapshot's next one at the last look."""

    def start(self) -> object:
        """All files of the first snapshot."""
        newest, first = self._address.load().current_snapshot(), self._versions.first
        first = newest.snapshot_id if first is None and newest is not None else first
        return TablePosition(first, True).plain()

    def cut(self, file: FileScanTask, row: int, records: int) -> tuple[Split, int, int | None]:
        """See `TableInjector`."""
        count = file.file.record_count
        stop = min(row + records, count)
        piece = IcebergRows(self._address, self._schema_id, file, row, stop, self._format)
        return piece, stop - row, stop if stop < count else None

    def is_last(self, at: TablePosition) -> bool:
        """See `TableInjector`."""
        until = self._versions.until
        return not self._versions.continuous or (until is not None and at.version == until)

    def planned(self, at: TablePosition) -> list[FileScanTask]:
        """See `TableInjector`; ordered by path. Raises `IcebergError`."""
        if at.version is None:
            return []
        table = self._table = self._table or self._address.load()
        if (snapshot := table.snapshot_by_id(at.version)) is None:
            raise _gone(self._address, at.version)
        if at.is_whole:
            return self._files_of(at, table.scan(snapshot_id=at.version))
        if (operation := _operation(snapshot)) == "append":
            appended = table.incremental_append_scan().from_snapshot_id_inclusive(at.version)
            return self._files_of(at, appended.to_snapshot_id_inclusive(at.version))
        if operation == "replace":
            return []
        raise IcebergError(
            f"snapshot {at.version} of {self._address.table} deletes or changes rows ({operation}), which "
            "elements that were read cannot follow; nothing of it was read. To go on, read the table with a "
            f"bounded ReadFromIceberg, or begin after it on an empty checkpoint: snapshot_id={at.version}"
        )

    def _files_of(self, at: TablePosition, scan: DataScan | IncrementalAppendScan) -> list[FileScanTask]:
        try:
            return sorted(scan.plan_files(), key=lambda task: task.file.file_path)
        except Exception as error:
            raise IcebergError(
                f"snapshot {at.version} of {self._address.table} cannot be read; nothing of it was read: {error}"
            ) from error

    def following(self, at: TablePosition) -> int | None:
        """See `TableInjector`. Raises `IcebergError` if what follows is gone."""
        if at.version not in self._followers and time.monotonic() - self._looked >= self._interval:
            self._looked = time.monotonic()
            self._table = self._address.load()
            newest = self._table.current_snapshot()
            self._followers = _followers(self._table)
            if newest is not None and at.version not in {newest.snapshot_id, *self._followers}:
                raise _gone(self._address, at.version)
        return self._followers.get(at.version)


def _followers(table: Table) -> dict[int | None, int]:
    """Snapshot -> the one that came after it on the way to the newest, as far back as the table has kept them."""
    known = {snapshot.snapshot_id: snapshot for snapshot in table.snapshots()}
    followers: dict[int | None, int] = {}
    snapshot = table.current_snapshot()
    while snapshot is not None:
        followers[snapshot.parent_snapshot_id] = snapshot.snapshot_id
        snapshot = known.get(snapshot.parent_snapshot_id) if snapshot.parent_snapshot_id is not None else None
    return followers


def _operation(snapshot: Snapshot) -> str:
    return "unknown operation" if snapshot.summary is None else str(snapshot.summary.operation.value)


def _check_end(table: Table, name: str, first: int, until: int) -> None:
    """Raise `IcebergError` unless the table has come from one snapshot to another, and to the newest after that."""
    from pyiceberg.table.snapshots import ancestors_of

    passed = [snapshot.snapshot_id for snapshot in ancestors_of(table.current_snapshot(), table.metadata)]
    if until not in passed or first not in passed[passed.index(until) :]:
        raise IcebergError(
            f"snapshot {until} of {name} does not come after snapshot {first} on the way to the newest; nothing has "
            "run. Name an until_snapshot that the table has kept and that has snapshot_id before it"
        )


def _gone(address: TableAddress, snapshot: int | None) -> IcebergError:
    return IcebergError(
        f"what follows snapshot {snapshot} of {address.table} is no longer known: it has expired, or the table was "
        "rolled back; nothing of it was read. Keep snapshots longer; to go on, begin on an empty checkpoint"
    )


class ReadFromIceberg(TableSource):
    """Rows of an Iceberg table as dicts.

    Needs `pip install 'headrace[iceberg]'`.

    Args:
        table: Namespace and name of the table, with dots between.
        snapshot_id: The snapshot to read; by default the newest one when the pipeline first starts.
        columns: Names of the columns that elements have; None for all.
        as_rows: Whether elements are `Row`s instead of dicts.
        catalog_name: Name of the catalog, as in pyiceberg's configuration.
        catalog_properties: Properties of the catalog, such as `type`, `uri` and `warehouse`.
        timestamp: What gives the event time of an element: the name of a column, or a function of the element.
        max_delay: Delay of the watermark behind the greatest timestamp read, in seconds. None for a perfect watermark,
            which waits for the end of the input.
        continuous: Whether to go on with the rows that each later snapshot appends, without end. Snapshots that arrange
            rows anew are passed over; one that deletes or changes rows ends the run with `IcebergError`.
        until_snapshot: For continuous reading from `snapshot_id` on, the last snapshot that is read; the table must
            have it. By default there is no end.
        interval: Time between two looks for a new snapshot, in seconds.

    Raises:
        ImportError: pyiceberg is not installed.
        TypeError: An argument has a wrong type.
        ValueError: Arguments do not fit together, or name a column that the table does not have.
        IcebergError: There is no such table or snapshot.

    >>> import tempfile
    >>> import headrace as beam, pyarrow as pa
    >>> from headrace.io.iceberg import ReadFromIceberg
    >>> from pyiceberg.catalog import load_catalog
    >>> folder = tempfile.mkdtemp()
    >>> catalog = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}"}
    >>> rows = pa.table({"product": ["tea"], "amount": [3]})
    >>> load_catalog(**catalog).create_namespace("shop")
    >>> load_catalog(**catalog).create_table("shop.sales", rows.schema).append(rows)
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     _ = pipeline | ReadFromIceberg("shop.sales", catalog_properties=catalog) | beam.Map(print)
    {'product': 'tea', 'amount': 3}
    """

    def __init__(
        self,
        table: str,
        snapshot_id: int | None = None,
        columns: Sequence[str] | None = None,
        as_rows: bool = False,
        *,
        catalog_name: str = "default",
        catalog_properties: Mapping[str, str] | None = None,
        timestamp: TimestampOf = None,
        max_delay: DurationTypes | None = None,
        continuous: bool = False,
        until_snapshot: int | None = None,
        interval: float = 1.0,
    ) -> None:
        require_package("pyiceberg.catalog")
        self._address = TableAddress.of(table, catalog_name, catalog_properties)
        delay = check_continuous(timestamp, max_delay, continuous, interval)
        if until_snapshot is not None and (not continuous or snapshot_id is None):
            raise ValueError("until_snapshot is for continuous=True with snapshot_id only, which says where to begin")
        versions = VersionRange(snapshot_id, continuous, until_snapshot, delay, interval)
        schema, self._schema_id = _schema(self._address, versions)
        super().__init__(schema, ParquetFormat(*reading(table, schema, columns, as_rows, timestamp)), versions)

    def injector(self) -> IcebergInjector:
        """The injector, which plans files on the driver."""
        return IcebergInjector(self._address, self._schema_id, self._format, self._versions)


def _schema(address: TableAddress, versions: VersionRange) -> tuple[pa.Schema, int]:
    """Columns and number of the schema of the first snapshot, or of the newest. Raises `IcebergError`."""
    name = address.table
    try:
        table = address.load()
    except Exception as error:
        raise IcebergError(f"{name} cannot be read as an Iceberg table; nothing has run: {error}") from error
    if versions.first is None:
        return columns_of(table), table.schema().schema_id
    if (snapshot := table.snapshot_by_id(versions.first)) is None:
        raise IcebergError(f"{name} has no snapshot {versions.first}; nothing has run. Name one that it has kept")
    if versions.until is not None:
        _check_end(table, name, versions.first, versions.until)
    number = None if versions.continuous else snapshot.schema_id
    schema = table.schema() if number is None else table.schemas()[number]
    return cast(pa.Schema, schema.as_arrow()), schema.schema_id
