"""What: column expressions computed by Arrow, where the results are certain to equal Python's.

A row for which Python would raise, or give a value that no column holds, is marked as *unsure*. If an unsure row
remains in the result, the batch is processed per element. So `col.delay.is_not_null() & (col.delay > 15)` is vectorized
also where there are nulls: their rows do not need the right side.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.lowlevel.columnar.arrow_arrays import is_nested, of_numbers
from headrace.lowlevel.records.column_batch import Named, ValueSchema
from headrace.sdk.expressions.arrow_functions import (
    Vector,
    add,
    constant,
    divide,
    either,
    equality,
    fill_null,
    if_else,
    is_in,
    is_not_null,
    is_null,
    length,
    multiply,
    negation,
    normal,
    order,
    replaced,
    require,
    seconds,
    signed,
    strict,
    stripped,
    subtract,
    text,
    to_float,
    to_int,
    to_str,
    truth,
    whole,
)
from headrace.sdk.expressions.batch_view import BatchView, Unable
from headrace.sdk.expressions.element_schema import Fields, FieldsKind, Instant, Single, field_in
from headrace.sdk.expressions.expression_tree import (
    Attribute,
    FieldOf,
    FromEngine,
    ItemOf,
    Literal,
    Node,
    Operation,
    ambiguity,
    expression_text,
)


def shape_of(node: Node, view: BatchView) -> ValueSchema:
    """The shape of an expression's values, whose columns are added to the view. Raises `Unable` or Arrow's errors."""
    if isinstance(node, (FieldOf, ItemOf)):
        return _element_shape(node, view)
    vector = _require_sure(evaluated(node, view))
    if vector.kind == "other" or (vector.kind == "aware" and vector.is_constant):
        raise Unable(f"values of the type {vector.values.type} are not computed by column")
    values = vector.values
    index = view.add(pa.repeat(values, len(view.times)) if vector.is_constant else values)
    return Instant(index) if vector.kind == "instant" else Single(index)


def column_of(node: Node, view: BatchView) -> tuple[str, pa.Array]:
    """The kind and the column of an expression's values. Raises `Unable` or Arrow's errors."""
    vector = _require_sure(evaluated(node, view))
    return vector.kind, pa.repeat(vector.values, len(view.times)) if vector.is_constant else vector.values


def mask_of(node: Node, view: BatchView) -> pa.Array:
    """Where an expression is true by Python's rules, without nulls. Raises `Unable` or Arrow's errors."""
    mask = _require_sure(truth(evaluated(node, view))).values
    return pa.repeat(mask, len(view.times)) if isinstance(mask, pa.Scalar) else mask


def _require_sure(vector: Vector) -> Vector:
    if vector.unsure is not None and pc.any(vector.unsure).as_py():
        raise Unable("some elements have values that the operations do not take, or give some that no column holds")
    return vector


def _element_shape(node: FieldOf | ItemOf, view: BatchView) -> ValueSchema:
    if isinstance(node, ItemOf):
        return item(view, node)
    if (shape := field_in(view.shape, node.name)) is None:
        raise Unable(f"the elements have no column {node.name!r}")
    return shape


def item(view: BatchView, node: ItemOf) -> ValueSchema:
    """The shape of an item of the elements; a field of a struct becomes a column of the view. Raises `Unable`."""
    shape, column = view.shape, None
    for step in node.path:
        inner = _step(shape, step)
        if inner is None:
            column = _part_of_values(view.column(shape), step) if isinstance(shape, Single) else None
            if column is None:
                raise Unable(f"the elements have no column {expression_text(node)}")
            inner = Single(view.add(column))
        shape = inner
    # A list within a dict is one object, however often it is returned.
    require(column is None or not is_nested(column.type), f"{expression_text(node)} may be changed")
    return shape


_PARTS = {"year": pc.year, "month": pc.month, "day": pc.day, "hour": pc.hour, "minute": pc.minute, "second": pc.second}
"""Attributes of dates and datetimes, of which dates have the first three."""


def _part_of_values(column: pa.Array, step: str | int | Attribute) -> pa.Array | None:
    """A field of dicts, or an attribute of dates; None if there is no such part, or if one of the values is None."""
    kind = column.type
    if isinstance(step, Attribute):
        kinds = ("naive", "aware") if step.name in list(_PARTS)[3:] else ("naive", "aware", "date")
        is_there = step.name in _PARTS and normal(column, False).kind in kinds
        return _PARTS[step.name](column) if is_there and not column.null_count else None
    is_there = pa.types.is_struct(kind) and isinstance(step, str) and step in (field.name for field in kind)
    return pc.struct_field(column, kind.get_field_index(step)) if is_there and not column.null_count else None


def _step(shape: ValueSchema, step: str | int | Attribute) -> ValueSchema | None:
    if isinstance(step, int):
        return shape.part(step)
    is_dict = isinstance(shape, Named) or (isinstance(shape, Fields) and shape.kind is FieldsKind.DICT)
    if isinstance(shape, (Fields, Named)) and is_dict is isinstance(step, str):
        return shape.field(step.name if isinstance(step, Attribute) else step)
    return None


def micros(vector: Vector) -> Vector:
    """The microseconds of instants."""
    require(vector.kind == "instant", f"{vector.kind} has no microseconds")
    return Vector("int", vector.values, vector.unsure)


def day(vector: Vector) -> Vector:
    """The dates of datetimes."""
    require(vector.kind in ("naive", "aware"), f"{vector.kind} has no date")
    return strict("date", vector.values.cast(pa.timestamp(vector.values.type.unit)).cast(pa.date32()), vector)


def weekday(vector: Vector) -> Vector:
    """The days of the week, from Monday, 0."""
    require(vector.kind in ("date", "naive", "aware"), f"{vector.kind} has no day of the week")
    return strict("int", pc.day_of_week(vector.values), vector)


def evaluated(node: Node, view: BatchView) -> Vector:
    """The values of a node. Raises `Unable` or Arrow's errors."""
    match node:
        case FieldOf() | ItemOf():
            shape = _element_shape(node, view)
            return normal(view.column(shape), isinstance(shape, Instant))
        case Literal(value):
            return constant(value)
        case FromEngine(name, True) if field_in(view.shape, name) is not None:
            raise Unable(ambiguity(name))
        case FromEngine("timestamp"):
            return Vector("instant", of_numbers(view.times))
        case FromEngine("pane_index" | "pane_timing" as name):
            return Vector("int", of_numbers(view.panes()[name == "pane_timing"]))
        case FromEngine(name):
            return Vector("instant", of_numbers(view.windows()[name == "window_end"]))
        case Operation("and" | "or" as name, (first, second)):
            return either(name == "and", truth(evaluated(first, view)), truth(evaluated(second, view)))
        case Operation("isin", (operand, Literal(members))):
            assert isinstance(members, tuple), "isin makes a tuple of its values"
            return is_in(evaluated(operand, view), members)
        case Operation(name, operands):
            vectors = [evaluated(operand, view) for operand in (_addends(node) if name == "add" else operands)]
            if all(vector.is_constant for vector in vectors[: len(operands)]):
                raise Unable("an operation on nothing but constants is not computed by column")
            return _FUNCTIONS[name](*vectors)


