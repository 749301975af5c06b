"""What: Python values of one type as columns, and columns in the widest type of the same Python values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import date, timedelta
from decimal import Decimal
from operator import itemgetter
from typing import NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.lowlevel.columnar.arrow_arrays import of_numbers, without_dictionary
from headrace.lowlevel.records.column_batch import ValueSchema
from headrace.lowlevel.time import Timestamp
from headrace.sdk.expressions.element_schema import Fields, FieldsKind, Instant, Single, Tuple
from headrace.sdk.model.row import Row


def widest(values: pa.Array) -> pa.Array:
    """The values in the widest type of the same Python values, so that columns of several batches can be joined."""
    kind = values.type
    if pa.types.is_integer(kind) and kind != pa.uint64():
        return values.cast(pa.int64())
    if pa.types.is_decimal128(kind):
        return values.cast(pa.decimal128(_DIGITS, kind.scale))
    return values.cast(_WIDER.get(kind, kind))


_WIDER = {pa.float32(): pa.float64(), pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}


def column_of(values: Sequence[object], nulls: bool = False) -> pa.Array | None:
    """Python values of one type as a column of which the same values can be made again; None for others.

    Args:
        values: The values, at least one.
        nulls: Whether some may be None.

    >>> column_of([1.5, 2.0]).type, column_of([1, 2.5]), column_of([1 << 63])
    (DataType(double), None, None)
    """
    kinds = set(map(type, values))
    if nulls and type(None) in kinds:
        return _with_nulls(values)
    kind = _TYPES.get(next(iter(kinds))) if len(kinds) == 1 else None
    try:
        if kind in (pa.int64(), pa.float64()):
            dtype = np.int64 if kind == pa.int64() else np.float64
            return of_numbers(np.fromiter(cast("Sequence[int]", values), dtype, len(values)))
        if kinds == {Decimal}:
            return _decimals(cast("Sequence[Decimal]", values))
        return None if kind is None else pa.array(values, kind)
    except (OverflowError, UnicodeEncodeError, pa.ArrowInvalid):
        # The number has more than 64 bits, or the text a lone surrogate.
        return None


def _with_nulls(values: Sequence[object]) -> pa.Array | None:
    present = [value for value in values if value is not None]
    if not present:
        return pa.nulls(len(values))
    column = column_of(present)
    if column is None:
        return None
    places = np.cumsum([value is not None for value in values]) - 1
    missing = np.fromiter((value is None for value in values), np.bool_, len(values))
    return column.take(pc.if_else(of_numbers(missing), pa.nulls(1, pa.int64())[0], of_numbers(places)))


def _decimals(values: Sequence[Decimal]) -> pa.Array | None:
    """Decimals with one number of decimal places: others would not be the same again."""
    exponents = {value.as_tuple().exponent for value in values}
    exponent = exponents.pop()
    negative_zero = any(not value and value.is_signed() for value in values)
    if exponents or negative_zero or not isinstance(exponent, int) or not -_DIGITS < exponent <= 0:
        return None
    return pa.array(values, pa.decimal128(_DIGITS, -exponent))


_DIGITS = 38
_TYPES: dict[type, pa.DataType] = {
    int: pa.int64(),
    float: pa.float64(),
    bool: pa.bool_(),
    str: pa.large_string(),
    bytes: pa.large_binary(),
    date: pa.date32(),
    timedelta: pa.duration("us"),
    Decimal: pa.decimal128(_DIGITS, 0),
}
"""Type of Python values -> type of their column."""


class ElementColumns(NamedTuple):
    """Values as columns."""

    shape: ValueSchema
    columns: Sequence[pa.Array]

    def single(self) -> pa.Array | None:
        """The column of values that are those of one column."""
        return without_dictionary(self.columns[self.shape.column]) if isinstance(self.shape, Single) else None

    def item(self, index: int) -> ElementColumns | None:
        """The items of values that are tuples."""
        shape = self.shape.part(index)
        return None if shape is None else ElementColumns(shape, self.columns)


def columns_of(values: Sequence[object], first: int = 0) -> ElementColumns | None:
    """Python values as columns of which the same values can be made again, None among them; None for others.

    Args:
        values: Values of one type, see `column_of`, or tuples of one length of such values.
        first: The index of the first column in the shape.
    """
    kinds = set(map(type, values))
    if kinds == {tuple}:
        return _columns_of_tuples(cast("Sequence[tuple[object, ...]]", values), first, columns_of)
    if kinds == {Timestamp}:
        micros = np.fromiter((cast(Timestamp, value).micros for value in values), np.int64, len(values))
        return ElementColumns(Instant(first), [of_numbers(micros)])
    column = column_of(values, nulls=True)
    return None if column is None else ElementColumns(Single(first), [column])


def element_columns(values: Sequence[object], first: int = 0) -> ElementColumns | None:
    """The same for elements: also for dicts and `Row`s with the same fields in the same order, alone or in tuples.

    >>> element_columns([("UA", {"delay": 3}), ("AA", {"delay": None})]).shape.part(1).names
    ('delay',)
    """
    kinds = set(map(type, values))
    if kinds == {tuple}:
        return _columns_of_tuples(cast("Sequence[tuple[object, ...]]", values), first, element_columns)
    if kinds not in ({dict}, {Row}):
        return columns_of(values, first)
    records = cast("Sequence[dict[object, object]]", values if kinds == {dict} else list(map(vars, values)))
    names = tuple(records[0])
    if set(map(type, names)) != {str} or set(map(tuple, records)) != {names}:
        return None
    found = _joined((list(map(itemgetter(name), records)) for name in names), first, columns_of)
    kind = FieldsKind.DICT if kinds == {dict} else FieldsKind.ROW
    return found and ElementColumns(Fields(cast("tuple[str, ...]", names), found[0], kind), found[1])


_Convert = Callable[[Sequence[object], int], ElementColumns | None]


def _columns_of_tuples(values: Sequence[tuple[object, ...]], first: int, convert: _Convert) -> ElementColumns | None:
    width = len(values[0])
    if not width or set(map(len, values)) != {width}:
        return None
    found = _joined((list(map(itemgetter(place), values)) for place in range(width)), first, convert)
    return found and ElementColumns(Tuple(found[0]), found[1])


def _joined(
    parts: Iterable[Sequence[object]], first: int, convert: _Convert
) -> tuple[tuple[ValueSchema, ...], list[pa.Array]] | None:
    """The shapes and the columns of several parts of the same elements; None if one of them is no columns."""
    shapes, columns = list[ValueSchema](), list[pa.Array]()
    for part in parts:
        found = convert(part, first + len(columns))
        if found is None:
            return None
        shapes.append(found.shape)
        columns += found.columns
    return (*shapes,), columns
