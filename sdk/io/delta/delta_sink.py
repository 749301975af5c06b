"""What: a sink that writes a collection to a Delta table exactly once, with one version of the table for each epoch.

Rows that are added are written by the tasks, as data files that no version names yet; after the commit of the epoch the
driver adds all of them in one version. Rows by key are part of the commit, and the driver merges them. Either version
moves the sink's mark, as the versions of two applications (see `sdk.io.epoch_sink`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from os.path import exists
from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow import fs

from headrace.lowlevel.errors import HeadraceError
from headrace.lowlevel.records.record import Batch
from headrace.lowlevel.storage.places import hidden
from headrace.lowlevel.stored_names import named
from headrace.sdk.io.argument_checks import check_column_names, check_options, check_schema, require_package
from headrace.sdk.io.arrow_changes import FILES, TAKEN, check_mode_by_key, contents, encoded_rows, net_rows, rows_of
from headrace.sdk.io.columns.column_types import signed
from headrace.sdk.io.delta.delta_table import (
    DataFiles,
    DeltaError,
    TableLocation,
    arrow_schema,
    decoded,
    encoded,
    has_partition_values,
    mark_of,
    moving,
    reason,
)
from headrace.sdk.io.epoch_sink import EpochSink, Run, SinkMark, WriteMode
from headrace.sdk.io.files.durable_files import keep_files
from headrace.sdk.io.files.filesystem import Path, absolute
from headrace.sdk.transforms.core.low_level import Write

if TYPE_CHECKING:
    from deltalake import DeltaTable

_ATTEMPTS = 20
"""Greatest number of versions that are tried for an epoch while others write to the table."""

_COMPUTED = ("delta.invariants", "delta.generationExpression", "delta.identity.")
"""Beginnings of what a column's metadata is called if writers have to check or to compute its values."""


