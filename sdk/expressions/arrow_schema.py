"""What: rows of an Arrow table as elements in columns, where their Python values are certain."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.lowlevel.columnar.arrow_arrays import numbers_in
from headrace.lowlevel.columnar.pyarrow_private import zone_of
from headrace.lowlevel.records.column_batch import Times
from headrace.sdk.expressions.element_schema import Fields, FieldsKind, Single

_DAYS = ((date(1, 1, 2) - date(1970, 1, 1)).days, (date(9999, 12, 30) - date(1970, 1, 1)).days)
"""First and last day, since 1970, that Python's calendar has in every time zone."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NO_ZONE = (pa.ArrowInvalid, KeyError, ValueError)
"""Errors of Arrow for an unknown time zone: those of zoneinfo and pytz are KeyErrors."""
_INSTANTS = tuple((_EPOCH + timedelta(days)) for days in _DAYS)
_LARGEST_SECONDS = 9_000_000_000_000
"""The greatest number of seconds whose microseconds fit into 64 bits."""


def shape_of_rows(table: pa.RecordBatch, as_rows: bool) -> Fields | None:
    """The shape of dicts, or `Row`s, of all columns; None if making them could fail, or if two columns share a name.

    >>> shape_of_rows(pa.record_batch({"carrier": ["UA"], "delay": [3]}), as_rows=False).names
    ('carrier', 'delay')
    """
    names = table.schema.names
    if len(set(names)) < len(names) or not all(map(_is_plain, table.columns)):
        return None
    try:
        table.validate(full=True)
    except pa.ArrowInvalid:
        return None
    kind = FieldsKind.ROW if as_rows else FieldsKind.DICT
    return Fields(tuple(names), tuple(map(Single, range(len(names)))), kind)


def _is_plain(column: pa.Array) -> bool:
    kind, types = column.type, pa.types
    if types.is_timestamp(kind):
        return _is_in_calendar(column)
    if types.is_date32(kind):
        return _is_between(column.cast(pa.int32()), *_DAYS)
    if types.is_dictionary(kind):
        return _is_plain(column.dictionary)
    return (
        types.is_integer(kind)
        or kind in (pa.float64(), pa.float32(), pa.bool_(), pa.null(), pa.string(), pa.large_string())
        or kind in (pa.binary(), pa.large_binary())
        or types.is_decimal128(kind)
    )


def _is_in_calendar(column: pa.Array) -> bool:
    kind = column.type
    if kind.tz is not None and kind.tz not in ("UTC", "+00:00"):
        try:
            zone_of(kind.tz)
        except _NO_ZONE:
            return False
    if kind.unit == "ns":
        return True
    first, last = (pa.scalar(each, pa.timestamp(kind.unit, "UTC")).value for each in _INSTANTS)
    return _is_between(column.cast(pa.int64()), first, last)


def _is_between(column: pa.Array, least: int, greatest: int) -> bool:
    ends = pc.min_max(column).as_py()
    return ends["min"] is None or bool(least <= ends["min"] and ends["max"] <= greatest)


def times_of(column: pa.Array) -> Times | None:
    """Event times in microseconds UTC of instants, or of seconds since 1970; None for other columns.

    Raises `ArrowInvalid` for instants beyond 64 bits of microseconds.

    >>> times_of(pa.array([1, 2])), times_of(pa.array([0.5])), times_of(pa.array(["noon"]))
    (array([1000000, 2000000]), array([500000]), None)
    """
    kind = column.type
    if column.null_count:
        return None
    if pa.types.is_timestamp(kind):
        if kind.tz is None:
            return None
        exact = pc.CastOptions(pa.timestamp("us", tz=kind.tz), allow_time_truncate=True)
        return _array(pc.cast(pc.cast(column, options=exact), pa.int64()))
    if kind == pa.float64():
        micros = np.rint(numbers_in(column) * 1e6)
        # The comparison is false for NaN.
        return micros.astype(np.int64) if bool(np.all(np.abs(micros) < _LARGEST_SECONDS * 1e6)) else None
    if pa.types.is_signed_integer(kind):
        return _array(column.cast(pa.int64())) * 1_000_000 if _is_between(column, *_SECONDS) else None
    return None


_SECONDS = (-_LARGEST_SECONDS, _LARGEST_SECONDS)


def _array(column: pa.Array) -> Times:
    values: Times = numbers_in(column)
    return values
