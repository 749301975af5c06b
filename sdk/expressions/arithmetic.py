"""What: numbers computed by column as Python computes them one by one, and made of each other."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.lowlevel.columnar.arrow_arrays import numbers_in
from headrace.lowlevel.time import SECOND
from headrace.sdk.expressions.arrow_vector import EXACT, Vector, constant, either_unsure, fitting, require, strict

_LEAST = -(1 << 63)


def _numbers(first: Vector, second: Vector) -> tuple[str, pa.Array | pa.Scalar, pa.Array | pa.Scalar]:
    """Both operands in the type in which Python computes with them."""
    kinds = {first.kind, second.kind}
    require(kinds <= {"int", "float"}, f"{first.kind} and {second.kind} are not computed with by column")
    kind = "float" if "float" in kinds else "int"
    return kind, *(nearest(each.values, pa.float64()) if kind == "float" else each.values for each in (first, second))


def nearest(values: pa.Array | pa.Scalar, to: pa.DataType) -> pa.Array | pa.Scalar:
    """To the nearest value, as Python does."""
    return values if values.type == to else pc.cast(values, options=pc.CastOptions.unsafe(to))


def add(first: Vector, *others: Vector) -> Vector:
    """The sum of numbers from left to right, or texts end to end: all at once, as every join copies what it has."""
    if all(each.kind == "str" for each in (first, *others)):
        texts = [each.values for each in (first, *others)]
        return strict("str", fitting(partial(pc.binary_join_element_wise, *texts, "")), first, *others)
    return reduce(_added, others, first)


def _added(first: Vector, second: Vector) -> Vector:
    if (first.kind, second.kind) == ("str", "str"):
        return add(first, second)
    return arithmetic(pc.add_checked, first, second)


def arithmetic(function: Callable[..., pa.Array], first: Vector, second: Vector) -> Vector:
    """A function of Arrow on two numbers."""
    # The checked functions raise for whole numbers beyond 64 bits; floats do not care.
    kind, one, other = _numbers(first, second)
    return strict(kind, fitting(function, one, other), first, second)


def divide(first: Vector, second: Vector) -> Vector:
    """The quotient as a float."""
    if (first.kind, second.kind) == ("int", "int"):
        require(is_exact(first.values) and is_exact(second.values), "large whole numbers are not divided by column")
    _numbers(first, second)
    one, other = (nearest(each.values, pa.float64()) for each in (first, second))
    result = strict("float", pc.divide(one, other), first, second)
    return _where_not_zero(result, other)


def _where_not_zero(result: Vector, divisor: pa.Array | pa.Scalar) -> Vector:
    if isinstance(divisor, pa.Scalar):
        require(divisor.as_py() != 0, "there is a division by zero")
        return result
    zero = pc.fill_null(pc.equal(divisor, pa.scalar(0, divisor.type)), False)
    return Vector(result.kind, result.values, either_unsure(result.unsure, zero))


def is_exact(values: pa.Array | pa.Scalar) -> bool:
    """Whether whole numbers are all floats too."""
    if isinstance(values, pa.Scalar):
        return bool(abs(values.as_py()) <= EXACT)
    ends = pc.min_max(values).as_py()
    return ends["min"] is None or bool(ends["min"] >= -EXACT and ends["max"] <= EXACT)


def whole(function: Callable[..., object]) -> Callable[[Vector, Vector], Vector]:
    """Division of whole numbers downwards, for which Arrow has no function."""

    def divided(first: Vector, second: Vector) -> Vector:
        require((first.kind, second.kind) == ("int", "int"), "only whole numbers are divided downwards by column")
        one, other = (_filled(each.values) for each in (first, second))
        overflow = (one == _LEAST) & (other == -1)
        require(not np.any(overflow), "a quotient is beyond 64 bits")
        values = pa.array(function(one, np.where(other == 0, 1, other)))
        return _where_not_zero(strict("int", values, first, second), second.values)

    return divided


def _filled(values: pa.Array | pa.Scalar) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    if isinstance(values, pa.Scalar):
        return np.array(values.as_py(), np.int64)
    filled: np.ndarray[tuple[int], np.dtype[np.int64]] = numbers_in(values.fill_null(1))
    return filled


def signed(function: Callable[..., pa.Array]) -> Callable[[Vector], Vector]:
    """A function of Arrow on one number."""

    def made(operand: Vector) -> Vector:
        require(operand.kind in ("int", "float"), f"{operand.kind} has no sign")
        return strict(operand.kind, fitting(function, operand.values), operand)

    return made


def to_int(operand: Vector) -> Vector:
    """What `int()` makes of numbers, bools and instants."""
    if operand.kind == "instant":
        return whole(np.floor_divide)(Vector("int", operand.values, operand.unsure), constant(SECOND))
    if operand.kind == "float":
        truncated = pc.trunc(operand.values)
        # Neither what is not a number nor what is beyond 64 bits fits.
        return strict("int", fitting(pc.cast, truncated, pa.int64(), safe=True), operand)
    require(operand.kind in ("int", "bool"), f"{operand.kind} becomes no int by column")
    return strict("int", pc.cast(operand.values, pa.int64()), operand)


def to_float(operand: Vector) -> Vector:
    """What `float()` makes of numbers and instants."""
    if operand.kind == "instant":
        return divide(Vector("int", operand.values, operand.unsure), constant(SECOND))
    require(operand.kind in ("int", "float"), f"{operand.kind} becomes no float by column")
    return strict("float", nearest(operand.values, pa.float64()), operand)


def to_str(operand: Vector) -> Vector:
    """What `str()` makes of whole numbers and texts."""
    require(operand.kind in ("int", "str"), f"{operand.kind} becomes no text by column")
    return strict("str", fitting(pc.cast, operand.values, pa.string()), operand)