@named("DeltaSink")
class DeltaSink(EpochSink):
    """Writes each epoch as a version of a table.

    Args:
        location: The table.
        schema: The table's columns.
        partition_by: Partition columns of the table.
        mode: See `WriteToDelta`.
        keys: See `WriteToDelta`.
        sink: See `WriteToDelta`.
    """

    def __init__(
        self,
        location: TableLocation,
        schema: pa.Schema,
        partition_by: Sequence[str],
        mode: WriteMode,
        keys: Sequence[str],
        sink: str | None,
    ) -> None:
        super().__init__(sink)
        self._place, self._schema = location.place, schema
        self._files = DataFiles(location.place, location.options, tuple(partition_by))
        self._mode, self._keys = mode, tuple(keys)
        self._is_first = True
        """Whether files may have been gone since the driver before this one."""

    # In the task

    def rows(self, batch: Batch, epoch: int, interval: int, token: str) -> bytes:
        """See `EpochSink`; the receipt names the data files, or contains the rows that are to be merged."""
        table = rows_of(batch, self._schema, self._keys, self._mode == "changelog")
        if self._mode == "append":
            return FILES + encoded(self._files.write(table, f"part-{epoch:06d}-{interval:05d}-{token}"))
        return encoded_rows(table)

    # On the driver

    def prepare(self) -> None:
        """Make the table if there is none, and compare its columns. Raises `DeltaError`."""
        from deltalake import DeltaTable

        self._is_first = True
        try:
            # If another program makes it meanwhile, the table is that one.
            DeltaTable.create(
                self._place,
                self._schema,
                mode="ignore",
                partition_by=list(self._files.partition_by),
                storage_options=self._files.patient_options,
            )
            self._keep(table := self._files.opened())
        except Exception as error:
            raise _unusable(self._place, error) from error
        if problem := self._problem(table):
            raise DeltaError(f"{self._place} cannot be written; nothing has run: {problem}")

    def _problem(self, table: DeltaTable) -> str | None:
        """What is wrong with the table for the rows that come; None if all is well."""
        there = arrow_schema(table)
        for field in self._schema:
            index = there.get_field_index(field.name)
            if index < 0:
                return f"the table has no column {field.name!r}, it has {there.names}; add it to the table"
            if there.field(index).type != field.type:
                return (
                    f"column {field.name!r} has type {there.field(index).type} in the table and {field.type} in the "
                    "schema; they must be the same"
                )
        required = [field.name for field in there if not field.nullable and field.name not in self._schema.names]
        if required:
            return f"column {required[0]!r} of the table must have values, but elements have no such field"
        if reason := _unheeded(table):
            return f"the table has {reason}, which files that tasks write do not heed"
        if self._mode != "append" and table.metadata().configuration.get("delta.appendOnly") == "true":
            return f"mode={self._mode!r} replaces rows, and the table only takes new ones (delta.appendOnly)"
        partitions = list(table.metadata().partition_columns)
        if partitions != list(self._files.partition_by):
            return f"the table is partitioned by {partitions}, and partition_by is {list(self._files.partition_by)}"
        return None

    @property
    def destination(self) -> str:
        """See `EpochSink`."""
        return self._place

    def stored(self, sink: str) -> SinkMark | None:
        """See `EpochSink`."""
        return mark_of(self._files.opened(), sink)

    def write(self, run: Run, epoch: int, receipts: Sequence[bytes]) -> bool:
        """See `EpochSink`. Raises `DeltaError`."""
        from deltalake.exceptions import CommitFailedError

        failure = (
            f"epoch {epoch} was not written to {self._place}; it is committed, and is written when the program is "
            "started again"
        )
        for attempt in range(_ATTEMPTS):
            try:
                table = self._files.opened()
                if not run.must_write(mark_of(table, run.sink), epoch, self.destination):
                    break
                if problem := self._problem(table):
                    raise DeltaError(f"{failure}: {problem}")
                self._commit(table, run.sink, SinkMark(run.number, epoch), receipts)
                break
            except HeadraceError:
                raise
            except CommitFailedError as error:
                # Another writer was faster, maybe with this very epoch.
                if attempt == _ATTEMPTS - 1:
                    faster = f"other writers were faster {_ATTEMPTS} times"
                    raise DeltaError(f"{failure}: {faster}: {reason(error)}") from error
            except Exception as error:
                raise DeltaError(f"{failure}: {reason(error)}") from error
        self._is_first = False
        return True

    def _commit(self, table: DeltaTable, sink: str, mark: SinkMark, receipts: Sequence[bytes]) -> None:
        if self._mode == "append":
            self._add(table, sink, mark, receipts)
        else:
            before = table.version()
            self._merge(table, sink, mark, receipts)
            if table.version() == before:
                # Nothing had to be changed, so there is no version that moves the mark.
                table.create_write_transaction([], "append", table.schema(), commit_properties=moving(sink, mark))
        table.update_incremental()
        self._keep(table)

    def _add(self, table: DeltaTable, sink: str, mark: SinkMark, receipts: Sequence[bytes]) -> None:
        written = [file for receipt in contents(receipts, FILES) for file in decoded(receipt)]
        if self._is_first and (lost := self._files.lost(file.path for file in written)):
            raise DeltaError(
                f"{len(lost)} of {len(written)} data files of committed epoch {mark.epoch} are gone from "
                f"{self._place}, such as {lost[0]}, so nothing of the epoch was written: something removes files that "
                "no version names, as VACUUM does with a short retention. Restore them, and start the program again; "
                "if the table was removed on purpose, or is another one, begin anew on an empty checkpoint"
            )
        table.create_write_transaction(
            [file.added() for file in written],
            "append",
            table.schema(),
            list(self._files.partition_by),
            commit_properties=moving(sink, mark),
        )

    def _merge(self, table: DeltaTable, sink: str, mark: SinkMark, receipts: Sequence[bytes]) -> None:
        put, taken = net_rows(receipts, self._keys)
        rows = pa.concat_tables(
            [
                put.append_column(TAKEN, pa.array([False] * put.num_rows, pa.bool_())),
                taken.append_column(TAKEN, pa.array([True] * taken.num_rows, pa.bool_())),
            ]
        )
        same_key = " AND ".join(f"target.{_quoted(key)} = source.{_quoted(key)}" for key in self._keys)
        # Those of the program that has committed the rows, which may have been another one.
        values = {_quoted(name): f"source.{_quoted(name)}" for name in put.column_names}
        merging = table.merge(
            rows, same_key, source_alias="source", target_alias="target", commit_properties=moving(sink, mark)
        )
        merging.when_matched_delete(f"source.{TAKEN}").when_matched_update(values).when_not_matched_insert(
            values, f"NOT source.{TAKEN}"
        ).execute()

    def _keep(self, table: DeltaTable) -> None:
        """Make the log of a local table durable, before the next epoch forgets what this one has written."""
        if (folder := self._files.folder) is not None:
            newest = f"{folder}/_delta_log/{table.version():020d}.json"
            # Of an old version only a checkpoint may be left.
            if exists(newest):
                keep_files(fs.LocalFileSystem(), [newest])


def _unheeded(table: DeltaTable) -> str | None:
    """What a table asks of its writers that a data file alone cannot give; None if there is nothing."""
    configuration = table.metadata().configuration
    mapping = configuration.get("delta.columnMapping.mode", "none") != "none"
    if mapping or any(name.startswith("delta.constraints.") for name in configuration):
        return "column mapping or constraints"
    for field in table.schema().fields:
        if asked := [name for name in field.metadata if name.startswith(_COMPUTED)]:
            return f"a rule for column {field.name!r} ({asked[0]})"
    return None


def _unusable(place: str, error: Exception) -> DeltaError:
    return DeltaError(f"{hidden(place)} cannot be written as a Delta table; nothing has run: {reason(error)}")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


