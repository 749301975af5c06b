"""What: how elements and their panes are made of columns: single values, dicts, rows, tuples.

Rows of an Arrow table are elements in columns where their Python values are certain.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import date
from enum import Enum
from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from headrace.lowlevel.coders.key_types import dynamic_named_tuple
from headrace.lowlevel.columnar.arrow_arrays import dicts_of, is_nested, numbers_in
from headrace.lowlevel.columnar.key_columns import Numbers
from headrace.lowlevel.columnar.pyarrow_private import zone_of
from headrace.lowlevel.records.column_batch import Named, Single, Times, Tuple, ValueSchema, pair
from headrace.lowlevel.stored_names import stored_as
from headrace.lowlevel.time import Timestamp
from headrace.sdk.model.panes import PaneInfo, pane_of_window, retraction_of
from headrace.sdk.model.row import Row
from headrace.sdk.windows import BoundedWindow, GlobalWindow, IntervalWindow

__all__ = [
    "Fields",
    "FieldsKind",
    "Fired",
    "Instant",
    "OrNone",
    "Single",
    "Tuple",
    "field_in",
    "index_and_timing",
    "pair",
    "pane_codes",
    "panes_of",
    "shape_of_rows",
    "times_of",
    "windows_between",
]


@stored_as("TimestampShape")
@dataclass(frozen=True, slots=True)
class Instant:
    """A `Timestamp`, of a column with its microseconds UTC as 64-bit integers.

    >>> Instant(0).values(pa.RecordBatch.from_pydict({"start": [1_500_000]}))
    [Timestamp(1.500000)]
    """

    column: int

    def values(self, table: pa.RecordBatch) -> list[object]:
        """See `ValueSchema`."""
        return [Timestamp(micros=micros) for micros in cast(list[int], table.column(self.column).to_pylist())]

    def part(self, index: int) -> ValueSchema | None:
        """See `ValueSchema`."""
        return None

    def columns(self) -> tuple[int, ...]:
        """See `ValueSchema`."""
        return (self.column,)

    def moved(self, indices: Mapping[int, int]) -> Instant:
        """See `ValueSchema`."""
        return Instant(indices[self.column])


@stored_as("FieldsKind")
class FieldsKind(Enum):
    """The kind of value that has the fields."""

    DICT = "dict"
    ROW = "Row"
    TUPLE = "tuple"


@stored_as("FieldsShape")
@dataclass(frozen=True, slots=True)
class Fields:
    """Named values.

    >>> batch = pa.RecordBatch.from_pydict({"carrier": ["UA"], "delay": [3]})
    >>> Fields(("late",), (Single(1),), FieldsKind.DICT).values(batch)
    [{'late': 3}]
    """

    names: tuple[str, ...]
    shapes: tuple[ValueSchema, ...]
    """The shape of each field."""
    kind: FieldsKind
    tuple_name: str = ""
    """Name of the type of named tuples."""

    def values(self, table: pa.RecordBatch) -> list[object]:
        """See `ValueSchema`."""
        if not self.names:
            return [Row() if self.kind is FieldsKind.ROW else {} for _ in range(table.num_rows)]
        columns = [shape.values(table) for shape in self.shapes]
        if self.kind is FieldsKind.TUPLE:
            make = cast(Callable[..., object], dynamic_named_tuple(self.tuple_name, self.names))
            return [make(*values) for values in zip(*columns, strict=True)]
        fields = dicts_of(self.names, columns)
        return [Row.of(each) for each in fields] if self.kind is FieldsKind.ROW else cast("list[object]", fields)

    def part(self, index: int) -> ValueSchema | None:
        """See `ValueSchema`."""
        is_one = self.kind is FieldsKind.TUPLE and 0 <= index < len(self.shapes)
        return self.shapes[index] if is_one else None

    def columns(self) -> tuple[int, ...]:
        """See `ValueSchema`."""
        return tuple(column for shape in self.shapes for column in shape.columns())

    def moved(self, indices: Mapping[int, int]) -> Fields:
        """See `ValueSchema`."""
        return replace(self, shapes=tuple(shape.moved(indices) for shape in self.shapes))

    def field(self, name: str) -> ValueSchema | None:
        """The shape of a field."""
        return self.shapes[self.names.index(name)] if name in self.names else None


def field_in(shape: ValueSchema, name: str) -> ValueSchema | None:
    """The schema of a field of the values; None if they have none of this name."""
    return shape.field(name) if isinstance(shape, (Fields, Named)) else None


_DAYS = ((date(1, 1, 2) - date(1970, 1, 1)).days, (date(9999, 12, 30) - date(1970, 1, 1)).days)
"""First and last day, since 1970, that Python's calendar has in every time zone."""
_NO_ZONE = (pa.ArrowInvalid, KeyError, ValueError)
"""Errors of Arrow for an unknown time zone: those of zoneinfo and pytz are KeyErrors."""
_UNITS = {"s": 1, "ms": 1000, "us": 1_000_000}
"""Unit of times that Python has -> how many make a second."""
_LONGEST_SECONDS = 999_999_999 * 86_400
"""The longest duration of Python's, in seconds."""
_LARGEST_SECONDS = 9_000_000_000_000
"""The greatest number of seconds whose microseconds fit into 64 bits."""


