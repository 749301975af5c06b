"""What: rows of a Delta table as a collection: those of a version, or also those that each later version adds."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike, fspath

import pyarrow as pa
from pyarrow import fs

from headrace.lowlevel.injectors.injector import Split
from headrace.lowlevel.storage.places import hidden
from headrace.lowlevel.stored_names import named
from headrace.lowlevel.time import DurationTypes
from headrace.sdk.io.argument_checks import check_options, require_package
from headrace.sdk.io.delta.delta_table import AddedFile, DeltaError, DeltaLog, TableLocation, reason
from headrace.sdk.io.files.filesystem import MatchedFile, Path, absolute
from headrace.sdk.io.parquet.parquet_source import ParquetFormat
from headrace.sdk.io.table_versions import (
    TableInjector,
    TablePosition,
    TableSource,
    VersionRange,
    check_continuous,
    reading,
)
from headrace.sdk.io.timestamps import TimestampOf


@dataclass(frozen=True, slots=True)
class DataFileFormat(ParquetFormat):
    """Reads a data file of a table as the table's columns."""

    location: TableLocation | None = None
    schema: pa.Schema | None = None
    partition: tuple[tuple[str, str | None], ...] = ()
    """Partition columns of the file and their values, as the protocol writes them."""

    def located(self, file: MatchedFile) -> tuple[fs.FileSystem, str]:
        """See `ParquetFormat`; the file's path is below the table's folder."""
        assert self.location is not None, "the source gives it"
        return self.location.files(), file.path

    def selected(self, file: MatchedFile, stored: list[str]) -> list[str]:
        """See `ParquetFormat`; the file may be older than some columns of the table."""
        wanted = self._fields().names
        # Without columns the reader returns no rows.
        return [name for name in stored if name in wanted] or stored[:1]

    def constants(self, file: MatchedFile) -> list[tuple[str, pa.Scalar]]:
        """See `ParquetFormat`."""
        types = {field.name: field.type for field in self._fields()}
        return [(name, _scalar(text, types[name])) for name, text in self.partition if name in types]

    def completed(self, table: pa.RecordBatch, constants: Sequence[tuple[str, pa.Scalar]]) -> pa.RecordBatch:
        """The columns of the table in its order and types; null where the file is older than a column."""
        values, fields = dict(constants), self._fields()
        columns = []
        for field in fields:
            if field.name in values:
                columns.append(pa.repeat(values[field.name], table.num_rows))
            elif field.name in table.schema.names:
                columns.append(_cast(table.column(field.name), field))
            else:
                columns.append(pa.nulls(table.num_rows, field.type))
        return pa.RecordBatch.from_arrays(columns, names=fields.names)

    def _fields(self) -> pa.Schema:
        """The columns that are read."""
        assert self.schema is not None, "the source gives it"
        if self.columns is None:
            return self.schema
        wanted = {*self.columns, self.timestamp} if isinstance(self.timestamp, str) else {*self.columns}
        return pa.schema([field for field in self.schema if field.name in wanted])


def _cast(column: pa.Array, field: pa.Field) -> pa.Array:
    try:
        return column.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise ValueError(
            f"column {field.name!r} is of type {column.type} in a data file, with a value that the table's type "
            f"{field.type} does not hold ({error}); another writer has made it. "
            "Rewrite the file with the types of the table"
        ) from error


def _scalar(text: str | None, kind: pa.DataType) -> pa.Scalar:
    if text is None or (text == "" and not pa.types.is_binary(kind)):
        return pa.scalar(None, kind)
    if pa.types.is_timestamp(kind):
        return pa.scalar(text, pa.string()).cast(pa.timestamp("us")).cast(kind)
    return pa.scalar(text, pa.string()).cast(kind)


@named("DeltaInjector")
class DeltaInjector(TableInjector[AddedFile]):
    """Reads the files of a version, and those that later versions add.

    Args:
        log: The versions of the table.
        format_: How data files are read.
        versions: Which ones are read.
    """

    def __init__(self, log: DeltaLog, format_: DataFileFormat, versions: VersionRange) -> None:
        super().__init__(versions)
        self._log, self._format = log, format_
        self._compared = float("-inf")
        """When it was last made sure that the table is the same."""

    def start(self) -> object:
        """All files of the first version."""
        (newest, table), first = self._log.newest(), self._versions.first
        return TablePosition(newest if first is None else first, True, table=table).plain()

    def planned(self, at: TablePosition) -> list[AddedFile]:
        """See `TableInjector`. Raises `DeltaError`."""
        if time.monotonic() - self._compared >= self._interval:
            self._newest(at)
        return self._log.snapshot(_version(at)) if at.is_whole else self._log.added(_version(at))

    def cut(self, file: AddedFile, row: int, records: int) -> tuple[Split, int, int | None]:
        """See `TableInjector`. Raises `DeltaError` for a file that is gone."""
        format_ = replace(self._format, partition=file.partition)
        try:
            return format_.cut(MatchedFile(file.path, file.size, file.modified_us), row, records)
        except ValueError as error:
            raise self._log.unreadable(file, error) from error

    def is_last(self, at: TablePosition) -> bool:
        """See `TableInjector`."""
        until = self._versions.until
        return not self._versions.continuous or (until is not None and _version(at) >= until)

    def following(self, at: TablePosition) -> int | None:
        """See `TableInjector`."""
        version, now = _version(at) + 1, time.monotonic()
        if now - self._looked < self._interval:
            return None
        there, is_first = self._log.exists(version), self._looked == float("-inf")
        if not there:
            self._looked = now
        # After a long pause the entry may be cleaned up, so that what it added is not known any more.
        return version if there or (is_first and version <= self._newest(at)) else None

    def _newest(self, at: TablePosition) -> int:
        """The newest version. Raises `DeltaError` for another table than that of the position."""
        self._compared = time.monotonic()
        newest, table = self._log.newest()
        if table != at.table:
            raise DeltaError(
                f"{self._log.place} is not the table that this run has read: it was removed and made anew; nothing of "
                f"its version {at.version} was read. To read it, begin on an empty checkpoint"
            )
        return newest


def _version(at: TablePosition) -> int:
    assert at.version is not None, "a Delta table has a version from its beginning on"
    return at.version


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
            as those of OPTIMIZE, are passed over; one that deletes or changes rows ends the run with `DeltaError`.
        until_version: For continuous reading, the last version that is read; by default there is no end.
        interval: Time between two looks for a new version, in seconds.
        storage_options: Options of deltalake for an object store; by default from the environment.

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
    ) -> None:
        require_package("deltalake")
        if not isinstance(table, (str, PathLike)):
            raise TypeError(f"ReadFromDelta takes the folder of a table, got {table!r:.200}")
        check_options("storage_options", storage_options)
        delay = check_continuous(timestamp, max_delay, continuous, interval)
        _check_versions(version, until_version, continuous)
        self._log = DeltaLog(absolute(fspath(table)), storage_options)
        schema = _schema(self._log, version, continuous)
        shared = reading(self._log.place, schema, columns, as_rows, timestamp)
        self._files = DataFileFormat(*shared, location=self._log, schema=schema)
        super().__init__(schema, self._files, VersionRange(version, continuous, until_version, delay, interval))

    def injector(self) -> DeltaInjector:
        """The injector, which plans files on the driver."""
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
