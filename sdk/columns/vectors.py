"""What: column expressions computed by Arrow, where that is certain to give what Python gives for each element.

What Python raises for an element, or gives as a value that no column holds, is marked as *unsure*: if any such row is
left in the end, the batch goes the general way. So `col.delay.is_not_null() & (col.delay > 15)` is computed by column
also where there are nulls: rows at which the right side fails do not ask for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.lowlevel.columns import Shape
from headrace.lowlevel.time import SECOND, Timestamp
from headrace.sdk.columns.shape import Instant, Single
from headrace.sdk.columns.tree import FieldOf, FromEngine, Literal, Node, Operation
from headrace.sdk.columns.view import Unable, View

_EXACT = 1 << 53
"""Up to here 64-bit floats are whole numbers without gaps."""
_LEAST = -(1 << 63)
_TYPES: Mapping[str, pa.DataType] = {
    "int": pa.int64(),
    "float": pa.float64(),
    "bool": pa.bool_(),
    "str": pa.string(),
    "instant": pa.int64(),
}
"""Kind of value -> the type of its columns here."""
_KINDS: Mapping[type, str] = {int: "int", float: "float", bool: "bool", str: "str"}
_ASCII_SPACE = "\t\n\v\f\r\x1c\x1d\x1e\x1f "
"""What Python's `str.strip` takes away of ASCII."""


@dataclass(frozen=True, slots=True)
class Vector:
    """The values of an expression for all elements."""

    kind: str
    """Of `_TYPES`, or "other" for columns that are only looked at for nulls."""
    values: pa.Array | pa.Scalar
    """A scalar for a constant."""
    unsure: pa.Array | None = None
    """True where only Python can tell the value; None for nowhere. Values there mean nothing."""

    @property
    def is_constant(self) -> bool:
        """Whether it is the same value for all."""
        return isinstance(self.values, pa.Scalar)


def shape_of(node: Node, view: View) -> Shape:
    """The shape of an expression's values; columns for them come into the view. Raises `Unable` or Arrow's errors."""
    if isinstance(node, FieldOf):
        return _field(node, view)
    vector = _settled(evaluated(node, view))
    if vector.kind == "other":
        raise Unable(f"values of the type {vector.values.type} are not computed by column")
    values = vector.values
    place = view.add(pa.repeat(values, len(view.times)) if vector.is_constant else values)
    return Instant(place) if vector.kind == "instant" else Single(place)


def mask_of(node: Node, view: View) -> pa.Array:
    """Where an expression's value is true, as Python sees it: no nulls. Raises `Unable` or Arrow's errors."""
    mask = _settled(_truth(evaluated(node, view))).values
    return pa.repeat(mask, len(view.times)) if isinstance(mask, pa.Scalar) else mask


def _settled(vector: Vector) -> Vector:
    if vector.unsure is not None and pc.any(vector.unsure).as_py():
        raise Unable("some elements have values that the operations do not take, or give some that no column holds")
    return vector


def _field(node: FieldOf, view: View) -> Shape:
    find = getattr(view.shape, "field", None)
    shape: Shape | None = find(node.name) if find else None
    if shape is None:
        raise Unable(f"the elements have no column {node.name!r}")
    return shape


def evaluated(node: Node, view: View) -> Vector:
    """The values of a node. Raises `Unable` or Arrow's errors."""
    match node:
        case FieldOf():
            shape = _field(node, view)
            return _normal(view.column(shape), isinstance(shape, Instant))
        case Literal(value):
            return _constant(value)
        case FromEngine("timestamp"):
            return Vector("instant", pa.array(view.times))
        case FromEngine(name):
            return Vector("instant", pa.array(view.windows()[name == "window_end"]))
        case Operation("and" | "or" as name, (first, second)):
            return _either(name == "and", _truth(evaluated(first, view)), _truth(evaluated(second, view)))
        case Operation("isin", (operand, Literal(members))):
            assert isinstance(members, tuple), "isin makes a tuple of its values"
            return _isin(evaluated(operand, view), members)
        case Operation(name, operands):
            vectors = [evaluated(operand, view) for operand in operands]
            if all(vector.is_constant for vector in vectors):
                raise Unable("an operation on nothing but constants is not computed by column")
            return _FUNCTIONS[name](*vectors)


