"""The values of records as columns: those that came as columns, and those that columns are made of here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import NoReturn, Protocol, TypeAlias, cast

import pyarrow as pa

from headrace.lowlevel.columns import Shape

Name: TypeAlias = "str | int | None"
"""Of a column: a field of dicts, rows and named tuples, a place in tuples, None for values that are a column."""
Fail: TypeAlias = Callable[[int, object, str], NoReturn]
"""Raises the error for a record, by its place, with its value and what is wrong with it."""


class Values(Protocol):
    """Values of many records."""

    def column(self, name: Name, fail: Fail) -> pa.Array:
        """A column of them, which may have nulls; `fail` is called if there is none."""

    def value(self, place: int) -> object:
        """The value of one record."""


class ColumnValues:
    """Those of a table."""

    def __init__(self, table: pa.RecordBatch, shape: Shape) -> None:
        self._table, self._shape = table, shape
        self._made: ObjectValues | None = None

    def column(self, name: Name, fail: Fail) -> pa.Array:
        """See `Values`."""
        shape = self._part(name)
        # A shape of one column says which one.
        place = getattr(shape, "column", None)
        if isinstance(place, int):
            return self._table.column(place)
        if self._made is None:
            self._made = ObjectValues(self._shape.values(self._table))
        return self._made.column(name, fail)

    def _part(self, name: Name) -> Shape | None:
        if name is None:
            return self._shape
        if isinstance(name, int):
            return self._shape.part(name)
        find: Callable[[str], Shape | None] | None = getattr(self._shape, "field", None)
        return None if find is None else find(name)

    def value(self, place: int) -> object:
        """See `Values`."""
        return self._shape.values(self._table.slice(place, 1))[0]


class ObjectValues:
    """Python values."""

    def __init__(self, values: Sequence[object]) -> None:
        self._values = values

    def column(self, name: Name, fail: Fail) -> pa.Array:
        """See `Values`."""
        items = self._items(name, fail)
        try:
            return pa.array(items, from_pandas=False)
        except (pa.ArrowException, OverflowError, TypeError, ValueError):
            place = _unlike(items)
        what = f"{_said(name)} is {items[place]!r:.80}, which cannot be in a column with {items[0]!r:.80}"
        fail(place, self._values[place], f"{what}; make all of them of one type, of 64 bits at most")

    def _items(self, name: Name, fail: Fail) -> list[object]:
        get = _getter(name)
        try:
            return list(map(get, self._values))
        except Exception:
            place = next(place for place, value in enumerate(self._values) if _fails(get, value))
        value = self._values[place]
        has = ", ".join(map(repr, _names_in(value))) or f"none, as it is of type {type(value).__name__}"
        fail(place, value, f"it has no {_said(name)} (those it has: {has}); name another, or map the records before")

    def value(self, place: int) -> object:
        """See `Values`."""
        return self._values[place]


def _getter(name: Name) -> Callable[[object], object]:
    if name is None:
        return lambda value: value
    if isinstance(name, int):
        # What has no items raises, and is told of.
        return cast("Callable[[object], object]", itemgetter(name))

    def get(value: object) -> object:
        return value[name] if isinstance(value, Mapping) else getattr(value, name)

    return get


def _fails(get: Callable[[object], object], value: object) -> bool:
    try:
        get(value)
    except Exception:
        return True
    return False


def _names_in(value: object) -> Sequence[object]:
    if isinstance(value, Mapping):
        return list(value)
    fields: Sequence[object] | None = getattr(value, "_fields", None)
    if fields is not None:
        return fields
    if isinstance(value, tuple):
        return range(len(value))
    return [name for name in getattr(value, "__dict__", ()) if not name.startswith("_")]


def _unlike(items: Sequence[object]) -> int:
    """The first that does not go together with those before it."""
    for place in range(len(items)):
        try:
            pa.array([items[0], items[place]])
        except (pa.ArrowException, OverflowError, TypeError, ValueError):
            return place
    return 0


def _said(name: Name) -> str:
    if name is None:
        return "value"
    return f"item {name}" if isinstance(name, int) else f"field {name!r}"