def shape_of_rows(table: pa.RecordBatch, as_rows: bool) -> Fields | None:
    """The shape of dicts, or `Row`s, of all columns; None if making them could fail, or if two columns share a name.

    >>> shape_of_rows(pa.RecordBatch.from_pydict({"carrier": ["UA"], "delay": [3]}), as_rows=False).names
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
    if types.is_timestamp(kind) or types.is_date32(kind):
        return is_within_calendar(column)
    if types.is_time(kind) or types.is_duration(kind):
        return _is_plain_time(column)
    if types.is_dictionary(kind):
        return _is_plain(column.dictionary)
    if is_nested(kind):
        inner = _inner_columns(column)
        return bool(inner) and not any(types.is_dictionary(each.type) for each in inner) and all(map(_is_plain, inner))
    return (
        types.is_integer(kind)
        or kind in (pa.float64(), pa.float32(), pa.bool_(), pa.null(), pa.string(), pa.large_string())
        or kind in (pa.binary(), pa.large_binary())
        or types.is_decimal128(kind)
    )


def _is_plain_time(column: pa.Array) -> bool:
    """Whether Python has all of some times of day, or durations."""
    kind = column.type
    if pa.types.is_time(kind):
        last = 86_400 * _UNITS.get(kind.unit, 0) - 1
        return _is_between(column.cast(pa.int32() if pa.types.is_time32(kind) else pa.int64()), 0, last)
    most = _LONGEST_SECONDS * _UNITS.get(kind.unit, 1_000_000_000)
    return _is_between(column.cast(pa.int64()), -most, most)


def _inner_columns(column: pa.Array) -> list[pa.Array]:
    """The columns within a column of lists, structs or maps; none for other types, and for equal names."""
    kind, types = column.type, pa.types
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return [column.flatten()]
    if types.is_map(kind):
        return [column.keys, column.items]
    names = {field.name for field in kind} if types.is_struct(kind) else ()
    return column.flatten() if len(names) == kind.num_fields else []


def is_within_calendar(column: pa.Array) -> bool:
    """Whether Python's calendar has all times of a column of timestamps or days, in every time zone."""
    kind = column.type
    if pa.types.is_date32(kind):
        return _is_between(column.cast(pa.int32()), *_DAYS)
    if kind.tz is not None and kind.tz not in ("UTC", "+00:00"):
        try:
            zone_of(kind.tz)
        except _NO_ZONE:
            return False
    if kind.unit == "ns":
        return True
    first, last = (days * 86_400 * _UNITS[kind.unit] for days in _DAYS)
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
        if kind.unit == "ns":
            # As a datetime's, the microsecond of an instant is that which has begun.
            return _array(column.cast(pa.int64())) // 1000
        return _array(column.cast(pa.timestamp("us", kind.tz)).cast(pa.int64()))
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


def windows_between(starts: Numbers, ends: Numbers, in_global: bool = False) -> list[BoundedWindow]:
    """The window with each start and end, microseconds UTC, or the global window; equal windows are the same object."""
    if in_global:
        return [GlobalWindow()] * len(starts)
    bounds = list(zip(starts.tolist(), ends.tolist(), strict=True))
    windows = {each: IntervalWindow.of_micros(*each) for each in dict.fromkeys(bounds)}
    return list(map(windows.__getitem__, bounds))


@stored_as("PaneShape")
@dataclass(frozen=True, slots=True)
class Fired:
    """(value, window, pane), the form FIRED of a stage's elements.

    >>> from headrace.sdk.expressions.element_schema import Single
    >>> from headrace.sdk.model.panes import PANE_INFO_UNKNOWN
    >>> shape = Fired(Single(0), 1, 2, PANE_INFO_UNKNOWN)
    >>> shape.values(pa.RecordBatch.from_pydict({"total": [7], "start": [0], "end": [60_000_000]}))[0][:2]
    (7, [0.0, 60.0))
    """

    value: ValueSchema
    start: int
    """Column with the window's start, microseconds UTC."""
    end: int
    """Column with the window's end, microseconds UTC."""
    pane: PaneInfo | int
    """The pane of all rows, or the column with panes as numbers; see `pane_codes`."""
    in_global: bool = False
    """Whether the window is the global one."""

    def values(self, table: pa.RecordBatch) -> list[object]:
        """See `ValueSchema`."""
        windows, pane = self.windows(table), self.pane
        if isinstance(pane, int):
            return list(zip(self.value.values(table), windows, panes_of(numbers_in(table.column(pane))), strict=True))
        return [(value, window, pane) for value, window in zip(self.value.values(table), windows, strict=True)]

    def windows(self, table: pa.RecordBatch) -> list[BoundedWindow]:
        """The window of each row; equal windows are the same object."""
        starts, ends = (numbers_in(table.column(column)) for column in (self.start, self.end))
        return windows_between(starts, ends, self.in_global)

    def part(self, index: int) -> ValueSchema | None:
        """See `ValueSchema`."""
        return self.value if index == 0 else None

    def columns(self) -> tuple[int, ...]:
        """See `ValueSchema`."""
        panes = (self.pane,) if isinstance(self.pane, int) else ()
        return (*self.value.columns(), self.start, self.end, *panes)

    def moved(self, places: Mapping[int, int]) -> Fired:
        """See `ValueSchema`."""
        pane = places[self.pane] if isinstance(self.pane, int) else self.pane
        value = self.value.moved(places)
        return replace(self, value=value, start=places[self.start], end=places[self.end], pane=pane)


