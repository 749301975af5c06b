"""Elements as rows of a table with a known Arrow schema, and what the rows of an epoch come to by key."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import cast

import pyarrow as pa
import pyarrow.compute as pc

from headrace.lowlevel.columnar.arrow_arrays import encode_tables, is_nested
from headrace.lowlevel.records.column_batch import ColumnBatch, Named
from headrace.lowlevel.records.record import Batch
from headrace.sdk.expressions.element_schema import Fields
from headrace.sdk.functions.changelog import ChangeKind
from headrace.sdk.io.columns.tables import table_of
from headrace.sdk.io.epoch_sink import changes_of, check_mode, check_names, net_of, row_of

TAKEN = "headrace_taken"
"""Name of a column that says whether the row is taken out of the table."""


def rows_of(batch: Batch, schema: pa.Schema, keys: Sequence[str] = (), changelog: bool = False) -> pa.Table:
    """The rows of some elements; of changes with a column `TAKEN`.

    Args:
        batch: The elements; see `row_of`. Columns of elements need no Python values.
        schema: The columns of the table.
        keys: Columns that must have a value.
        changelog: Whether elements are changes.

    Raises:
        ValueError: An element has a field that is no column, or no value for a key or for a column without nulls.
        TypeError: An element has no named fields, or is no change.

    >>> rows_of(Batch([("tea", 3)], [0]), pa.schema({"product": pa.string(), "amount": pa.int32()})).to_pylist()
    [{'product': 'tea', 'amount': 3}]
    """
    if changelog:
        kinds, values = changes_of(batch.values)
        table = _table(Batch(values, batch.timestamps), schema)
    else:
        kinds, table = [], pa.concat_tables([_table(part, schema) for part in batch.parts()])
    for name in keys:
        # NaN equals nothing, so a row with it could not be found again.
        _require_values(table, f"the key {name!r}", pc.is_null(table.column(name), nan_is_null=True))
    for field in schema:
        if not field.nullable:
            _require_values(table, f"column {field.name!r}", pc.is_null(table.column(field.name)))
    return table.append_column(TAKEN, pa.array([kind is ChangeKind.DELETE for kind in kinds])) if changelog else table


def _require_values(table: pa.Table, role: str, missing: pa.ChunkedArray) -> None:
    """Raise `ValueError` if a mask of rows without a value has some."""
    if count := pc.sum(missing).as_py():
        first = table.filter(missing).slice(0, 1).to_pylist()[0]
        raise ValueError(f"{count} elements have no value for {role}, which must have one, such as {first!r:.200}")


def _table(part: Batch, schema: pa.Schema) -> pa.Table:
    if isinstance(part, ColumnBatch) and isinstance(part.shape, (Fields, Named)):
        check_names(part.shape.names, schema.names)
        return table_of(part, schema)
    records: list[object] = [dict(zip(schema.names, row_of(value, schema.names), strict=True)) for value in part.values]
    return table_of(Batch(records, part.timestamps), schema)


def encoded_rows(table: pa.Table) -> bytes:
    """Rows as what a task returns."""
    return ROWS + encode_tables(table.to_batches(), table.schema)


def net_rows(receipts: Iterable[bytes], keys: Sequence[str]) -> tuple[pa.Table, pa.Table]:
    """The rows that tasks of one epoch come to, one at most for each key: those put in, and those taken out.

    >>> receipt = encoded_rows(pa.table({"k": ["a", "a"], "v": [1, 2], TAKEN: [False, True]}))
    >>> put, taken = net_rows([receipt], ["k"])
    >>> put.to_pylist(), taken.to_pylist()
    ([], [{'k': 'a', 'v': 2}])
    """
    table = pa.concat_tables(pa.ipc.open_stream(stream).read_all() for stream in contents(receipts, ROWS))
    kinds = None
    if TAKEN in table.column_names:
        kinds = [ChangeKind.DELETE if taken else ChangeKind.INSERT for taken in table.column(TAKEN).to_pylist()]
        table = table.drop_columns([TAKEN])
    columns = [table.column(name).to_pylist() for name in keys]
    net = net_of(kinds, cast("list[Hashable]", list(zip(*columns, strict=True))))
    return table.take(pa.array(net.put, pa.int64())), table.take(pa.array(net.taken, pa.int64()))


FILES, ROWS = b"F", b"R"
"""First byte of what a task returns: the names of data files, or rows that replace others by key."""


def contents(receipts: Iterable[bytes], kind: bytes) -> list[bytes]:
    """What tasks have returned, without the first byte. Raises `ValueError` for another kind.

    >>> contents([b"Fa", b"Fb"], FILES)
    [b'a', b'b']
    """
    found = list(receipts)
    if any(receipt[:1] != kind for receipt in found):
        modes = ("upsert' or 'changelog", "append") if kind == FILES else ("append", "upsert' or 'changelog")
        raise ValueError(
            f"its rows were committed with mode='{modes[0]}', and mode is '{modes[1]}' now; start the program once "
            "more with the old mode, and change it after that"
        )
    return [receipt[1:] for receipt in found]


def check_mode_by_key(mode: object, keys: Sequence[str], schema: pa.Schema | None) -> None:
    """Do what `check_mode` does for a table that takes rows out by key only; without a schema any column is there."""
    check_mode(mode, keys, keys if schema is None else schema.names)
    if mode == "changelog" and not keys:
        raise ValueError("mode='changelog' puts rows in and takes them out by key; name its columns: keys=[...]")
    if schema is not None and (problem := unfit_key(schema, keys)):
        raise ValueError(problem)


def unfit_key(schema: pa.Schema, keys: Sequence[str]) -> str | None:
    """What is wrong with the types of key columns; None if all is well.

    >>> unfit_key(pa.schema([("tags", pa.list_(pa.string()))]), ["tags"])
    "keys names column 'tags' of type list<item: string>; name columns of numbers, text, bytes or times instead"
    """
    for name in keys:
        kind = schema.field(name).type
        if is_nested(kind) or isinstance(kind, pa.BaseExtensionType):
            return f"keys names column {name!r} of type {kind}; name columns of numbers, text, bytes or times instead"
    return None