def _normal(column: pa.Array, is_instant: bool) -> Vector:
    """A column in the type of its kind, with every value as it was."""
    if is_instant:
        return Vector("instant", column)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind = column.type
    if pa.types.is_boolean(kind):
        return Vector("bool", column)
    if pa.types.is_integer(kind):
        return Vector("int", column if kind == pa.int64() else column.cast(pa.int64()))
    if kind in (pa.float64(), pa.float32()):
        return Vector("float", column.cast(pa.float64()))
    if kind in (pa.string(), pa.large_string()):
        return Vector("str", column.cast(pa.string()))
    return Vector("other", column)


def _constant(value: object) -> Vector:
    if isinstance(value, Timestamp):
        return Vector("instant", pa.scalar(value.micros, pa.int64()))
    kind = _KINDS.get(type(value))
    if kind is None:
        raise Unable(f"the constant {value!r:.80} is not of a type that is computed by column")
    return Vector(kind, pa.scalar(value, _TYPES[kind]))


# Which rows are unsure


def _any(*masks: pa.Array | None) -> pa.Array | None:
    found = None
    for mask in masks:
        if mask is not None:
            found = mask if found is None else pc.or_(found, mask)
    return found


def _nulls(vector: Vector) -> pa.Array | None:
    """Where a value is None."""
    return None if vector.is_constant or not vector.values.null_count else vector.values.is_null()


def _strict(kind: str, values: pa.Array, *operands: Vector) -> Vector:
    """A result for which Python raises if an operand is None."""
    return Vector(kind, values, _any(*(mask for each in operands for mask in (each.unsure, _nulls(each)))))


def _require(condition: bool, what: str) -> None:
    if not condition:
        raise Unable(what)


# Arithmetic


def _numbers(first: Vector, second: Vector) -> tuple[str, pa.Array | pa.Scalar, pa.Array | pa.Scalar]:
    """Both operands in the type in which Python computes with them."""
    kinds = {first.kind, second.kind}
    _require(kinds <= {"int", "float"}, f"{first.kind} and {second.kind} are not computed with by column")
    kind = "float" if "float" in kinds else "int"
    return kind, *(_cast(each.values, pa.float64()) if kind == "float" else each.values for each in (first, second))


def _cast(values: pa.Array | pa.Scalar, to: pa.DataType) -> pa.Array | pa.Scalar:
    """To the nearest value, as Python does."""
    return values if values.type == to else pc.cast(values, options=pc.CastOptions.unsafe(to))


def _add(first: Vector, second: Vector) -> Vector:
    if (first.kind, second.kind) == ("str", "str"):
        return _strict("str", pc.binary_join_element_wise(first.values, second.values, ""), first, second)
    return _arithmetic(pc.add_checked, first, second)


def _arithmetic(function: Callable[..., pa.Array], first: Vector, second: Vector) -> Vector:
    # The checked functions raise for whole numbers beyond 64 bits; floats do not care.
    kind, one, other = _numbers(first, second)
    return _strict(kind, function(one, other), first, second)


def _divide(first: Vector, second: Vector) -> Vector:
    if (first.kind, second.kind) == ("int", "int"):
        _require(_is_exact(first.values) and _is_exact(second.values), "large whole numbers are not divided by column")
    _numbers(first, second)
    one, other = (_cast(each.values, pa.float64()) for each in (first, second))
    result = _strict("float", pc.divide(one, other), first, second)
    return _where_not_zero(result, other)


def _where_not_zero(result: Vector, divisor: pa.Array | pa.Scalar) -> Vector:
    if isinstance(divisor, pa.Scalar):
        _require(divisor.as_py() != 0, "there is a division by zero")
        return result
    zero = pc.fill_null(pc.equal(divisor, pa.scalar(0, divisor.type)), False)
    return Vector(result.kind, result.values, _any(result.unsure, zero))


def _is_exact(values: pa.Array | pa.Scalar) -> bool:
    """Whether whole numbers are all floats too."""
    if isinstance(values, pa.Scalar):
        return bool(abs(values.as_py()) <= _EXACT)
    ends = pc.min_max(values).as_py()
    return ends["min"] is None or bool(ends["min"] >= -_EXACT and ends["max"] <= _EXACT)


def _whole(function: Callable[..., object]) -> Callable[[Vector, Vector], Vector]:
    """Division of whole numbers downwards, for which Arrow has no function."""

    def divided(first: Vector, second: Vector) -> Vector:
        _require((first.kind, second.kind) == ("int", "int"), "only whole numbers are divided downwards by column")
        one, other = (_filled(each.values) for each in (first, second))
        overflow = (one == _LEAST) & (other == -1)
        _require(not np.any(overflow), "a quotient is beyond 64 bits")
        values = pa.array(function(one, np.where(other == 0, 1, other)))
        return _where_not_zero(_strict("int", values, first, second), second.values)

    return divided


