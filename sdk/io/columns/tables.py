"""Elements with named fields as an Arrow table; columns of a column batch are converted without Python values.

Messages for values that Arrow does not take for a type say which value of a column it is, why, and what to do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from itertools import chain
from typing import NamedTuple, cast

import numpy as np
import pyarrow as pa

from headrace.lowlevel.columnar.arrow_arrays import dicts_of, named_values, without_dictionary
from headrace.lowlevel.records.column_batch import ColumnBatch, Named, ValueSchema
from headrace.lowlevel.records.record import Batch
from headrace.lowlevel.time import Timestamp
from headrace.sdk.expressions.element_schema import Fields, Instant, Single
from headrace.sdk.io.columns.column_types import ValueChanges, common_type, is_text
from headrace.sdk.io.records import as_record
from headrace.sdk.model.row import Row

REMEDY = "state the columns with schema=pyarrow.schema([...])"
"""What to do if no schema can be inferred."""
_INSTANT = pa.timestamp("us", "UTC")
_PLAIN = frozenset((type(None), bool, int, float, str, bytes, Decimal, datetime, date, time, timedelta))
"""Types of values that are no records and contain none."""


def table_of(
    batch: Batch, schema: pa.Schema | None = None, is_open: bool = False, is_inferred: bool = False
) -> pa.Table:
    """A table with one row for each element. Every field of an element is in the table.

    Args:
        batch: The elements: dicts, `Row`s, named tuples or dataclasses. A `Timestamp` becomes an instant.
        schema: Columns and types; by default they are inferred from the elements.
        is_open: Whether further fields of elements become columns, too, and types become wider for values that do not
            fit. A column of the type `null` has the type of its values.
        is_inferred: Whether the types follow from earlier elements; see `ValueChanges`.

    Raises:
        ValueError: An element does not fit the schema, and is named, or the elements have no common schema.
        TypeError: An element has no named fields.

    >>> table_of(Batch([{"carrier": "UA"}, {"at": Timestamp(1)}], [0, 0])).schema.names
    ['carrier', 'at']
    """
    tables = [table_of_columns(part, schema, is_open, is_inferred) for part in batch.parts()]
    converted = [table for table in tables if table is not None]
    if converted and len(converted) == len(tables) and all(table.schema == converted[0].schema for table in converted):
        return pa.concat_tables(converted)
    return _of_values(batch.values, schema, is_open, is_inferred)


def table_of_columns(
    batch: Batch, schema: pa.Schema | None, is_open: bool = False, is_inferred: bool = False
) -> pa.Table | None:
    """The table of a column batch; None unless its Python values are certain to give the same table.

    Columns that the elements do not have are null. Arguments as of `table_of`.
    """
    if not isinstance(batch, ColumnBatch) or not isinstance(batch.shape, (Fields, Named)):
        return None
    names = batch.shape.names
    if not is_open and schema is not None and not {*names} <= {*schema.names}:
        # The conversion of single elements names one.
        return None
    columns = [_column(shape, batch.table) for shape in batch.shape.shapes]
    if not columns or (schema is None and any(column is None for column in columns)):
        return None
    if schema is None:
        return pa.Table.from_arrays(columns, names=list(names))
    by_name = {name: (shape, column) for name, shape, column in zip(names, batch.shape.shapes, columns, strict=True)}
    arrays, fields = [], []
    for field in schema:
        shape, column = by_name.pop(field.name, (None, pa.nulls(len(batch))))
        is_unknown = is_open and pa.types.is_null(field.type)
        stored = _stored(shape, batch.table, field.type) or column
        arrays.append(stored if is_unknown else _converted(stored, field.type, is_open or is_inferred))
        fields.append(field if column is None or not is_unknown else field.with_type(column.type))
    for name, (_, column) in by_name.items():
        arrays.append(column)
        fields.append(pa.field(name, pa.null() if column is None else column.type))
    if any(array is None for array in arrays):
        return None
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields, schema.metadata))


def _stored(shape: ValueSchema | None, table: pa.RecordBatch, kind: pa.DataType) -> pa.Array | None:
    """The column of a field as it is stored, if it is of the type; its Python values would give the same."""
    is_stored = isinstance(shape, Single) and table.column(shape.column).type == kind
    return table.column(shape.column) if isinstance(shape, Single) and is_stored else None


def _converted(column: pa.Array | None, to: pa.DataType, is_inferred: bool) -> pa.Array | None:
    """The column in another type, as its Python values would be converted; None where it takes Python values to decide.

    Arrow casts columns in ways in which it refuses to convert Python values: whole numbers to text or booleans, text to
    numbers.
    """
    if column is None or column.type == to:
        return column
    if pa.types.is_null(column.type):
        return pa.nulls(len(column), to)
    if not any(is_of(column.type) and is_to(to) for is_of, is_to in _ALIKE):
        return None
    if pa.types.is_timestamp(to) and (column.type.tz is None) != (to.tz is None):
        return None
    try:
        found = column.cast(to)
    except pa.ArrowInvalid:
        # The conversion of single elements finds the one that does not fit.
        return None
    return None if pa.types.is_float32(to) and _is_changed(column, found, is_inferred) else found


def _is_changed(column: pa.Array, found: pa.Array, is_inferred: bool) -> bool:
    """Whether fractions became others in single precision: infinite, or, if nobody has asked for that, rounded."""
    if not pa.types.is_float64(column.type):
        return False
    # It takes a tenth of a second to load, which a program without such columns need not wait for.
    import pyarrow.compute as pc

    same = pc.or_(pc.equal(found.cast(pa.float64()), column), pc.is_nan(column))
    fits = same if is_inferred else pc.or_(same, pc.is_finite(found))
    return not pc.all(fits, min_count=0).as_py()


def _is_float(kind: pa.DataType) -> bool:
    return bool(pa.types.is_float32(kind) or pa.types.is_float64(kind))


def _is_binary(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


_ALIKE: Sequence[tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType], bool]]] = (
    (pa.types.is_integer, pa.types.is_integer),
    (pa.types.is_integer, _is_float),
    (_is_float, _is_float),
    (is_text, is_text),
    (_is_binary, _is_binary),
    (pa.types.is_timestamp, pa.types.is_timestamp),
    (pa.types.is_decimal128, pa.types.is_decimal128),
)
"""Pairs of types whose columns Arrow casts as it converts Python values; it refuses at least the same values."""


def _column(shape: ValueSchema, table: pa.RecordBatch) -> pa.Array | None:
    """The values of a field in the type that Arrow infers from their Python values; None for other types."""
    if isinstance(shape, Instant):
        return table.column(shape.column).cast(_INSTANT)
    return _inferred(table.column(shape.column)) if isinstance(shape, Single) else None


def _inferred(column: pa.Array) -> pa.Array | None:
    """See `_column`."""
    column = without_dictionary(column)
    kind, types = column.type, pa.types
    if types.is_signed_integer(kind) or (types.is_integer(kind) and kind != pa.uint64()):
        return column.cast(pa.int64())
    if kind in (pa.float32(), pa.float64()):
        return column.cast(pa.float64())
    if kind in (pa.string(), pa.large_string()):
        return column.cast(pa.string())
    if types.is_decimal128(kind) and kind.scale >= 0:
        return column.cast(pa.decimal128(38, kind.scale))
    if types.is_list(kind) or types.is_large_list(kind):
        # Of lists that are all empty nothing is inferred.
        items = column.flatten()
        inner = _inferred(items) if items.null_count < len(items) else None
        return None if inner is None else column.cast(pa.list_(inner.type))
    if wider := _INFERRED.get(kind):
        return column.cast(wider)
    is_inferred = kind in (pa.null(), pa.bool_(), pa.binary(), pa.date32(), pa.timestamp("us"), _INSTANT)
    return column if is_inferred else None


_INFERRED = {
    pa.large_binary(): pa.binary(),
    pa.date64(): pa.date32(),
    **{kind: pa.time64("us") for kind in (pa.time32("s"), pa.time32("ms"), pa.time64("us"))},
    **{pa.duration(unit): pa.duration("us") for unit in ("s", "ms", "us")},
    **{pa.timestamp(unit): pa.timestamp("us") for unit in ("s", "ms")},
    **{pa.timestamp(unit, "UTC"): _INSTANT for unit in ("s", "ms")},
}
"""Type -> the type that Arrow infers from the Python values of its columns."""


def _of_values(values: Sequence[object], schema: pa.Schema | None, is_open: bool, is_inferred: bool) -> pa.Table:
    records = [in_arrow_values(as_record(value)) for value in values]
    if schema is None or is_open:
        return inferred_table(records, schema)
    _refuse_unknown(records, schema)
    try:
        table = _table(records, schema)
    except CONVERSION_ERRORS as error:
        raise ValueError(_explained(records, schema, error)) from error
    for field in schema:
        _require_unchanged(records, field, is_inferred)
    return table


def _table(records: Sequence[dict[str, object]], schema: pa.Schema) -> pa.Table:
    for field in schema:
        _refuse_null_entries((record.get(field.name) for record in records), field.type)
    return pa.Table.from_pylist(records, schema)


def _of_type(values: Sequence[object], kind: pa.DataType) -> pa.Array:
    _refuse_null_entries(values, kind)
    return pa.array(values, kind)


def _refuse_null_entries(values: Iterable[object], kind: pa.DataType) -> None:
    """Raise `pa.ArrowInvalid` for a map with None among its entries, for which Arrow ends the process."""
    types = pa.types
    if types.is_map(kind):
        entries = [entry for value in values if isinstance(value, (list, tuple)) for entry in value]
        if any(entry is None for entry in entries):
            raise pa.ArrowInvalid("a map has None in place of a pair of key and value")
        pairs = [entry for entry in entries if isinstance(entry, tuple) and len(entry) == 2]
        _refuse_null_entries((key for key, _ in pairs), kind.key_type)
        _refuse_null_entries((item for _, item in pairs), kind.item_type)
    elif types.is_struct(kind):
        records = [value for value in values if isinstance(value, Mapping)]
        for field in kind:
            _refuse_null_entries((record.get(field.name) for record in records), field.type)
    elif types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        lists = (value for value in values if isinstance(value, (list, tuple)))
        _refuse_null_entries(chain.from_iterable(lists), kind.value_type)


def _refuse_unknown(records: Sequence[dict[str, object]], schema: pa.Schema) -> None:
    """Raise `ValueError` for a record with a field that is no column, as its values would be lost."""
    known = {*schema.names}
    for record in records:
        if not record.keys() <= known:
            unknown = next(name for name in record if name not in known)
            raise ValueError(
                f"element {record!r:.200} does not fit the schema: it has a field {unknown!r}, but the columns are "
                f"{schema.names}; leave the field out before, with a Map, or add the column"
            )


def _require_unchanged(records: list[dict[str, object]], field: pa.Field, is_inferred: bool) -> None:
    """Raise `ValueError` for a record whose value would be another one in a column."""
    values = [record.get(field.name) for record in records]
    changes = ValueChanges(field.type, is_inferred)
    if changes.is_none(values):
        return
    for record, value in zip(records, values, strict=True):
        if change := changes.of(value):
            raise ValueError(
                f"element {record!r:.200} does not fit the schema: {change} in column {field.name!r} of type "
                f"{field.type}; map it to a value of this type before, or give the column another type"
            )


def inferred_table(records: Sequence[Mapping[str, object]], known: pa.Schema | None = None) -> pa.Table:
    """A table with every field that some record has, in the order in which they come; null where a record has none.

    Args:
        records: The records.
        known: Columns that come first. Their types are known, unless they are `null`, and become wider for values that
            do not fit. The other types follow from the values. Of a column of nulls the type is `null`, and decimals
            have the greatest precision, as later values may need it.

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
    columns = [
        _inferred_column(name, [record.get(name) for record in records], types.get(name, pa.null())) for name in names
    ]
    fields = [
        known.field(name).with_type(column.type) if name in types else pa.field(name, column.type)
        for name, column in zip(names, columns, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=pa.schema(fields, known.metadata))


def _inferred_column(name: str, values: Sequence[object], known: pa.DataType) -> pa.Array:
    if (column := _unchanged(values, known)) is not None:
        return column
    try:
        column = _array(values)
    except CONVERSION_ERRORS as error:
        raise ValueError(_no_type(name, values, error)) from error
    return column if pa.types.is_null(known) else _widened(name, values, known, column)


def _widened(name: str, values: Sequence[object], known: pa.DataType, column: pa.Array) -> pa.Array:
    """Values that do not fit a known type, in one that also holds those that do; `column` has them as inferred."""
    wider = common_type(known, column.type)
    found = column if wider == column.type else None if wider is None else _unchanged(values, wider)
    if found is not None:
        return found
    value = next((value for value in values if _unchanged([value], known) is None), values)
    raise ValueError(
        f"field {name!r} has the value {value!r:.80}, but the type {known} in the source of these elements; map it to "
        f"that type, or {REMEDY}"
    )


def _unchanged(values: Sequence[object], kind: pa.DataType) -> pa.Array | None:
    """The values as a column of a type; None if some do not fit, or would be others in it."""
    try:
        column = _of_type(values, kind)
    except CONVERSION_ERRORS:
        return None
    return None if ValueChanges(kind, is_inferred=True).first(values) else column


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
    column = column if exact == column.type else pa.array(values, exact)
    if change := ValueChanges(exact, is_inferred=True).first(values):
        raise ValueError(f"{change} in a column of type {exact}")
    return column


def _exact_type(values: Iterable[object], kind: pa.DataType) -> pa.DataType:
    """The type that loses nothing of values for which Arrow infers `kind`; decimals get the greatest precision."""
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
    # Arrow would cut the timestamps of pandas.
    if types.is_timestamp(kind) and any(getattr(value, "nanosecond", 0) for value in present):
        return pa.timestamp("ns", kind.tz)
    if types.is_duration(kind) and any(getattr(value, "nanoseconds", 0) for value in present):
        return pa.duration("ns")
    return kind


def _no_type(name: str, values: Sequence[object], error: Exception) -> str:
    """The message that names the value by which a column has no type."""
    first: object = None
    for value in values:
        try:
            kind = _array([value]).type
        except CONVERSION_ERRORS as reason:
            return no_type(name, value, reason, REMEDY)
        try:
            both = _array([first, value]).type
        except CONVERSION_ERRORS:
            return (
                f"field {name!r} has values of types without a common one: {first!r:.80} ({_array([first]).type}) and "
                f"{value!r:.80} ({kind}); map them to one, or {REMEDY}"
            )
        first = value if first is None and not pa.types.is_null(both) else first
    return f"the values of field {name!r} have no common type ({error}); map them to one, or {REMEDY}"


def in_arrow_values(record: dict[str, object]) -> dict[str, object]:
    """The record with datetimes for the engine's timestamps, and dicts for records within it.

    >>> in_arrow_values({"a": [Row(b=Timestamp(0))]})
    {'a': [{'b': datetime.datetime(1970, 1, 1, 0, 0, tzinfo=datetime.timezone.utc)}]}
    """
    if _PLAIN.issuperset(map(type, record.values())):
        return record
    return {name: _in_arrow(value) for name, value in record.items()}


def _in_arrow(value: object) -> object:
    if type(value) in _PLAIN:
        return value
    if isinstance(value, Timestamp):
        return value.to_utc_datetime(has_tz=True)
    if isinstance(value, (list, tuple, set, frozenset)) and not hasattr(value, "_fields"):
        items = [*value] if _PLAIN.issuperset(map(type, value)) else [_in_arrow(item) for item in value]
        return tuple(items) if isinstance(value, tuple) else items
    if isinstance(value, (Mapping, Row, tuple)) or (is_dataclass(value) and not isinstance(value, type)):
        return in_arrow_values(as_record(value))
    return value


def _explained(records: list[dict[str, object]], schema: pa.Schema, error: Exception) -> str:
    """The message that names the record that cannot be converted; Arrow does not, so each record is tried alone."""
    for record in records:
        try:
            _table([record], schema)
        except CONVERSION_ERRORS as reason:
            found = (misfit(field.name, [record.get(field.name)], field.type) for field in schema)
            why = next(filter(None, found), reason)
            return f"element {record!r:.200} does not fit the schema: {why}"
    return f"elements of this part have no common schema: {error}; state one with schema=pyarrow.schema(...)"


def to_rows(batch: pa.RecordBatch) -> list[object]:
    """A `Row` for each row of a batch.

    >>> to_rows(pa.RecordBatch.from_pydict({"carrier": ["UA"], "delay": [3]}))
    [Row(carrier='UA', delay=3)]
    """
    return [Row.of(fields) for fields in to_dicts(batch)]


def to_dicts(batch: pa.RecordBatch) -> list[dict[str, object]]:
    """A dict for each row of a batch.

    >>> to_dicts(pa.RecordBatch.from_pydict({"carrier": ["UA"], "delay": [3]}))
    [{'carrier': 'UA', 'delay': 3}]
    """
    names = batch.schema.names
    if not names:
        return [{} for _ in range(batch.num_rows)]
    return dicts_of(tuple(names), [named_values(batch, index) for index in range(batch.num_columns)])


CONVERSION_ERRORS = (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError, ValueError)
"""What Arrow raises for Python values that have no common type, or do not fit one."""
_types = pa.types
_OTHERWISE = "map it to a value of this type before, or give the column another type"
_PARSED = (
    (_types.is_integer, "int(...)"),
    (_types.is_floating, "float(...)"),
    (_types.is_decimal, "decimal.Decimal(...)"),
    (_types.is_date, "datetime.date.fromisoformat(...)"),
    (_types.is_timestamp, "datetime.datetime.fromisoformat(...)"),
    (_types.is_time, "datetime.time.fromisoformat(...)"),
)
"""Types, and what makes their values of text."""


class Misfit(NamedTuple):
    """A value that does not fit."""

    path: str
    """The column, with the field or item within the value, such as `sale.price` or `prices[2]`."""
    value: object
    kind: pa.DataType
    reason: str
    """What Arrow says."""

    def __str__(self) -> str:
        return (
            f"{self.value!r:.80} ({type(self.value).__name__}) does not fit in column {self.path!r} of type "
            f"{self.kind}: {self._explained()}"
        )

    def _explained(self) -> str:
        """Why the value does not fit, and the remedy."""
        if isinstance(self.value, str) and (parse := next((make for is_of, make in _PARSED if is_of(self.kind)), None)):
            return f"it is text; make a value of the column's type of it before, with {parse}"
        if _types.is_decimal(self.kind) and (explained := self._decimal()):
            return explained
        if _types.is_integer(self.kind) and type(self.value) is int:
            bounds = np.iinfo(self.kind.to_pandas_dtype())
            return f"the column holds {bounds.min} to {bounds.max}; give it a wider type, or map the value before"
        if _types.is_string(self.kind) or _types.is_large_string(self.kind):
            if isinstance(self.value, str):
                return "it has characters that UTF-8 does not have; replace them before"
            return "it is no text; make text of it before, with str(...), or give the column another type"
        if _types.is_boolean(self.kind):
            return "it is no truth value; make one of it before, with bool(...), or give the column another type"
        if isinstance(self.value, (datetime, timedelta)) and getattr(self.kind, "unit", "") == "ns":
            return "nanoseconds of 64 bits end in the year 2262 (292 years); give the column the unit 'us'"
        return f"{self.reason}; {_OTHERWISE}"

    def _decimal(self) -> str | None:
        if isinstance(self.value, float):
            return "it is a float; make a decimal of it before, with decimal.Decimal(str(...)), rounded to the scale"
        if isinstance(self.value, int):
            value = Decimal(self.value)
        elif isinstance(self.value, Decimal):
            value = self.value
        else:
            return None
        if not value.is_finite():
            return "no column of decimals has it; map it to None before"
        _, digits, exponent = value.as_tuple()
        behind, room = max(-cast(int, exponent), 0), self.kind.precision - self.kind.scale
        if behind > self.kind.scale:
            return (
                f"it has {behind} digits behind the point, and the column has a scale of {self.kind.scale}; round it "
                f"before, with .quantize(decimal.Decimal({str(Decimal(1).scaleb(-self.kind.scale))!r})), or give the "
                "column a greater scale"
            )
        return (
            f"it has {max(len(digits) + cast(int, exponent), 1)} digits before the point, and the column has room for "
            f"{room} (precision {self.kind.precision}, scale {self.kind.scale}); give the column a greater precision"
        )


def misfit(path: str, values: Iterable[object], kind: pa.DataType) -> Misfit | None:
    """The first of some values of a column that does not fit a type; None if Arrow takes each alone."""
    for value in values:
        try:
            _of_type([value], kind)
        except CONVERSION_ERRORS as error:
            return _within(path, value, kind) or Misfit(path, value, kind, str(error))
    return None


def _within(path: str, value: object, kind: pa.DataType) -> Misfit | None:
    """The part of a value of a nested type that does not fit."""
    if _types.is_struct(kind) and isinstance(value, Mapping):
        found = (misfit(f"{path}.{field.name}", [value.get(field.name)], field.type) for field in kind)
        return next(filter(None, found), None)
    if _types.is_map(kind):
        pairs = [*value.items()] if isinstance(value, Mapping) else value
        if not isinstance(pairs, Sequence) or not all(isinstance(pair, tuple) and len(pair) == 2 for pair in pairs):
            return None
        keys = misfit(f"{path}.keys", (key for key, _ in pairs), kind.key_type)
        found = (misfit(f"{path}[{key!r:.40}]", [item], kind.item_type) for key, item in pairs)
        return keys or next(filter(None, found), None)
    if _types.is_list(kind) or _types.is_large_list(kind) or _types.is_fixed_size_list(kind):
        items = value if isinstance(value, (list, tuple)) else ()
        found = (misfit(f"{path}[{index}]", [item], kind.value_type) for index, item in enumerate(items))
        return next(filter(None, found), None)
    return None


def no_type(path: str, value: object, reason: Exception, otherwise: str) -> str:
    """The message for a value of which Arrow has no type at all; `otherwise` is what helps for most."""
    remedy = otherwise
    if isinstance(value, Decimal) and not value.is_finite():
        remedy = "map it to None before"
    elif isinstance(value, (int, Decimal)):
        remedy = f"map it to text or to a float before, or {otherwise}"
    return f"field {path!r} has the value {value!r:.80}, for which Arrow infers no type ({reason}); {remedy}"
