"""What: rows of an Iceberg table as a collection: those of a snapshot, or also those that each later one appends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

import pyarrow as pa

from headrace.lowlevel.time import DurationTypes
from headrace.sdk.io.argument_checks import require_package
from headrace.sdk.io.iceberg.iceberg_changes import IcebergChangesInjector, SnapshotFormat
from headrace.sdk.io.iceberg.iceberg_files import IcebergInjector
from headrace.sdk.io.iceberg.iceberg_table import IcebergError, TableAddress, columns_of
from headrace.sdk.io.parquet.parquet_source import ParquetFormat
from headrace.sdk.io.timestamps import TimestampOf
from headrace.sdk.io.versioned.table_changes import delay_of
from headrace.sdk.io.versioned.table_versions import (
    TableSource,
    VersionRange,
    reading,
)

if TYPE_CHECKING:
    from pyiceberg.table import Table


def _check_end(table: Table, name: str, first: int, until: int) -> None:
    """Raise `IcebergError` unless the table has come from one snapshot to another, and to the newest after that."""
    from pyiceberg.table.snapshots import ancestors_of

    passed = [snapshot.snapshot_id for snapshot in ancestors_of(table.current_snapshot(), table.metadata)]
    if until not in passed or first not in passed[passed.index(until) :]:
        raise IcebergError(
            f"snapshot {until} of {name} does not come after snapshot {first} on the way to the newest; nothing has "
            "run. Name an until_snapshot that the table has kept and that has snapshot_id before it"
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
            rows anew are passed over; one that deletes or changes rows ends the run with `IcebergError`, unless
            `changes` are read.
        until_snapshot: For continuous reading from `snapshot_id` on, the last snapshot that is read; the table must
            have it. By default there is no end. For changes that are not read continuously it is the newest snapshot
            by default.
        interval: Time between two looks for a new snapshot, in seconds.
        changes: Whether elements are `RowChange`s, for `FromRowChanges`: the rows of `snapshot_id`, then what later
            snapshots change, by a comparison of the files that they remove and add. Without `timestamp` the event time
            is that of the snapshot's commit.
        snapshot: For changes, whether the rows of `snapshot_id` come first, as `RowOperation.READ`.

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
        changes: bool = False,
        snapshot: bool = True,
    ) -> None:
        require_package("pyiceberg.catalog")
        self._address = TableAddress.of(table, catalog_name, catalog_properties)
        delay = delay_of(timestamp, max_delay, continuous, interval, changes)
        follows = continuous or changes
        if until_snapshot is not None and (not follows or snapshot_id is None):
            raise ValueError("until_snapshot is for continuous=True with snapshot_id only, which says where to begin")
        self._changes, self._snapshot = changes, snapshot
        if changes and not continuous and until_snapshot is None:
            snapshot_id, until_snapshot = _to_newest(self._address, snapshot_id)
            # A table without a snapshot has nothing to read.
            follows = until_snapshot is not None
        versions = VersionRange(snapshot_id, follows, until_snapshot, delay, interval)
        schema, self._schema_id = _schema(self._address, versions)
        rows = reading(table, schema, columns, as_rows, timestamp)
        super().__init__(schema, (SnapshotFormat if changes else ParquetFormat)(*rows), versions)

    def arrow_schema(self) -> pa.Schema | None:
        """See `Source`: the columns of the table; None for changes, which are no rows."""
        return None if self._changes else super().arrow_schema()

    def injector(self) -> IcebergInjector | IcebergChangesInjector:
        """The injector, which plans files on the driver."""
        table = self._address, self._schema_id
        if isinstance(self._format, SnapshotFormat):
            return IcebergChangesInjector(*table, self._format, self._versions, self._snapshot)
        return IcebergInjector(*table, self._format, self._versions)


def _to_newest(address: TableAddress, first: int | None) -> tuple[int | None, int | None]:
    """The first snapshot to read, by default the newest, and the newest. Raises `IcebergError`."""
    newest = _loaded(address).current_snapshot()
    last = None if newest is None else newest.snapshot_id
    return last if first is None else first, last


def _loaded(address: TableAddress) -> Table:
    try:
        return address.load()
    except Exception as error:
        raise IcebergError(f"{address.table} cannot be read as an Iceberg table; nothing has run: {error}") from error


def _schema(address: TableAddress, versions: VersionRange) -> tuple[pa.Schema, int]:
    """Columns and number of the schema of the first snapshot, or of the newest. Raises `IcebergError`."""
    name, table = address.table, _loaded(address)
    if versions.first is None:
        return columns_of(table), table.schema().schema_id
    if (snapshot := table.snapshot_by_id(versions.first)) is None:
        raise IcebergError(f"{name} has no snapshot {versions.first}; nothing has run. Name one that it has kept")
    if versions.until is not None:
        _check_end(table, name, versions.first, versions.until)
    number = None if versions.continuous else snapshot.schema_id
    schema = table.schema() if number is None else table.schemas()[number]
    return cast(pa.Schema, schema.as_arrow()), schema.schema_id
