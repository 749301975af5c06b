"""One schema for all rows that a sink writes in a run: stated, or agreed on with the first epoch that has rows.

Without a stated schema each task infers the columns of its own part of the first epoch. Before the commit the driver
merges what the tasks have inferred (`RunSchema.settled`). The result is part of this and of every later commit. From
the next epoch on it is sent to the tasks, which hold their rows to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import pyarrow as pa

from headrace.lowlevel.records.record import Batch
from headrace.sdk.io.columns.column_types import common_type, lasting_type
from headrace.sdk.io.columns.tables import REMEDY, misfit, table_of

_OPEN, _CLOSED = b"O", b"C"
"""First byte of an agreement: whether rows may have further columns."""


class RunSchema:
    """The columns of a sink.

    Args:
        stated: The schema that the program states; None to infer it.
        unwritten: Columns that are not in the files, as they name folders. While only nulls are known of one, it has no
            type; other columns are then text.

    >>> driver, task = RunSchema(), RunSchema()
    >>> parts = [task.table_of(Batch([row], [0])).schema for row in ({"order": 1}, {"order": 2, "coupon": None})]
    >>> driver.settled(parts)
    order: int64
    coupon: string
    >>> task.agree(driver.agreement())
    >>> task.table_of(Batch([{"order": 1, "table": 5}], [0]))
    Traceback (most recent call last):
      ...
    ValueError: element {'order': 1, 'table': 5} ...
    """

    def __init__(self, stated: pa.Schema | None = None, unwritten: Sequence[str] = ()) -> None:
        self.stated = stated
        self._unwritten = {*unwritten}
        self.source: Callable[[], pa.Schema | None] | None = None
        """On the driver: finds the columns that the sources of the elements declare, until an epoch has rows."""
        self._agreed: pa.Schema | None = None
        """What the first epoch has settled, or what the source knows."""
        self._is_open = True
        """Whether the first epoch is not committed, so that rows may have further columns."""

    # On the driver

    def __getstate__(self) -> dict[str, object]:
        """What the driver alone needs stays there."""
        return {**self.__dict__, "source": None}

    def begin(self, anew: bool) -> None:
        """Begin a run: one that goes on learns its schema from its newest commit."""
        self._agreed, self._is_open = None, True

    def agreement(self) -> bytes | None:
        """What the tasks of the next epoch must know; None for nothing."""
        if self.stated is None and self._agreed is None and self.source is not None:
            # A source may have nothing at first, as a folder has before its first file.
            self._agreed = self.source()
        if self.stated is not None or self._agreed is None:
            return None
        schema: bytes = self._agreed.serialize().to_pybytes()
        return (_OPEN if self._is_open else _CLOSED) + schema

    def settled(self, parts: Iterable[pa.Schema]) -> pa.Schema | None:
        """The schema of the run, given those of the parts of an epoch; None if there are no rows yet.

        Raises `ValueError` if the parts have no common schema.
        """
        if self.stated is not None:
            return self.stated
        found = list(parts)
        if found and (self._is_open or self._untyped()):
            schema = merged([*([] if self._agreed is None else [self._agreed]), *found])
            fields = zip(schema, lasting_schema(schema), strict=True)
            lasting = [field if field.name in self._unwritten else text for field, text in fields]
            self.committed(pa.schema(lasting, schema.metadata))
        return None if self._is_open else self._agreed

    @property
    def agreed(self) -> pa.Schema | None:
        """The columns as far as they are known, if the program does not state them."""
        return self._agreed

    @property
    def held(self) -> pa.Schema | None:
        """The schema for every commit, with which a restart without a stated schema goes on; None for none."""
        if self.stated is not None:
            return self.stated
        return None if self._is_open else self._agreed

    def committed(self, schema: pa.Schema) -> None:
        """Take the schema of a commit."""
        if self.stated is None:
            self._agreed, self._is_open = schema, False

    # In the task

    def agree(self, agreement: bytes) -> None:
        """Take what the driver says to the tasks of an epoch."""
        self._is_open = agreement[:1] == _OPEN
        self._agreed = pa.ipc.read_schema(pa.py_buffer(agreement[1:]))

    def table_of(self, batch: Batch) -> pa.Table:
        """The rows of a part. A column of which only nulls are known has the type `null`.

        Raises:
            ValueError: An element does not fit the schema, or the elements have no common one.
            TypeError: An element has no named fields.
        """
        if self.stated is not None:
            return _without_nulls(table_of(batch, self.stated))
        if self._agreed is None or self._is_open:
            table = _nullable(table_of(batch, self._agreed, is_open=True))
            if not table.num_columns:
                raise ValueError(
                    f"element {batch.values[0]!r:.200} has no fields, so there are no columns; filter it out"
                )
            return table
        try:
            return _without_nulls(self._as_agreed(batch, self._agreed))
        except ValueError as error:
            raise ValueError(
                f"{error}. No schema is stated, so the columns are those of the first epoch of this run "
                f"({_told(self._agreed)}); state all of them with schema=pyarrow.schema([...])"
            ) from error

    def _as_agreed(self, batch: Batch, agreed: pa.Schema) -> pa.Table:
        if self._untyped():
            found = table_of(batch, agreed, is_open=True).schema
            fields = [field.with_type(found.field(field.name).type) if _is_null(field) else field for field in agreed]
            agreed = pa.schema(fields, agreed.metadata)
        return table_of(batch, agreed, is_inferred=True)

    def _untyped(self) -> bool:
        """Whether only nulls are known of a column that is not in the files."""
        return self._agreed is not None and any(map(_is_null, self._agreed))


def _is_null(field: pa.Field) -> bool:
    return bool(pa.types.is_null(field.type))


def _nullable(table: pa.Table) -> pa.Table:
    """The table, with nullable columns where there are nulls."""
    fields = [
        field.with_nullable(field.nullable or column.null_count > 0)
        for field, column in zip(table.schema, table.columns, strict=True)
    ]
    return pa.Table.from_arrays(table.columns, schema=pa.schema(fields, table.schema.metadata))


def _told(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name}: {field.type}" for field in schema)[:500]


def _without_nulls(table: pa.Table) -> pa.Table:
    """The table. Raises `ValueError` for a null in a column that may have none."""
    for field, column in zip(table.schema, table.columns, strict=True):
        if not field.nullable and column.null_count:
            row = table.filter(column.is_null()).slice(0, 1).to_pylist()[0]
            raise ValueError(
                f"element {row!r:.200} does not fit the schema: column {field.name!r} may not be null; give it a value "
                "before, with a Map, or leave nullable=False out"
            )
    return table


def merged(schemas: Iterable[pa.Schema]) -> pa.Schema:
    """The columns of all schemas, in the order in which they come, with types that hold the values of all.

    A column that one of them does not have may be null. Raises `ValueError` that names a column without such a type.

    >>> merged([pa.schema({"a": pa.null()}), pa.schema({"b": pa.string(), "a": pa.int64()})]).types
    [DataType(int64), DataType(string)]
    """
    fields: dict[str, pa.Field] = {}
    given, metadata = list(schemas), None
    for schema in given:
        metadata = metadata or schema.metadata
        for field in schema:
            known = fields.setdefault(field.name, field)
            kind = common_type(known.type, field.type)
            if kind is None:
                raise ValueError(
                    f"column {field.name!r} has values of type {known.type} in one part and of type {field.type} in "
                    f"another; map them to one type before, or {REMEDY}"
                )
            known = known.with_nullable(known.nullable or field.nullable)
            fields[field.name] = known if kind == known.type else known.with_type(kind)
    everywhere = set(fields).intersection(*(schema.names for schema in given))
    found = [field.with_nullable(field.nullable or field.name not in everywhere) for field in fields.values()]
    return pa.schema(found, metadata)


def lasting_schema(schema: pa.Schema) -> pa.Schema:
    """The schema with `lasting_type` for each column."""
    fields = [field if (kind := lasting_type(field.type)) == field.type else field.with_type(kind) for field in schema]
    return pa.schema(fields, schema.metadata)


def with_schema(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The rows of a part in the columns of `merged` schemas; columns that the part lacks are null.

    Raises `ValueError` that names a column with a value that its type does not hold.
    """
    columns = []
    for field in schema:
        if field.name not in table.column_names:
            columns.append(pa.nulls(table.num_rows, field.type))
            continue
        column = table.column(field.name)
        try:
            columns.append(column if column.type == field.type else pa.array(column.to_pylist(), field.type))
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
            why = misfit(field.name, column.to_pylist(), field.type) or error
            raise ValueError(
                f"column {field.name!r} is of type {column.type} in one part and needs to be {field.type} for another, "
                f"but not all of its values fit: {why}; or {REMEDY}"
            ) from error
    return pa.Table.from_arrays(columns, schema=schema)
