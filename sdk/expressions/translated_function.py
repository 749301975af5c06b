"""What: the result of a user function that was translated, and how columns give it.

The result holds as long as the names in the function's source that come from outside mean the same.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from types import FunctionType, ModuleType
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from headrace.lowlevel.columnar.arrow_arrays import is_nested, numbers_in
from headrace.lowlevel.records.column_batch import Times, ValueSchema
from headrace.lowlevel.time import END_OF_GLOBAL_WINDOW, MIN_TIMESTAMP
from headrace.sdk.expressions.batch_view import BatchView, Unable
from headrace.sdk.expressions.element_schema import Fields, FieldsKind, Instant, Single, Tuple
from headrace.sdk.expressions.expression_tree import ItemOf, Literal, Node

CONSTANTS = (str, int, float, bool, bytes, Decimal, date, datetime, time, timedelta)
"""Types of values that are the same as long as they are equal."""


def outer_value(function: FunctionType, path: str) -> object:
    """The value of a name in a function now, or of a name in a module (`math.pi`); None if it is not defined.

    >>> import math
    >>> outer_value(lambda number: number * math.pi, "math.pi")
    3.141592653589793
    """
    name, *attributes = path.split(".")
    value = _value(function, name)
    for attribute in attributes:
        # What a class or an instance has may be computed anew at each look.
        value = vars(value).get(attribute) if isinstance(value, ModuleType) else None
    return value


def _value(function: FunctionType, name: str) -> object:
    inner = function.__code__.co_freevars
    if name in inner:
        try:
            return (function.__closure__ or ())[inner.index(name)].cell_contents
        except (ValueError, IndexError):
            return None
    scope = function.__globals__
    own = scope.get("__builtins__", builtins)
    return scope.get(name, (own if isinstance(own, dict) else vars(own)).get(name))


def is_still(function: FunctionType, path: str, value: object) -> bool:
    """Whether a name has a value that it had before; equal constants of one type are the same value."""
    found = outer_value(function, path)
    # Equal floats may differ in sign, and pickling makes other objects.
    return found is value or (type(value) in CONSTANTS and type(found) is type(value) and repr(found) == repr(value))


@dataclass(frozen=True, slots=True)
class Made:
    """A tuple, or a dict if it has names, of other values."""

    values: tuple[Value, ...]
    names: tuple[str, ...] | None = None


Value: TypeAlias = Node | Made


@dataclass(frozen=True, slots=True)
class EventTime:
    """A value as an event time."""

    value: Node
    unit: int
    """Microseconds of one, if it is a number."""
    kinds: tuple[str, ...] = ("int",)
    """The kinds of `Vector`s that may be one: others are an error, or something else in another SDK."""


@dataclass(frozen=True, slots=True)
class TranslatedFunction:
    """The result of a function for an element, as a `ColumnFunction`."""

    value: Value
    spread: int | None = None
    """Number of parameters that an element is spread over; None if it is not."""
    names: tuple[tuple[str, object], ...] = ()
    """The names from outside in its source, with their values at the time of translation."""
    event_time: EventTime | None = None
    """The event time of the result, if the function gives it one."""

    def is_still(self, function: object) -> bool:
        """Whether the translation still holds: the names from outside have the same values."""
        return isinstance(function, FunctionType) and all(is_still(function, name, value) for name, value in self.names)

    def node(self) -> Node | None:
        """The result, if it is a single value; else None."""
        return None if isinstance(self.value, Made) else self.value

    def on_columns(self, view: BatchView) -> ValueSchema:
        """See `ColumnFunction`."""
        self.check_width(view)
        shape = _shape_of(self.value, view)
        _refuse_shared(self.value, view)
        if self.event_time is not None:
            view.stamp(_micros(self.event_time, view))
        return shape

    def check_width(self, view: BatchView) -> None:
        """Raise `Unable` for elements that cannot be spread over the parameters."""
        if self.spread is not None and len(view.items(view.shape)) != self.spread:
            raise Unable("the function has another number of parameters than elements have items")

    def column_parts(self) -> tuple[()]:
        """See `ColumnFunction`."""
        return ()


def _micros(event_time: EventTime, view: BatchView) -> Times:
    """The event times of a batch. Raises `Unable` for what may not be one, so that the function is called."""
    from headrace.sdk.expressions.arrow_evaluation import column_of

    kind, column = column_of(event_time.value, view)
    if column.null_count or kind not in event_time.kinds:
        raise Unable(f"the event times are not all of {' or '.join(event_time.kinds)}")
    numbers = numbers_in(column if kind == "float" else column.cast(pa.int64()))
    unit = event_time.unit if kind in ("int", "float") else 1
    if kind == "aware" and column.type.unit == "ns":
        numbers = numbers // 1000
    least, beyond = (bound // unit for bound in (MIN_TIMESTAMP, END_OF_GLOBAL_WINDOW))
    # Not a number is not within the bounds.
    if len(numbers) and not (least < numbers.min() and numbers.max() < beyond):
        raise Unable("some event times are too near to the ends of the time scale")
    times: Times = np.rint(numbers * unit).astype(np.int64) if kind == "float" else numbers * unit
    return times


def _shape_of(value: Value, view: BatchView) -> ValueSchema:
    if isinstance(value, Made):
        shapes = tuple(_shape_of(each, view) for each in value.values)
        return Tuple(shapes) if value.names is None else Fields(value.names, shapes, FieldsKind.DICT)
    if value == Literal(None):
        return view.nothing()
    # Arrow's functions take a tenth of a second to load, which a program without columns need not wait for.
    from headrace.sdk.expressions.arrow_evaluation import shape_of

    return shape_of(value, view)


def _refuse_shared(value: Value, view: BatchView) -> None:
    """Raise `Unable` where two parts of the result are the same mutable object, as columns would copy it."""
    from headrace.sdk.expressions.arrow_evaluation import item

    used_columns: set[int] = set()
    for each in _items(value):
        shape = item(view, each)
        if not isinstance(shape, (Single, Instant)) or is_nested(view.column(shape).type):
            if used_columns.intersection(shape.columns()):
                raise Unable("two parts of what the function returns are the same object")
            used_columns.update(shape.columns())


def _items(value: Value) -> Iterator[ItemOf]:
    if isinstance(value, ItemOf):
        yield value
    elif isinstance(value, Made):
        for each in value.values:
            yield from _items(each)
