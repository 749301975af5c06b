"""What: comparisons, logic and None by column, as Python has them."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from headrace.lowlevel.time import SECOND
from headrace.sdk.expressions.arithmetic import is_exact, nearest
from headrace.sdk.expressions.arrow_vector import (
    TYPES,
    Vector,
    constants,
    either_unsure,
    fitting,
    nulls_of,
    require,
    strict,
)
from headrace.sdk.expressions.batch_view import Unable


def _comparable(first: Vector, second: Vector) -> tuple[pa.Array | pa.Scalar, pa.Array | pa.Scalar]:
    """Both operands in a type in which they compare as in Python."""
    if first.kind == second.kind and first.kind in TYPES:
        return first.values, second.values
    if {first.kind, second.kind} == {"int", "float"}:
        # Python compares exactly; as floats, whole numbers beyond 2**53 would be rounded first.
        whole = first if first.kind == "int" else second
        require(is_exact(whole.values), "large whole numbers are not compared with floats by column")
        return nearest(first.values, pa.float64()), nearest(second.values, pa.float64())
    if {first.kind, second.kind} == {"instant", "int"}:
        return _micros(first), _micros(second)
    raise Unable(f"{first.kind} and {second.kind} are not compared by column")


def _micros(vector: Vector) -> pa.Array | pa.Scalar:
    """Instants, or whole seconds that stand for some."""
    return vector.values if vector.kind == "instant" else fitting(pc.multiply_checked, vector.values, SECOND)


def order(function: Callable[..., pa.Array]) -> Callable[[Vector, Vector], Vector]:
    """Whether a value comes before another."""

    def compared(first: Vector, second: Vector) -> Vector:
        require("bool" not in (first.kind, second.kind), "bools are not put in order by column")
        return strict("bool", function(*_comparable(first, second)), first, second)

    return compared


def equality(are_equal: bool) -> Callable[[Vector, Vector], Vector]:
    """Of None as well: it equals itself only."""

    def compared(first: Vector, second: Vector) -> Vector:
        function = pc.equal if are_equal else pc.not_equal
        values = function(*_comparable(first, second))
        if values.null_count:
            nulls = [nulls_of(each) for each in (first, second)]
            both = pc.and_(*nulls) if None not in nulls else pa.scalar(False)
            values = pc.coalesce(values, both if are_equal else pc.invert(both))
        return Vector("bool", values, either_unsure(first.unsure, second.unsure))

    return compared


def is_in(operand: Vector, members: tuple[object, ...]) -> Vector:
    """Whether a value is one of these."""
    require(not operand.is_constant, "a constant is not looked up by column")
    require(operand.kind in ("int", "str"), f"{operand.kind} is not looked up by column")
    kinds = set(map(type, members)) - {type(None)}
    require(kinds <= {int if operand.kind == "int" else str}, "only what is of one type is looked up by column")
    within = constants([each for each in members if each is not None], operand.kind)
    found = pc.is_in(operand.values, value_set=within, skip_nulls=True)
    if None in members and operand.values.null_count:
        found = pc.or_(found, operand.values.is_null())
    return Vector("bool", found, operand.unsure)


def truth(vector: Vector) -> Vector:
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


def either(is_and: bool, first: Vector, second: Vector) -> Vector:
    """`and`, or `or`: the second is only asked where the first does not settle it."""
    values = (pc.and_ if is_and else pc.or_)(first.values, second.values)
    if first.is_constant and second.is_constant:
        raise Unable("an operation on nothing but constants is not computed by column")
    asked = second.unsure
    if asked is not None:
        asked = pc.and_(asked, first.values if is_and else pc.invert(first.values))
    return Vector("bool", values, either_unsure(first.unsure, asked))


def negation(operand: Vector) -> Vector:
    """`not`."""
    condition = truth(operand)
    return Vector("bool", pc.invert(condition.values), condition.unsure)


def is_null(operand: Vector) -> Vector:
    """Whether a value is None."""
    return Vector("bool", operand.values.is_null(), operand.unsure)


def is_not_null(operand: Vector) -> Vector:
    """Whether a value is not None."""
    return Vector("bool", operand.values.is_valid(), operand.unsure)


def fill_null(operand: Vector, other: Vector) -> Vector:
    """The value, or another where it is None."""
    alike = operand.kind == other.kind and operand.kind in TYPES and not operand.is_constant
    require(alike, f"{other.kind} does not stand in for {operand.kind} by column")
    nulls = nulls_of(operand)
    if nulls is None:
        return operand
    asked = None if other.unsure is None else pc.and_(nulls, other.unsure)
    return Vector(operand.kind, pc.coalesce(operand.values, other.values), either_unsure(operand.unsure, asked))