def _filled(values: pa.Array | pa.Scalar) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    if isinstance(values, pa.Scalar):
        return np.array(values.as_py(), np.int64)
    filled: np.ndarray[tuple[int], np.dtype[np.int64]] = values.fill_null(1).to_numpy(zero_copy_only=False)
    return filled


def _signed(function: Callable[..., pa.Array]) -> Callable[[Vector], Vector]:
    def made(operand: Vector) -> Vector:
        _require(operand.kind in ("int", "float"), f"{operand.kind} has no sign")
        return _strict(operand.kind, function(operand.values), operand)

    return made


# Comparisons


def _comparable(first: Vector, second: Vector) -> tuple[pa.Array | pa.Scalar, pa.Array | pa.Scalar]:
    """Both operands in a type in which they compare as in Python."""
    if first.kind == second.kind and first.kind in _TYPES:
        return first.values, second.values
    if {first.kind, second.kind} == {"int", "float"}:
        # Python compares exactly; as floats, whole numbers beyond 2**53 would be rounded first.
        whole = first if first.kind == "int" else second
        _require(_is_exact(whole.values), "large whole numbers are not compared with floats by column")
        return _cast(first.values, pa.float64()), _cast(second.values, pa.float64())
    if {first.kind, second.kind} == {"instant", "int"}:
        return _micros(first), _micros(second)
    raise Unable(f"{first.kind} and {second.kind} are not compared by column")


def _micros(vector: Vector) -> pa.Array | pa.Scalar:
    """Instants, or whole seconds that stand for some."""
    return vector.values if vector.kind == "instant" else pc.multiply_checked(vector.values, SECOND)


def _order(function: Callable[..., pa.Array]) -> Callable[[Vector, Vector], Vector]:
    def compared(first: Vector, second: Vector) -> Vector:
        _require("bool" not in (first.kind, second.kind), "bools are not put in order by column")
        return _strict("bool", function(*_comparable(first, second)), first, second)

    return compared


def _equality(are_equal: bool) -> Callable[[Vector, Vector], Vector]:
    """Of None as well: it equals itself only."""

    def compared(first: Vector, second: Vector) -> Vector:
        function = pc.equal if are_equal else pc.not_equal
        values = function(*_comparable(first, second))
        if values.null_count:
            nulls = [_nulls(each) for each in (first, second)]
            both = pc.and_(*nulls) if None not in nulls else pa.scalar(False)
            values = pc.coalesce(values, both if are_equal else pc.invert(both))
        return Vector("bool", values, _any(first.unsure, second.unsure))

    return compared


def _isin(operand: Vector, members: tuple[object, ...]) -> Vector:
    _require(not operand.is_constant, "a constant is not looked up by column")
    _require(operand.kind in ("int", "str"), f"{operand.kind} is not looked up by column")
    kinds = set(map(type, members)) - {type(None)}
    _require(kinds <= {int if operand.kind == "int" else str}, "only what is of one type is looked up by column")
    within = pa.array([each for each in members if each is not None], _TYPES[operand.kind])
    found = pc.is_in(operand.values, value_set=within, skip_nulls=True)
    if None in members and operand.values.null_count:
        found = pc.or_(found, operand.values.is_null())
    return Vector("bool", found, operand.unsure)


# Logic


def _truth(vector: Vector) -> Vector:
    """What Python takes the values for in a condition."""
    values = vector.values
    if vector.kind in ("int", "float"):
        values = pc.not_equal(values, pa.scalar(0, values.type))
    elif vector.kind == "str":
        values = pc.not_equal(values, "")
    elif vector.kind != "bool":
        raise Unable(f"whether {vector.kind} is true is not found out by column")
    filled = values if vector.is_constant or not values.null_count else values.fill_null(False)
    return Vector("bool", filled, vector.unsure)


def _either(is_and: bool, first: Vector, second: Vector) -> Vector:
    """`and`, or `or`: the second is only asked where the first does not settle it."""
    values = (pc.and_ if is_and else pc.or_)(first.values, second.values)
    if first.is_constant and second.is_constant:
        raise Unable("an operation on nothing but constants is not computed by column")
    asked = second.unsure
    if asked is not None:
        asked = pc.and_(asked, first.values if is_and else pc.invert(first.values))
    return Vector("bool", values, _any(first.unsure, asked))


def _not(operand: Vector) -> Vector:
    truth = _truth(operand)
    return Vector("bool", pc.invert(truth.values), truth.unsure)


