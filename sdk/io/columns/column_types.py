"""Arrow types of columns: what holds the values of two types, and which values Arrow changes without an error."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import partial
from types import NoneType
from typing import TypeAlias, cast

import numpy as np
import pyarrow as pa

from headrace.lowlevel.columnar.arrow_arrays import is_nested

_types = pa.types
_VIEWS = (_types.is_string_view, _types.is_binary_view) if hasattr(_types, "is_string_view") else None
"""Whether a type is a view of text, or of bytes; None before pyarrow 16, which has no views."""
_UNITS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1000, "ns": 1}
"""Unit of a type of times -> its nanoseconds."""


class ValueChanges:
    """What would change of values in a column of a type.

    Args:
        kind: The type of the column.
        is_inferred: Whether the type follows from earlier values. A whole number is then no time; with a stated type it
            counts the type's units, as in Arrow. A fraction is then not rounded to the precision of the type.
        nullable: Whether there may be nulls; Arrow takes them within lists and records that may have none.

    >>> whole = ValueChanges(pa.int64())
    >>> whole.of(2.5), whole.of(2.0), ValueChanges(pa.binary()).of("tea")
    ('a part of 2.5 would be lost', None, "'tea' would become bytes")
    """

    def __init__(self, kind: pa.DataType, is_inferred: bool = False, nullable: bool = True) -> None:
        self._arguments = (kind, is_inferred, nullable)
        self._unchanged = frozenset((*([NoneType] if nullable else []), *_unchanged_types(kind)))
        """Types whose values Arrow takes as they are, or refuses."""
        make = next((make for is_kind, make in _CHANGES if is_kind(kind)), None)
        find = None if make is None else make(kind, is_inferred)
        self._find = find if nullable else partial(_unless_null, find)

    def __reduce__(self) -> tuple[object, ...]:
        # What it finds changes with is made of functions that cannot be pickled.
        return type(self), self._arguments

    def of(self, value: object) -> str | None:
        """How a value would change, with the value; None if it would not, or if Arrow refuses it."""
        return None if self._find is None or type(value) in self._unchanged else self._find(value)

    def first(self, values: Iterable[object]) -> str | None:
        """How the first of some values that would change would do so."""
        return None if self.is_none(values) else next(filter(None, map(self.of, values)), None)

    def is_none(self, values: Iterable[object]) -> bool:
        """Whether no value would change, as their types tell."""
        return self._find is None or self._unchanged.issuperset(map(type, values))


def _unless_null(find: _Change | None, value: object) -> str | None:
    if value is None:
        return "None would be where there may be no nulls"
    return None if find is None else find(value)


def _unchanged_types(kind: pa.DataType) -> tuple[type, ...]:
    if _types.is_integer(kind):
        return (int,)
    if _types.is_float64(kind):
        return (float,)
    if _types.is_date(kind):
        return (date,)
    if is_text(kind):
        return (str,)
    return (bytes,) if is_bytes(kind) else ()


def is_text(kind: pa.DataType) -> bool:
    """Whether values of a type are text."""
    is_view = _VIEWS is not None and _VIEWS[0](kind)
    return bool(_types.is_string(kind) or _types.is_large_string(kind) or is_view)


def is_bytes(kind: pa.DataType) -> bool:
    """Whether values of a type are bytes."""
    is_view = _VIEWS is not None and _VIEWS[1](kind)
    return bool(_types.is_binary(kind) or _types.is_large_binary(kind) or _types.is_fixed_size_binary(kind) or is_view)


def _lost(value: object) -> str:
    return f"a part of {value!r:.80} would be lost"


def _become(value: object, what: str) -> str:
    return f"{value!r:.80} would become {what}"


def _in_integers(value: object) -> str | None:
    if isinstance(value, (bool, np.bool_)):
        return _become(value, "a number")
    return _lost(value) if isinstance(value, (float, np.floating, Decimal)) and bool(value % 1) else None


def _in_floats(kind: pa.DataType, is_inferred: bool, value: object) -> str | None:
    """In fractions; who states a type of less than 64 bits asks for rounded ones."""
    if isinstance(value, (bool, np.bool_)):
        return _become(value, "a number")
    if not isinstance(value, (int, float, np.integer, np.floating)) or math.isnan(value):
        return None
    try:
        with np.errstate(over="ignore"):
            rounded = float(kind.to_pandas_dtype()(value))
    except OverflowError:
        rounded = math.inf
    is_asked_for = not is_inferred and isinstance(value, (float, np.floating)) and math.isfinite(rounded)
    if rounded == value or is_asked_for:
        return None
    change = "be rounded" if math.isfinite(rounded) else "become infinite"
    return f"{value!r:.80} would {change} (give the column 64 bits, or round it before)"


def _in_text(value: object) -> str | None:
    return _become(value, "text") if isinstance(value, (bytes, bytearray, memoryview)) else None


def _in_bytes(value: object) -> str | None:
    return _become(value, "bytes") if isinstance(value, str) else None


def _in_dates(is_inferred: bool, value: object) -> str | None:
    if isinstance(value, datetime):
        return _lost(value) if value.time() != time() or value.tzinfo is not None or is_inferred else None
    return _number(value, "a date", is_inferred)


def _in_times(kind: pa.DataType, is_inferred: bool, value: object) -> str | None:
    """In times of day, instants, times without a zone, and durations."""
    if isinstance(value, (np.datetime64, np.timedelta64)):
        # Within an array Arrow takes its number, whatever its unit.
        return None if np.datetime_data(value.dtype) == (kind.unit, 1) else _lost(value)
    if not isinstance(value, (date, time, timedelta)):
        return _number(value, "a time", is_inferred)
    if isinstance(value, time) and value.tzinfo is not None:
        return f"the time zone of {value!r:.80} would be lost"
    if isinstance(value, datetime) and _types.is_timestamp(kind) and (value.tzinfo is None) != (kind.tz is None):
        return f"{value!r:.80} would {'get' if kind.tz else 'lose'} a time zone"
    return _lost(value) if _nanoseconds(value) % _UNITS[kind.unit] else None


def _number(value: object, what: str, is_inferred: bool) -> str | None:
    if isinstance(value, (float, np.floating, Decimal)):
        # Arrow counts whole units, and cuts the rest.
        return _become(value, what) if is_inferred else _lost(value) if bool(value % 1) else None
    return _become(value, what) if is_inferred and isinstance(value, (int, np.integer)) else None


def _nanoseconds(value: object) -> int:
    """The part of a time below a second, in nanoseconds; only pandas has more than microseconds."""
    micros = value.microseconds if isinstance(value, timedelta) else getattr(value, "microsecond", 0)
    nanos = getattr(value, "nanoseconds" if isinstance(value, timedelta) else "nanosecond", 0)
    return micros * 1000 + nanos


def _in_structs(kind: pa.StructType, is_inferred: bool) -> _Change:
    fields = {field.name: ValueChanges(field.type, is_inferred, field.nullable) for field in kind}
    required = {field.name for field in kind if not field.nullable}

    def find(value: object) -> str | None:
        if not isinstance(value, Mapping):
            return _become(value, "a record")
        if not value.keys() <= fields.keys():
            return _lost(value)
        if missing := required - value.keys():
            return f"{value!r:.80} would have no {sorted(missing)[0]!r}"
        return next(filter(None, (fields[name].of(inner) for name, inner in value.items())), None)

    return find


def _in_maps(kind: pa.MapType, is_inferred: bool) -> _Change:
    keys = ValueChanges(kind.key_type, is_inferred)
    items = ValueChanges(kind.item_type, is_inferred, kind.item_field.nullable)

    def find(value: object) -> str | None:
        pairs = value.items() if isinstance(value, Mapping) else cast("Iterable[tuple[object, object]]", value)
        return next(filter(None, (keys.of(key) or items.of(item) for key, item in pairs)), None)

    return find


def _in_lists(kind: pa.DataType, is_inferred: bool) -> _Change:
    # An extension type of lists has no items of its own.
    inner = getattr(kind, "value_field", pa.field("item", pa.null()))
    items = ValueChanges(inner.type, is_inferred, inner.nullable)

    def find(value: object) -> str | None:
        if isinstance(value, (str, bytes)):
            return _become(value, "a list")
        return items.first(cast("Iterable[object]", value))

    return find


def _in_dictionaries(kind: pa.DictionaryType, is_inferred: bool) -> _Change:
    return ValueChanges(kind.value_type, is_inferred).of


def _is_time(kind: pa.DataType) -> bool:
    return bool(_types.is_time(kind) or _types.is_timestamp(kind) or _types.is_duration(kind))


_Change: TypeAlias = Callable[[object], str | None]
_CHANGES: Sequence[tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType, bool], _Change]]] = (
    (_types.is_integer, lambda kind, is_inferred: _in_integers),
    (_types.is_floating, lambda kind, is_inferred: partial(_in_floats, kind, is_inferred)),
    (is_text, lambda kind, is_inferred: _in_text),
    (is_bytes, lambda kind, is_inferred: _in_bytes),
    (_types.is_date, lambda kind, is_inferred: partial(_in_dates, is_inferred)),
    (_is_time, lambda kind, is_inferred: partial(_in_times, kind, is_inferred)),
    (_types.is_struct, _in_structs),
    (_types.is_map, _in_maps),
    (is_nested, _in_lists),
    (_types.is_dictionary, _in_dictionaries),
)
"""Types, and what happens to values in them; the first that fits counts."""


def lasting_type(kind: pa.DataType) -> pa.DataType:
    """The type that a column gets for good: one of which only nulls are known is text.

    >>> lasting_type(pa.list_(pa.null()))
    ListType(list<item: string>)
    """
    if _types.is_null(kind):
        return pa.string()
    if _types.is_struct(kind):
        fields = [field.with_type(lasting_type(field.type)) for field in kind]
        return kind if fields == [*kind] else pa.struct(fields)
    if _types.is_list(kind):
        item = lasting_type(kind.value_type)
        return kind if item == kind.value_type else pa.list_(item)
    return kind


def common_type(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """The type that holds the values of both, which may still be too large for it; None if there is none.

    >>> common_type(pa.int64(), pa.float64()), common_type(pa.int64(), pa.string())
    (DataType(double), None)
    """
    if one == other or _types.is_null(other):
        return one
    if _types.is_null(one):
        return other
    if _types.is_dictionary(one) != _types.is_dictionary(other):
        return common_type(*(kind.value_type if _types.is_dictionary(kind) else kind for kind in (one, other)))
    if is_nested(one) and is_nested(other):
        return _common_nested(one, other)
    if _types.is_timestamp(one) and _types.is_timestamp(other):
        unit = min(one.unit, other.unit, key=("ns", "us", "ms", "s").index)
        return pa.timestamp(unit, one.tz) if (one.tz is None) == (other.tz is None) else None
    if any(is_alike(one) and is_alike(other) for is_alike in _ALIKE):
        return _promoted(one, other)
    return _common_number(one, other)


def _common_nested(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    if _types.is_struct(one) and _types.is_struct(other):
        return _common_struct(one, other)
    if _types.is_map(one) and _types.is_map(other):
        key, item = common_type(one.key_type, other.key_type), common_type(one.item_type, other.item_type)
        return None if key is None or item is None else pa.map_(key, item)
    if not all(_types.is_list(kind) or _types.is_large_list(kind) for kind in (one, other)):
        return None
    item = common_type(one.value_type, other.value_type)
    make = pa.list_ if _types.is_list(one) and _types.is_list(other) else pa.large_list
    return None if item is None else make(item)


def _common_struct(one: pa.StructType, other: pa.StructType) -> pa.DataType | None:
    kinds = {field.name: field.type for field in one}
    for field in other:
        kind = common_type(kinds.get(field.name, pa.null()), field.type)
        if kind is None:
            return None
        kinds[field.name] = kind
    return pa.struct([pa.field(name, kind) for name, kind in kinds.items()])


def _promoted(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """What Arrow makes of two types of one kind."""
    try:
        schemas = [pa.schema({"": kind}) for kind in (one, other)]
        return pa.unify_schemas(schemas, promote_options="permissive").field(0).type
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return None


def _is_signed(kind: pa.DataType) -> bool:
    """Whether the type is one of the whole numbers that 64 bits with a sign hold."""
    return bool(_types.is_integer(kind)) and kind != pa.uint64()


_ALIKE: Sequence[Callable[[pa.DataType], bool]] = (
    *(is_text, is_bytes, _is_signed, _types.is_date, _types.is_time, _types.is_duration, _types.is_dictionary),
)
"""Kinds of types whose common one Arrow knows. Of text and bytes, or of fractions and decimals, it would make one."""


def _common_number(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    both = (one, other)
    if any(_types.is_decimal(kind) for kind in both):
        if not all(_types.is_decimal(kind) or _types.is_integer(kind) for kind in both):
            return None
        scale = max(kind.scale for kind in both if _types.is_decimal(kind))
        wide = any(_types.is_decimal256(kind) for kind in both)
        return pa.decimal256(76, scale) if wide else pa.decimal128(38, scale)
    if not all(_types.is_integer(kind) or _types.is_floating(kind) for kind in both):
        return None
    if any(_types.is_floating(kind) for kind in both):
        return pa.float64()
    return pa.uint64()


_WITH_SIGN = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
}
"""Unsigned type -> the least one with a sign that holds its values."""


def signed(kind: pa.DataType) -> pa.DataType:
    """The least type without unsigned ones, also within, that holds all values of a type.

    >>> signed(pa.list_(pa.uint8())), signed(pa.int8())
    (ListType(list<item: int16>), DataType(int8))
    """
    if _types.is_struct(kind):
        return pa.struct([field.with_type(signed(field.type)) for field in kind])
    if _types.is_map(kind):
        return pa.map_(signed(kind.key_type), kind.item_field.with_type(signed(kind.item_type)))
    if _types.is_list(kind) or _types.is_large_list(kind):
        return pa.list_(kind.value_field.with_type(signed(kind.value_type)))
    return _WITH_SIGN.get(kind, kind)
