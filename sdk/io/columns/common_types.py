"""The Arrow type that holds the values of two others, and the type that a column gets for good."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from headrace.sdk.io.columns.value_changes import is_bytes, is_text

_types = pa.types


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
    if _types.is_nested(one) and _types.is_nested(other):
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