def _is_null(operand: Vector) -> Vector:
    return Vector("bool", operand.values.is_null(), operand.unsure)


def _is_not_null(operand: Vector) -> Vector:
    return Vector("bool", operand.values.is_valid(), operand.unsure)


def _fill_null(operand: Vector, other: Vector) -> Vector:
    alike = operand.kind == other.kind and operand.kind in _TYPES and not operand.is_constant
    _require(alike, f"{other.kind} does not stand in for {operand.kind} by column")
    nulls = _nulls(operand)
    if nulls is None:
        return operand
    asked = None if other.unsure is None else pc.and_(nulls, other.unsure)
    return Vector(operand.kind, pc.coalesce(operand.values, other.values), _any(operand.unsure, asked))


# Text


def _text(function: Callable[..., pa.Array], kind: str, is_ascii: bool) -> Callable[..., Vector]:
    """A function of texts; further operands are constants."""

    def made(operand: Vector, *others: Vector) -> Vector:
        _require(operand.kind == "str" and not operand.is_constant, f"{operand.kind} is no column of texts")
        _require(all(each.kind == "str" and each.is_constant for each in others), "texts are looked for as constants")
        if is_ascii:
            # Beyond ASCII, Python and Arrow have different opinions of letters.
            _require(pc.all(pc.string_is_ascii(operand.values)).as_py() is not False, "not all texts are ASCII")
        return _strict(kind, function(operand.values, *(each.values.as_py() for each in others)), operand)

    return made


def _replaced(values: pa.Array, old: str, new: str) -> pa.Array:
    _require(bool(old), "nothing is not replaced by column")
    return pc.replace_substring(values, old, new)


def _stripped(values: pa.Array) -> pa.Array:
    return pc.ascii_trim(values, _ASCII_SPACE)


def _length(values: pa.Array) -> pa.Array:
    return pc.utf8_length(values).cast(pa.int64())


# Types


def _to_int(operand: Vector) -> Vector:
    if operand.kind == "instant":
        return _whole(np.floor_divide)(Vector("int", operand.values, operand.unsure), _constant(SECOND))
    if operand.kind == "float":
        whole = pc.trunc(operand.values)
        # Raises for what is not a number, or is beyond 64 bits.
        return _strict("int", pc.cast(whole, pa.int64(), safe=True), operand)
    _require(operand.kind in ("int", "bool"), f"{operand.kind} becomes no int by column")
    return _strict("int", pc.cast(operand.values, pa.int64()), operand)


def _to_float(operand: Vector) -> Vector:
    if operand.kind == "instant":
        return _divide(Vector("int", operand.values, operand.unsure), _constant(SECOND))
    _require(operand.kind in ("int", "float"), f"{operand.kind} becomes no float by column")
    return _strict("float", _cast(operand.values, pa.float64()), operand)


def _to_str(operand: Vector) -> Vector:
    _require(operand.kind in ("int", "str"), f"{operand.kind} becomes no text by column")
    return _strict("str", pc.cast(operand.values, pa.string()), operand)


_Function: TypeAlias = Callable[..., Vector]
_FUNCTIONS: Mapping[str, _Function] = {
    "add": _add,
    "subtract": lambda one, other: _arithmetic(pc.subtract_checked, one, other),
    "multiply": lambda one, other: _arithmetic(pc.multiply_checked, one, other),
    "divide": _divide,
    "floor_divide": _whole(np.floor_divide),
    "modulo": _whole(np.remainder),
    "negate": _signed(pc.negate_checked),
    "absolute": _signed(pc.abs_checked),
    "equal": _equality(True),
    "not_equal": _equality(False),
    "less": _order(pc.less),
    "less_equal": _order(pc.less_equal),
    "greater": _order(pc.greater),
    "greater_equal": _order(pc.greater_equal),
    "not": _not,
    "is_null": _is_null,
    "is_not_null": _is_not_null,
    "fill_null": _fill_null,
    "lower": _text(pc.ascii_lower, "str", True),
    "upper": _text(pc.ascii_upper, "str", True),
    "strip": _text(_stripped, "str", True),
    "startswith": _text(pc.starts_with, "bool", False),
    "endswith": _text(pc.ends_with, "bool", False),
    "contains": _text(pc.match_substring, "bool", False),
    "replace": _text(_replaced, "str", False),
    "length": _text(_length, "int", False),
    "cast_int": _to_int,
    "cast_float": _to_float,
    "cast_str": _to_str,
    "cast_bool": _truth,
}
