"""What: rows of a Delta table as a collection: those of a version, or also those that each later version adds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike, fspath

import pyarrow as pa

from headrace.lowlevel.storage.places import hidden
from headrace.lowlevel.time import DurationTypes
from headrace.sdk.io.argument_checks import check_options, require_package
from headrace.sdk.io.delta.delta_changes import ChangeFormat, DeltaChangesInjector
from headrace.sdk.io.delta.delta_files import DataFileFormat, DeltaInjector
from headrace.sdk.io.delta.delta_table import DeltaError, DeltaLog, reason
from headrace.sdk.io.files.filesystem import Path, absolute
from headrace.sdk.io.timestamps import TimestampOf
from headrace.sdk.io.versioned.table_changes import delay_of
from headrace.sdk.io.versioned.table_versions import (
    TableSource,
    VersionRange,
    reading,
)


def _check_versions(version: int | None, until: int | None, continuous: bool) -> None:
    given: dict[str, object] = {"version": version, "until_version": until}
    for name, number in given.items():
        if number is not None and (not isinstance(number, int) or isinstance(number, bool) or number < 0):
            raise TypeError(f"{name} must be the number of a version, 0 or greater, got {number!r:.80}")
    if until is not None and not continuous:
        raise ValueError("until_version is for continuous=True only; version says which one to read")
    if until is not None and version is not None and until < version:
        raise ValueError(f"until_version is {until}, before version {version}, which is read first")


class ReadFromDelta(TableSource):
    """Rows of a Delta table as dicts.

    Needs `pip install 'headrace[delta]'`. Tables with deletion vectors or column mapping are refused.

    Args:
        table: Folder of the table, a path or URL (`s3://…`, `gs://…`, `abfss://…`).
        version: The version to read; by default the newest one when the pipeline first starts.
        columns: Names of the columns that elements have; None for all.
        as_rows: Whether elements are `Row`s instead of dicts.
        timestamp: What gives the event time of an element: the name of a column, or a function of the element.
        max_delay: Delay of the watermark behind the greatest timestamp read, in seconds. None for a perfect watermark,
            which waits for the end of the input.
        continuous: Whether to go on with the rows that each later version adds. Versions that arrange rows anew, such
            as those of OPTIMIZE, are passed over; one that deletes or changes rows ends the run with `DeltaError`,
            unless `changes` are read.
        until_version: For continuous reading, the last version that is read; by default there is no end. For changes
            that are not read continuously it is the newest version by default.
        interval: Time between two looks for a new version, in seconds.
        storage_options: Options of deltalake for an object store; by default from the environment.
        changes: Whether elements are `RowChange`s, for `FromRowChanges`: the rows of `version`, then what later
            versions change, by their change files (`delta.enableChangeDataFeed`), or by a comparison of the files that
            they remove and add. Without `timestamp` the event time is that of the version's commit.
        snapshot: For changes, whether the rows of `version` come first, as `RowOperation.READ`.

    Raises:
        ImportError: deltalake is not installed.
        TypeError: An argument has a wrong type.
        ValueError: Arguments do not fit together, or name a column that the table does not have.
        DeltaError: There is no such table or version.

    >>> import tempfile
    >>> import headrace as beam, pyarrow as pa
    >>> from deltalake import write_deltalake
    >>> from headrace.io.delta import ReadFromDelta
    >>> folder = tempfile.mkdtemp()
    >>> write_deltalake(folder, pa.table({"product": ["tea"], "amount": [3]}))
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     _ = pipeline | ReadFromDelta(folder) | beam.Map(print)
    {'product': 'tea', 'amount': 3}
    """

    def __init__(
        self,
        table: Path,
        version: int | None = None,
        columns: Sequence[str] | None = None,
        as_rows: bool = False,
        *,
        timestamp: TimestampOf = None,
        max_delay: DurationTypes | None = None,
        continuous: bool = False,
        until_version: int | None = None,
        interval: float = 1.0,
        storage_options: Mapping[str, str] | None = None,
        changes: bool = False,
        snapshot: bool = True,
    ) -> None:
        require_package("deltalake")
        if not isinstance(table, (str, PathLike)):
            raise TypeError(f"ReadFromDelta takes the folder of a table, got {table!r:.200}")
        check_options("storage_options", storage_options)
        delay = delay_of(timestamp, max_delay, continuous, interval, changes)
        _check_versions(version, until_version, continuous or changes)
        self._log = DeltaLog(absolute(fspath(table)), storage_options)
        schema = _schema(self._log, version, continuous or changes)
        shared = reading(self._log.place, schema, columns, as_rows, timestamp)
        self._changes, self._snapshot = changes, snapshot
        if changes and not continuous and until_version is None:
            until_version = self._log.newest()[0]
        self._files = (ChangeFormat if changes else DataFileFormat)(*shared, location=self._log, schema=schema)
        versions = VersionRange(version, continuous or changes, until_version, delay, interval)
        super().__init__(schema, self._files, versions)

    def arrow_schema(self) -> pa.Schema | None:
        """See `Source`: the columns of the table; None for changes, which are no rows."""
        return None if self._changes else super().arrow_schema()

    def injector(self) -> DeltaInjector:
        """The injector, which plans files on the driver."""
        if isinstance(self._files, ChangeFormat):
            return DeltaChangesInjector(self._log, self._files, self._versions, self._snapshot)
        return DeltaInjector(self._log, self._files, self._versions)


def _schema(log: DeltaLog, version: int | None, continuous: bool) -> pa.Schema:
    """The columns at a version, or for continuous reading the newest ones. Raises `DeltaError`."""
    try:
        schema = log.schema(version)
        return log.schema() if continuous else schema
    except DeltaError:
        raise
    except Exception as error:
        what = "as a Delta table" if version is None else f"at version {version}"
        raise DeltaError(f"{hidden(log.place)} cannot be read {what}; nothing has run: {reason(error)}") from error