class WriteToDelta(Write):
    """Writes elements as rows of a Delta table, exactly once, with one version of the table for each epoch.

    The version also keeps the epoch's number, as an application transaction of Delta. Needs
    `pip install 'headrace[delta]'`.

    Args:
        table: Folder of the table, a path or URL (`s3://…`, `gs://…`, `abfss://…`).
        schema: The columns that elements have, a `pyarrow.Schema`. A table that does not exist is made with them, when
            the run begins. By default the columns of the table, which must exist.
        mode: `append` adds a row for each element: tasks write data files, and the driver adds those of an epoch in one
            version. `upsert` gives the row with an element's key the element's values, or adds it; of several elements
            of an epoch with one key the last one counts. With `changelog` elements are `Change`s (`ToChangelog`): an
            insertion puts a row in by its key, a deletion takes it out. Rows by key pass through the commit and the
            driver's memory, which merges them.
        keys: Names of the columns whose values are a row's key.
        partition_by: Partition columns; by default those of the table. Delta does not tell an empty text from null
            there.
        sink: A name of this sink that stays the same when a run begins anew on an empty checkpoint. The newer run then
            takes its predecessor's place, and the predecessor can write nothing more. By default each run that begins
            anew has a name of its own.
        storage_options: Options of deltalake for an object store; by default from the environment.

    Raises:
        ImportError: deltalake is not installed.
        TypeError: An argument has a wrong type.
        ValueError: Arguments do not fit together, or there is no table and no schema.

    >>> import tempfile
    >>> import headrace as beam, pyarrow as pa
    >>> from headrace.io.delta import WriteToDelta
    >>> folder = tempfile.mkdtemp()
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     rows = pipeline | beam.Create([("tea", 3)])
    ...     _ = rows | WriteToDelta(folder, pa.schema({"product": pa.string(), "amount": pa.int64()}))
    >>> from deltalake import DeltaTable
    >>> DeltaTable(folder).to_pyarrow_table().to_pylist()
    [{'product': 'tea', 'amount': 3}]
    """

    def __init__(
        self,
        table: Path,
        schema: pa.Schema | None = None,
        *,
        mode: WriteMode = "append",
        keys: Sequence[str] = (),
        partition_by: Sequence[str] | None = None,
        sink: str | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        require_package("deltalake")
        if not isinstance(table, (str, PathLike)):
            raise TypeError(f"WriteToDelta takes the folder of a table, got {table!r:.200}")
        check_schema(schema)
        check_options("storage_options", storage_options)
        if partition_by is not None:
            check_column_names("partition_by", partition_by)
        location = TableLocation(absolute(fspath(table)), storage_options)
        columns, partitions = _columns(location, schema, partition_by)
        check_mode_by_key(mode, keys, columns)
        super().__init__(DeltaSink(location, columns, partitions, mode, keys, sink))


def _columns(
    location: TableLocation, schema: pa.Schema | None, partition_by: Sequence[str] | None
) -> tuple[pa.Schema, Sequence[str]]:
    """Columns in Delta's types, and partition columns. Raises `ValueError` or `DeltaError`."""
    from deltalake.exceptions import TableNotFoundError

    try:
        there = location.opened()
        columns, partitions = arrow_schema(there), list(there.metadata().partition_columns)
    except TableNotFoundError as error:
        if schema is None:
            raise ValueError(f"there is no Delta table at {location.place}; give a schema, and it is made") from error
        columns, partitions = pa.schema([]), []
    except Exception as error:
        raise _unusable(location.place, error) from error
    if schema is not None:
        columns = pa.schema([_in_delta(field, columns) for field in schema])
    chosen = partitions if partition_by is None else list(partition_by)
    if unknown := [name for name in chosen if name not in columns.names]:
        raise ValueError(f"partition_by names column {unknown[0]!r}, but the columns are {columns.names}")
    if unfit := [field for field in columns if field.name in chosen and not has_partition_values(field.type)]:
        raise ValueError(
            f"partition_by names column {unfit[0].name!r} of type {unfit[0].type}; name columns of numbers, text or "
            "times instead"
        )
    if set(chosen) == set(columns.names):
        raise ValueError(f"partition_by takes all columns ({', '.join(chosen)}); leave one for the files")
    return columns, chosen


def _in_delta(field: pa.Field, there: pa.Schema) -> pa.Field:
    """A column in Delta's types. Raises `ValueError` for a type that Delta does not have.

    Delta has no unsigned types. A column of them has the type with a sign that holds all of their values, as where
    Spark reads Parquet; in a table that 0.1.0 has made it is as wide as the unsigned one, and values may not fit.
    """
    as_wide = _delta_type(field)
    if field.name in there.names and there.field(field.name).type == as_wide.type:
        return as_wide
    return _delta_type(field.with_type(signed(field.type)))


def _delta_type(field: pa.Field) -> pa.Field:
    from deltalake import Schema

    try:
        if "timestamp[ns" in str(field.type):
            raise ValueError("deltalake writes nanoseconds with a feature that other readers do not have")
        return pa.schema(Schema.from_arrow(pa.schema([field])).to_arrow()).field(0)
    except Exception as error:
        remedy = "; use pa.timestamp('us', 'UTC')" if pa.types.is_timestamp(field.type) else ""
        raise ValueError(f"column {field.name!r} has type {field.type}, which Delta does not have{remedy}") from error