@stored_as("OrNoneShape")
@dataclass(frozen=True, slots=True)
class OrNone:
    """A value, or None, as a column of bools says.

    >>> OrNone(Single(0), 1).values(pa.RecordBatch.from_pydict({"delay": [3, 4], "is_there": [True, False]}))
    [3, None]
    """

    value: ValueSchema
    """Schema of the values that are there."""
    is_there: int
    """Column that is true where there is a value; without nulls."""

    def values(self, table: pa.RecordBatch) -> list[object]:
        """See `ValueSchema`."""
        is_there = table.column(self.is_there)
        found = iter(self.value.values(table.filter(is_there)))
        return [next(found) if one else None for one in numbers_in(is_there).tolist()]

    def part(self, index: int) -> ValueSchema | None:
        """See `ValueSchema`."""
        return None

    def columns(self) -> tuple[int, ...]:
        """See `ValueSchema`."""
        return (*self.value.columns(), self.is_there)

    def moved(self, indices: Mapping[int, int]) -> OrNone:
        """See `ValueSchema`."""
        return OrNone(self.value.moved(indices), indices[self.is_there])


_INDEX_BITS = 30
"""Bits of the index of a pane."""
_INDEX = (1 << _INDEX_BITS) - 1


def pane_codes(index: Numbers, nonspeculative: Numbers, timing: Numbers, is_last: NDArray[np.bool_]) -> Numbers:
    """Panes as numbers; a pane is the first of its window if its index is 0.

    >>> panes_of(pane_codes(*np.array([[0, 1], [-1, 0], [0, 1]]), np.array([False, True])))[1]
    PaneInfo(is_first=False, is_last=True, timing=<PaneInfoTiming.ON_TIME: 1>, index=1, nonspeculative_index=0, ...)
    """
    return ((nonspeculative + 1 << _INDEX_BITS | index) << 2 | timing) << 1 | is_last.astype(np.int64)


def code_of(pane: PaneInfo) -> int:
    """The number of one pane; see `pane_codes`.

    >>> panes_of(np.array([code_of(PaneInfo(True, False, 0, 0, -1))]))
    [PaneInfo(is_first=True, is_last=False, timing=<PaneInfoTiming.EARLY: 0>, index=0, nonspeculative_index=-1, ...)]
    """
    numbers = pane.index, pane.nonspeculative_index, int(pane.timing)
    index, nonspeculative, timing = (np.array([number]) for number in numbers)
    return int(pane_codes(index, nonspeculative, timing, np.array([pane.is_last]))[0])


def retraction_codes(codes: Numbers) -> Numbers:
    """The numbers of the retractions of panes, given those of the panes; and the other way round.

    >>> panes_of(retraction_codes(pane_codes(*np.array([[0], [-1], [0]]), np.array([False]))))[0].is_retraction
    True
    """
    return ~codes


def panes_of(codes: Numbers) -> list[PaneInfo]:
    """The panes of numbers made by `pane_codes` or `retraction_codes`; equal panes are the same object."""
    distinct, indices = np.unique(codes, return_inverse=True)
    panes = list(map(_pane_of, distinct.tolist()))
    return [panes[place] for place in indices.reshape(-1).tolist()]


def index_and_timing(shape: Fired, table: pa.RecordBatch) -> tuple[Numbers, Numbers]:
    """Index and timing of the pane of each row."""
    if isinstance(shape.pane, int):
        codes = cast(Numbers, numbers_in(table.column(shape.pane)))
        codes = np.where(codes < 0, retraction_codes(codes), codes)
        return codes >> 3 & _INDEX, codes >> 1 & 3
    return np.full(table.num_rows, shape.pane.index), np.full(table.num_rows, int(shape.pane.timing))


def _pane_of(code: int) -> PaneInfo:
    if code < 0:
        return retraction_of(_pane_of(~code))
    index, nonspeculative = code >> 3 & _INDEX, (code >> 3 + _INDEX_BITS) - 1
    return pane_of_window(index, nonspeculative, code >> 1 & 3, bool(code & 1))
