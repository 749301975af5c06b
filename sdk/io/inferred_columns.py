"""Types of columns that no schema states: of the Python values of one part, and of several parts together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import chain
from typing import cast

import pyarrow as pa

_REMEDY = "state the columns with schema=pyarrow.schema([...])"
_ERRORS = (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError, ValueError)


def inferred_table(records: Sequence[Mapping[str, object]], known: pa.Schema | None = None) -> pa.Table:
    """A table with every field that some record has, in the order in which they come; null where a record has none.

    Args:
        records: The records.
        known: Columns whose types are known; they come first. The other types follow from the values. Of a column of
            nulls the type is `null`, and decimals have the greatest precision, as later values may need it.

    Raises:
        ValueError: The values of a field have no common type; it names the field and a value.

    >>> inferred_table([{"order": 1}, {"order": 2, "coupon": "X"}]).to_pylist()
    [{'order': 1, 'coupon': None}, {'order': 2, 'coupon': 'X'}]
    """
    known = pa.schema([]) if known is None else known
    names = dict.fromkeys(chain(known.names, *records))
    if unnamed := [name for name in names if not isinstance(name, str)]:
        raise ValueError(f"field {unnamed[0]!r:.80} has a {type(unnamed[0]).__name__} as its name; names are text")
    types = {field.name: field.type for field in known}
    columns = [_column(name, [record.get(name) for record in records], types.get(name)) for name in names]
    fields = [
        known.field(name) if name in types else pa.field(name, column.type)
        for name, column in zip(names, columns, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=pa.schema(fields, known.metadata))


def _column(name: str, values: Sequence[object], kind: pa.DataType | None) -> pa.Array:
    if kind is not None:
        return pa.array(values, kind)
    try:
        return _array(values)
    except _ERRORS as error:
        raise ValueError(_explained(name, values, error)) from error


def _array(values: Sequence[object]) -> pa.Array:
    try:
        column = pa.array(values)
    except OverflowError:
        # Arrow takes whole numbers for 64 bits with a sign.
        column = pa.array(values, pa.uint64())
    except pa.ArrowInvalid:
        # Arrow takes the type of the first value; whole numbers before a fraction are no error.
        kinds = {type(value) for value in values if value is not None}
        if not kinds <= {int, float}:
            raise
        column = pa.array(values, pa.float64())
    exact = _exact_type(values, column.type)
    return column if exact == column.type else pa.array(values, exact)


def _nested(kind: pa.DataType, changed: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    """A type whose inner types are changed."""
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, changed(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(changed(kind.value_type))
    return kind


def _exact_type(values: Iterable[object], kind: pa.DataType) -> pa.DataType:
    """The type that loses nothing of values for which Arrow infers `kind`; decimals get the greatest precision.

    Raises `ValueError` for values of several kinds of which Arrow would make one.
    """
    present = [value for value in values if value is not None]
    types = pa.types
    if types.is_list(kind):
        items = chain.from_iterable(cast("list[Iterable[object]]", present))
        return pa.list_(_exact_type(items, kind.value_type))
    if types.is_struct(kind):
        if not kind.num_fields:
            raise ValueError("a record without fields has no type")
        records = cast("list[Mapping[str, object]]", present)
        inner = {field.name: [record.get(field.name) for record in records] for field in kind}
        return pa.struct([pa.field(field.name, _exact_type(inner[field.name], field.type)) for field in kind])
    if types.is_decimal(kind):
        # The precision of some values would be too small for others.
        return pa.decimal128(38, kind.scale) if types.is_decimal128(kind) else pa.decimal256(76, kind.scale)
    if types.is_date(kind):
        _refuse_both(present, lambda value: isinstance(value, datetime), "dates", "times of day")
    elif types.is_binary(kind):
        _refuse_both(present, lambda value: isinstance(value, str), "bytes", "text")
    elif types.is_timestamp(kind):
        _refuse_both(present, lambda value: getattr(value, "tzinfo", None) is None, "instants", "times without a zone")
        # Arrow would cut the timestamps of pandas.
        return pa.timestamp("ns", kind.tz) if any(getattr(value, "nanosecond", 0) for value in present) else kind
    elif types.is_duration(kind) and any(getattr(value, "nanoseconds", 0) for value in present):
        return pa.duration("ns")
    return kind


def _refuse_both(values: Sequence[object], is_second: Callable[[object], bool], first: str, second: str) -> None:
    found = [*map(is_second, values)]
    if True in found and False in found:
        one, other = values[found.index(False)], values[found.index(True)]
        raise ValueError(f"{one!r:.80} and {other!r:.80} are {first} and {second}")


def _explained(name: str, values: Sequence[object], error: Exception) -> str:
    """The message that names the value by which a column has no type."""
    first: tuple[object, pa.DataType] | None = None
    for value in values:
        try:
            kind = _array([value]).type
        except _ERRORS as reason:
            return f"field {name!r} has the value {value!r:.80}, for which Arrow infers no type ({reason}); {_REMEDY}"
        if pa.types.is_null(kind):
            continue
        if first is not None and common_type(first[1], kind) is None:
            return (
                f"field {name!r} has values of types without a common one: {first[0]!r:.80} ({first[1]}) and "
                f"{value!r:.80} ({kind}); map them to one, or {_REMEDY}"
            )
        first = first or (value, kind)
    return f"the values of field {name!r} have no common type ({error}); map them to one, or {_REMEDY}"


def lasting_type(kind: pa.DataType) -> pa.DataType:
    """The type that a column gets for good: one of which only nulls are known is text.

    >>> lasting_type(pa.list_(pa.null()))
    ListType(list<item: string>)
    """
    return pa.string() if pa.types.is_null(kind) else _nested(kind, lasting_type)


def common_type(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """The type that holds the values of both, which may still be too large for it; None if there is none.

    >>> common_type(pa.int64(), pa.float64()), common_type(pa.int64(), pa.string())
    (DataType(double), None)
    """
    types = pa.types
    if one == other or types.is_null(other):
        return one
    if types.is_null(one):
        return other
    if types.is_struct(one) and types.is_struct(other):
        return _common_struct(one, other)
    if types.is_list(one) and types.is_list(other):
        item = common_type(one.value_type, other.value_type)
        return None if item is None else pa.list_(item)
    if types.is_timestamp(one) and types.is_timestamp(other):
        unit = min(one.unit, other.unit, key=("ns", "us", "ms", "s").index)
        return pa.timestamp(unit, one.tz) if (one.tz is None) == (other.tz is None) else None
    return _common_number(one, other)


def _common_struct(one: pa.StructType, other: pa.StructType) -> pa.DataType | None:
    kinds = {field.name: field.type for field in one}
    for field in other:
        kind = common_type(kinds.get(field.name, pa.null()), field.type)
        if kind is None:
            return None
        kinds[field.name] = kind
    return pa.struct([pa.field(name, kind) for name, kind in kinds.items()])


def _common_number(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    types, both = pa.types, (one, other)
    if any(types.is_decimal(kind) for kind in both):
        if not all(types.is_decimal(kind) or types.is_integer(kind) for kind in both):
            return None
        scale = max(kind.scale for kind in both if types.is_decimal(kind))
        wide = any(types.is_decimal256(kind) for kind in both)
        return pa.decimal256(76, scale) if wide else pa.decimal128(38, scale)
    if not all(types.is_integer(kind) or types.is_floating(kind) for kind in both):
        return None
    if any(types.is_floating(kind) for kind in both):
        return pa.float64()
    return pa.uint64() if pa.uint64() in both else pa.int64()


def merged(schemas: Iterable[pa.Schema]) -> pa.Schema:
    """The columns of all schemas, in the order in which they come, with types that hold the values of all.

    Raises `ValueError` that names a column without such a type.

    >>> merged([pa.schema({"a": pa.null()}), pa.schema({"b": pa.string(), "a": pa.int64()})]).types
    [DataType(int64), DataType(string)]
    """
    fields: dict[str, pa.Field] = {}
    metadata = None
    for schema in schemas:
        metadata = metadata or schema.metadata
        for field in schema:
            known = fields.setdefault(field.name, field)
            kind = common_type(known.type, field.type)
            if kind is None:
                raise ValueError(
                    f"column {field.name!r} has values of type {known.type} in one part and of type {field.type} in "
                    f"another; map them to one type before, or {_REMEDY}"
                )
            fields[field.name] = known if kind == known.type else known.with_type(kind)
    return pa.schema(list(fields.values()), metadata)


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
        except _ERRORS as error:
            raise ValueError(
                f"column {field.name!r} is of type {column.type} in one part and needs to be {field.type} for another, "
                f"but not all of its values fit ({error}); {_REMEDY}"
            ) from error
    return pa.Table.from_arrays(columns, schema=schema)