def _addends(node: Node) -> list[Node]:
    """The operands of nested sums, from left to right."""
    behind: list[Node] = []
    while isinstance(node, Operation) and node.name == "add":
        node, second = node.operands
        behind.append(second)
    return [node, *reversed(behind)]


_Function: TypeAlias = Callable[..., Vector]
_FUNCTIONS: Mapping[str, _Function] = {
    "add": add,
    "subtract": subtract,
    "multiply": multiply,
    "divide": divide,
    "floor_divide": whole(np.floor_divide),
    "modulo": whole(np.remainder),
    "negate": signed(pc.negate_checked),
    "absolute": signed(pc.abs_checked),
    "equal": equality(True),
    "not_equal": equality(False),
    "less": order(pc.less),
    "less_equal": order(pc.less_equal),
    "greater": order(pc.greater),
    "greater_equal": order(pc.greater_equal),
    "not": negation,
    "if_else": if_else,
    "is_null": is_null,
    "is_not_null": is_not_null,
    "fill_null": fill_null,
    "lower": text(pc.ascii_lower, "str", True),
    "upper": text(pc.ascii_upper, "str", True),
    "strip": text(stripped, "str", True),
    "startswith": text(pc.starts_with, "bool", False),
    "endswith": text(pc.ends_with, "bool", False),
    "contains": text(pc.match_substring, "bool", False),
    "replace": text(replaced, "str", False),
    "length": length,
    "micros": micros,
    "timestamp": seconds,
    "date": day,
    "weekday": weekday,
    "cast_int": to_int,
    "cast_float": to_float,
    "cast_str": to_str,
    "cast_bool": truth,
}
