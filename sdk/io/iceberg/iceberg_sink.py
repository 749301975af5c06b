"""What: a sink that writes a collection to an Iceberg table exactly once, with one commit of the table for each epoch.

Rows that are added are written by the tasks, as data files that no snapshot names yet; after the commit of the epoch
the driver adds all of them in one snapshot. Rows by key are part of the commit, and the driver replaces them. The
commit also moves the sink's mark, a property of the table (see `sdk.io.epoch_sink`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from importlib import import_module
from operator import and_
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from headrace.lowlevel.records.record import Batch
from headrace.lowlevel.stored_names import named
from headrace.sdk.io.argument_checks import check_schema, require_package
from headrace.sdk.io.arrow_changes import FILES, check_mode_by_key, contents, encoded_rows, net_rows, rows_of, unfit_key
from headrace.sdk.io.columns.column_types import signed
from headrace.sdk.io.epoch_sink import EpochSink, EpochsLostError, Run, SinkMark, SinkTakenError, WriteMode
from headrace.sdk.io.iceberg.iceberg_table import (
    IcebergError,
    StagedDataFile,
    TableAddress,
    columns_of,
    decoded,
    encoded,
    keep,
    keep_newest,
    mark_of,
    marked,
)
from headrace.sdk.io.iceberg.pyiceberg_private import (
    TableMovedError,
    appending,
    overwriting,
    transaction_of,
    written_files,
)
from headrace.sdk.transforms.core.low_level import Write

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table, Transaction


_ATTEMPTS = 20
"""Greatest number of commits that are tried for an epoch while others write to the table."""
_FOR_MANY_COMMITS = {"commit.manifest-merge.enabled": "true", "write.metadata.delete-after-commit.enabled": "true"}
"""Properties of a table that is made: what would be left by each epoch is cleared away."""
_FORMAT_VERSION = 2
"""The newest version of the table's format that pyiceberg writes."""


