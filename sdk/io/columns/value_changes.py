"""What Arrow changes of Python values without an error when it makes a column of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from types import NoneType
from typing import TypeAlias, cast

import numpy as np
import pyarrow as pa

_types = pa.types
_UNITS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1000, "ns": 1}
"""Unit of a type of times -> its nanoseconds."""


def changed_in(value: object, kind: pa.DataType, is_inferred: bool = False) -> str | None:
    """How a value would change in a column, with the value; None if it would not, or if Arrow refuses it.

    Args:
        value: The value.
        kind: The type of the column.
        is_inferred: Whether the type follows from earlier values. A whole number is then no time; with a stated type it
            counts the type's units, as in Arrow.

    >>> changed_in(2.5, pa.int64()), changed_in("tea", pa.binary()), changed_in(2.0, pa.int64())
    ('a part of 2.5 would be lost', "'tea' would become bytes", None)
    """
    if value is None:
        return None
    for is_kind, change in _CHANGES:
        if is_kind(kind):
            return change(value, kind, is_inferred)
    return None


def is_certain(types: Collection[type], kind: pa.DataType) -> bool:
    """Whether no value of these types would change in a column."""
    certain = (NoneType, *_certain(kind))
    return all(each in certain for each in types)


def _certain(kind: pa.DataType) -> tuple[type, ...]:
    """Types whose values Arrow takes unchanged or refuses."""
    if _types.is_integer(kind):
        return (int,)
    if _types.is_float64(kind):
        return (float, int)
    if _types.is_date(kind):
        return (date,)
    if is_text(kind):
        return (str,)
    return (bytes,) if is_bytes(kind) else ()


def is_text(kind: pa.DataType) -> bool:
    """Whether values of a type are text."""
    return bool(_types.is_string(kind) or _types.is_large_string(kind) or _types.is_string_view(kind))


def is_bytes(kind: pa.DataType) -> bool:
    """Whether values of a type are bytes."""
    return bool(
        _types.is_binary(kind)
        or _types.is_large_binary(kind)
        or _types.is_binary_view(kind)
        or _types.is_fixed_size_binary(kind)
    )


def _lost(value: object) -> str:
    return f"a part of {value!r:.80} would be lost"


def _become(value: object, what: str) -> str:
    return f"{value!r:.80} would become {what}"


def _in_integers(value: object, kind: pa.DataType, is_inferred: bool) -> str | None:
    if isinstance(value, (bool, np.bool_)):
        return _become(value, "a number")
    return _lost(value) if isinstance(value, (float, np.floating, Decimal)) and bool(value % 1) else None


def _in_floats(value: object, kind: pa.DataType, is_inferred: bool) -> str | None:
    if isinstance(value, (bool, np.bool_)):
        return _become(value, "a number")
    if _types.is_float64(kind) or not isinstance(value, (float, np.floating)) or math.isnan(value):
        return None
    with np.errstate(over="ignore"):
        rounded = float(kind.to_pandas_dtype()(value))
    if rounded == value:
        return None
    return f"{value!r:.80} would be rounded (round it before, with numpy.float32, or give the column pyarrow.float64())"


def _in_text(value: object, kind: pa.DataType, is_inferred: bool) -> str | None:
    return _become(value, "text") if isinstance(value, (bytes, bytearray, memoryview)) else None


def _in_bytes(value: object, kind: pa.DataType, is_inferred: bool) -> str | None:
    return _become(value, "bytes") if isinstance(value, str) else None


def _in_dates(value: object, kind: pa.DataType, is_inferred: bool) -> str | None:
    if isinstance(value, datetime):
        return _lost(value) if value.time() != time() or value.tzinfo is not None or is_inferred else None
    return _number(value, "a date", is_inferred)


def _in_times(value: object, kind: pa.DataType, is_inferred: bool) -> str | None:
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
    return _become(value, what) if is_inferred and isinstance(value, (int, np.integer)) else None


def _nanoseconds(value: object) -> int:
    """The part of a time below a second, in nanoseconds; only pandas has more than microseconds."""
    micros = value.microseconds if isinstance(value, timedelta) else getattr(value, "microsecond", 0)
    nanos = getattr(value, "nanoseconds" if isinstance(value, timedelta) else "nanosecond", 0)
    return micros * 1000 + nanos


def _in_structs(value: object, kind: pa.StructType, is_inferred: bool) -> str | None:
    if not isinstance(value, Mapping):
        return _become(value, "a record")
    fields = {field.name: field.type for field in kind}
    if not value.keys() <= fields.keys():
        return _lost(value)
    return _first(changed_in(inner, fields[name], is_inferred) for name, inner in value.items())


def _in_maps(value: object, kind: pa.MapType, is_inferred: bool) -> str | None:
    pairs = value.items() if isinstance(value, Mapping) else cast("Iterable[tuple[object, object]]", value)
    return _first(
        changed_in(key, kind.key_type, is_inferred) or changed_in(item, kind.item_type, is_inferred)
        for key, item in pairs
    )


def _in_lists(value: object, kind: pa.DataType, is_inferred: bool) -> str | None:
    if isinstance(value, (str, bytes)):
        return _become(value, "a list")
    item_type = getattr(kind, "value_type", None)
    if item_type is None:
        return None
    return _first(changed_in(item, item_type, is_inferred) for item in cast("Iterable[object]", value))


def _first(changes: Iterable[str | None]) -> str | None:
    return next(filter(None, changes), None)


def _in_dictionaries(value: object, kind: pa.DictionaryType, is_inferred: bool) -> str | None:
    return changed_in(value, kind.value_type, is_inferred)


def _is_time(kind: pa.DataType) -> bool:
    return bool(_types.is_time(kind) or _types.is_timestamp(kind) or _types.is_duration(kind))


_Change: TypeAlias = Callable[[object, pa.DataType, bool], str | None]
_CHANGES: Sequence[tuple[Callable[[pa.DataType], bool], _Change]] = (
    (_types.is_integer, _in_integers),
    (_types.is_floating, _in_floats),
    (is_text, _in_text),
    (is_bytes, _in_bytes),
    (_types.is_date, _in_dates),
    (_is_time, _in_times),
    (_types.is_struct, _in_structs),
    (_types.is_map, _in_maps),
    (_types.is_nested, _in_lists),
    (_types.is_dictionary, _in_dictionaries),
)
"""Types, and what happens to values in them; the first that fits counts."""