@named("IcebergSink")
class IcebergSink(EpochSink):
    """Writes each epoch as a commit of a table.

    Args:
        address: The table.
        schema: Columns of a table that is made; None for one that must exist.
        mode: See `WriteToIceberg`.
        keys: See `WriteToIceberg`.
        sink: See `WriteToIceberg`.
    """

    def __init__(
        self, address: TableAddress, schema: pa.Schema | None, mode: WriteMode, keys: Sequence[str], sink: str | None
    ) -> None:
        super().__init__(sink)
        self._address, self._schema = address, schema
        self._mode, self._keys = mode, tuple(keys)
        self._is_first = True
        """Whether files may have been gone since the driver before this one."""

    # In the task

    def rows(self, batch: Batch, epoch: int, interval: int, token: str) -> bytes:
        """See `EpochSink`; the receipt names the data files, or contains the rows that change the table."""
        table = self._address.load()
        rows = rows_of(batch, columns_of(table), self._keys, self._mode == "changelog")
        if self._mode != "append":
            return encoded_rows(rows)
        files = [StagedDataFile.of(file, table.spec().spec_id) for file in written_files(table, rows)]
        keep(file.file_path for file in files)
        return FILES + encoded(files)

    # On the driver

    def prepare(self) -> None:
        """Make the table if there is none, and compare its columns. Raises `IcebergError`."""
        self._is_first = True
        try:
            if self._schema is not None:
                namespace = self._address.table.rpartition(".")[0]
                self._address.opened().create_namespace_if_not_exists(namespace)
                # Iceberg has no unsigned types.
                columns = pa.schema([field.with_type(signed(field.type)) for field in self._schema])
                self._address.opened().create_table_if_not_exists(
                    self._address.table, columns, properties=_FOR_MANY_COMMITS
                )
            table = self._address.load()
            keep_newest(table)
        except Exception as error:
            raise IcebergError(
                f"{self._address.table} cannot be written as an Iceberg table; nothing has run: "
                f"{type(error).__name__}: {error}"
            ) from error
        if problem := self._problem(table):
            raise IcebergError(f"{self._address.table} cannot be written; nothing has run: {problem}")

    def _problem(self, table: Table) -> str | None:
        """What is wrong with the table for the rows that come; None if all is well."""
        if table.format_version > _FORMAT_VERSION:
            return f"it has version {table.format_version} of Iceberg's format, and pyiceberg writes {_FORMAT_VERSION}"
        there = columns_of(table)
        names = [*self._keys, *(self._schema.names if self._schema is not None else ())]
        if missing := [name for name in names if name not in there.names]:
            return f"the table has no column {missing[0]!r}, it has {there.names}; add it to the table"
        if self._mode != "append" and (lost := [name for name in there.names if name not in names]) and self._schema:
            return (
                f"mode={self._mode!r} replaces whole rows, and the schema leaves out column {lost[0]!r} of the table, "
                "whose values would be lost; add it to the schema"
            )
        return unfit_key(there, self._keys)

    @property
    def destination(self) -> str:
        """See `EpochSink`."""
        return self._address.table

    def stored(self, sink: str) -> SinkMark | None:
        """See `EpochSink`."""
        return mark_of(self._address.load(), sink)

    def write(self, run: Run, epoch: int, receipts: Sequence[bytes]) -> bool:
        """See `EpochSink`. Raises `IcebergError`."""
        failure = (
            f"epoch {epoch} was not written to {self._address.table}; it is committed, and is written when the program "
            "is started again"
        )
        errors = import_module("pyiceberg.exceptions")
        # Of a commit that came too late, and changed nothing.
        conflicts = (TableMovedError, errors.CommitFailedException, errors.ValidationException)
        for _ in range(_ATTEMPTS):
            try:
                table, moved = self._address.load(), True
                if run.must_write(mark_of(table, run.sink), epoch, self.destination):
                    moved = self._commit(table, run.sink, SinkMark(run.number, epoch), receipts)
                self._is_first = False
                return moved
            except conflicts:
                # Another writer was faster, maybe with this very epoch.
                continue
            except (SinkTakenError, EpochsLostError):
                raise
            except IcebergError as error:
                raise IcebergError(f"{failure}: {error}") from error
            except Exception as error:
                raise IcebergError(f"{failure}: {type(error).__name__}: {error}") from error
        raise IcebergError(f"{failure}: other writers were faster {_ATTEMPTS} times")

    def _commit(self, table: Table, sink: str, mark: SinkMark, receipts: Sequence[bytes]) -> bool:
        transaction = transaction_of(table)
        before = transaction.table_metadata.current_snapshot_id
        summary = {"headrace-sink": sink, "headrace-epoch": str(mark.epoch)}
        if self._mode == "append":
            self._add(transaction, table, summary, receipts)
        else:
            self._replace(transaction, table, summary, receipts)
        # A commit without a snapshot is not kept from passing another one, and there is nothing to mark.
        changed: bool = transaction.table_metadata.current_snapshot_id != before
        if changed:
            transaction.set_properties(marked(sink, mark))
            keep_newest(transaction.commit_transaction())
        return changed

    def _add(self, transaction: Transaction, table: Table, summary: dict[str, str], receipts: Sequence[bytes]) -> None:
        written = [file for receipt in contents(receipts, FILES) for file in decoded(receipt)]
        places = (table.location(), table.properties.get("write.data.path", table.location()))
        if foreign := [file.file_path for file in written if not file.file_path.startswith(places)]:
            raise IcebergError(
                f"its data files belong to another table, such as {foreign[0]}, and would be removed with either; go "
                "on with that table, or begin anew on an empty checkpoint"
            )
        paths = [file.file_path for file in written] if self._is_first else []
        lost = [path for path in paths if not table.io.new_input(path).exists()]
        if lost:
            raise IcebergError(
                f"{len(lost)} of {len(written)} data files are gone, such as {lost[0]}: something removes files that "
                "no snapshot names; restore them"
            )
        if any(file.spec_id != table.spec().spec_id for file in written):
            raise IcebergError("the table was partitioned anew since its data files were written; take that back")
        with appending(transaction, summary) as append:
            for file in written:
                append.append_data_file(file.data_file())

    def _replace(
        self, transaction: Transaction, table: Table, summary: dict[str, str], receipts: Sequence[bytes]
    ) -> None:
        put, taken = net_rows(receipts, self._keys)
        keys = pa.concat_tables([put, taken]).select(list(self._keys))
        replaced, added = [], written_files(table, put)
        for file, others in files_with_keys(table, keys):
            replaced.append(file)
            added += written_files(table, others)
        if replaced or added:
            with overwriting(table, transaction, summary) if replaced else appending(transaction, summary) as snapshot:
                for file in replaced:
                    snapshot.delete_data_file(file)
                for file in added:
                    snapshot.append_data_file(file)


class WriteToIceberg(Write):
    """Writes elements as rows of an Iceberg table, exactly once, with one commit of the table for each epoch.

    The commit also keeps the epoch's number, as a property of the table; the summaries of its snapshots name it too.
    Needs `pip install 'headrace[iceberg]'`.

    Args:
        table: Namespace and name of the table, with dots between.
        schema: The columns of a table that does not exist, a `pyarrow.Schema`: it is made, without partitions, when the
            run begins. By default the table must exist.
        catalog_name: Name of the catalog, as in pyiceberg's configuration.
        catalog_properties: Properties of the catalog, such as `type`, `uri` and `warehouse`. The driver and the tasks
            load the table by them.
        mode: `append` adds a row for each element: tasks write data files, and the driver adds those of an epoch in one
            snapshot. `upsert` gives the row with an element's key the element's values, or adds it; of several elements
            of an epoch with one key the last one counts. With `changelog` elements are `Change`s (`ToChangelog`): an
            insertion puts a row in by its key, a deletion takes it out. Rows by key pass through the commit and the
            driver's memory, which rewrites the files with rows of their keys.
        keys: Names of the columns whose values are a row's key.
        sink: A name of this sink that stays the same when a run begins anew on an empty checkpoint. The newer run then
            takes its predecessor's place, and the predecessor can write nothing more. By default each run that begins
            anew has a name, and so a property of the table, of its own.

    Raises:
        ImportError: pyiceberg is not installed.
        TypeError: An argument has a wrong type.
        ValueError: Arguments do not fit together.

    >>> import tempfile
    >>> import headrace as beam, pyarrow as pa
    >>> from headrace.io.iceberg import WriteToIceberg
    >>> folder = tempfile.mkdtemp()
    >>> catalog = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}"}
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     rows = pipeline | beam.Create([("tea", 3)])
    ...     schema = pa.schema({"product": pa.string(), "amount": pa.int64()})
    ...     _ = rows | WriteToIceberg("shop.sales", schema, catalog_properties=catalog)
    >>> from pyiceberg.catalog import load_catalog
    >>> load_catalog(**catalog).load_table("shop.sales").scan().to_arrow().to_pylist()
    [{'product': 'tea', 'amount': 3}]
    """

    def __init__(
        self,
        table: str,
        schema: pa.Schema | None = None,
        *,
        catalog_name: str = "default",
        catalog_properties: Mapping[str, str] | None = None,
        mode: WriteMode = "append",
        keys: Sequence[str] = (),
        sink: str | None = None,
    ) -> None:
        require_package("pyiceberg.catalog")
        address = TableAddress.of(table, catalog_name, catalog_properties)
        check_schema(schema)
        check_mode_by_key(mode, keys, schema)
        super().__init__(IcebergSink(address, schema, mode, keys, sink))


_LISTED = 200
"""The greatest number of values for which pyiceberg compares each one with the bounds of a file."""


def files_with_keys(table: Table, keys: pa.Table) -> Iterator[tuple[DataFile, pa.Table]]:
    """The data files that contain rows of some keys, each with the rows that it contains besides.

    Args:
        table: The table; the newest snapshot counts.
        keys: A column for each key column, without nulls.
    """
    from pyiceberg.expressions import AlwaysTrue
    from pyiceberg.io.pyarrow import ArrowScan

    # The filter only leaves out files: all rows of the others are read, as those that stay are written again.
    for task in table.scan(row_filter=_covering(keys)).plan_files():
        rows = ArrowScan(table.metadata, table.io, table.schema(), AlwaysTrue()).to_table([task])
        others = without_keys(rows, keys)
        if others.num_rows < rows.num_rows:
            yield task.file, others


def without_keys(rows: pa.Table, keys: pa.Table) -> pa.Table:
    """The rows whose key is not among some.

    >>> rows, keys = pa.table({"k": [1, 2], "l": ["a", "b"]}), pa.table({"l": ["a", "b"], "k": [1, 1]})
    >>> without_keys(rows, keys).to_pylist()
    [{'k': 2, 'l': 'b'}]
    """
    names = keys.column_names
    each = [pc.is_in(rows.column(name), keys.column(name).cast(rows.schema.field(name).type)) for name in names]
    # Few rows have values of keys in each of the columns, and only these are compared as Python values.
    candidates = pc.indices_nonzero(reduce(pc.and_, each))
    wanted, found = set(_tuples(keys, names)), _tuples(rows.take(candidates), names)
    gone = [index for index, key in zip(candidates.to_pylist(), found, strict=True) if key in wanted]
    return rows.filter(pc.invert(pc.is_in(pa.array(range(rows.num_rows)), pa.array(gone, pa.int64()))))


def _tuples(table: pa.Table, names: Sequence[str]) -> list[tuple[object, ...]]:
    return list(zip(*(table.column(name).to_pylist() for name in names), strict=True))


def _covering(keys: pa.Table) -> BooleanExpression:
    """A condition that rows of some keys meet, and maybe others."""
    # Its types do not know that it takes names of columns.
    expressions = import_module("pyiceberg.expressions")
    met: list[BooleanExpression] = []
    for name in keys.column_names:
        values = pc.unique(keys.column(name))
        if len(values) <= _LISTED:
            met.append(expressions.In(name, values.to_pylist()))
        else:
            bounds = pc.min_max(values).as_py()
            met.append(expressions.GreaterThanOrEqual(name, bounds["min"]))
            met.append(expressions.LessThanOrEqual(name, bounds["max"]))
    return reduce(and_, met)
