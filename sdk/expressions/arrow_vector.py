"""What: the values of an expression for all elements, and the rows that Python must compute."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ParamSpec

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.lowlevel.time import Timestamp
from headrace.sdk.expressions.batch_view import Unable

_Given = ParamSpec("_Given")
EXACT = 1 << 53
"""Up to this number, each whole number is a 64-bit float."""
TYPES: Mapping[str, pa.DataType] = {
    "int": pa.int64(),
    "float": pa.float64(),
    "bool": pa.bool_(),
    "str": pa.string(),
    "instant": pa.int64(),
}
"""Kind of value -> the type of its columns."""
_KINDS: Mapping[type, str] = {int: "int", float: "float", bool: "bool", str: "str"}


@dataclass(frozen=True, slots=True)
class Vector:
    """The values of an expression for all elements."""

    kind: str
    """A key of `TYPES`, or "other" for columns that are only tested for nulls."""
    values: pa.Array | pa.Scalar
    """A scalar for a constant."""
    unsure: pa.Array | None = None
    """True for rows that Python must compute, whose values here are meaningless; None for none."""

    @property
    def is_constant(self) -> bool:
        """Whether all elements have the same value."""
        return isinstance(self.values, pa.Scalar)


def normal(column: pa.Array, is_instant: bool) -> Vector:
    """A column cast to the type of its kind, with the same values."""
    if is_instant:
        return Vector("instant", column)
    if pa.types.is_dictionary(column.type):
        column = fitting(column.dictionary_decode)
    kind = column.type
    if pa.types.is_boolean(kind):
        return Vector("bool", column)
    if pa.types.is_integer(kind):
        return Vector("int", column if kind == pa.int64() else fitting(column.cast, pa.int64()))
    if kind in (pa.float64(), pa.float32()):
        return Vector("float", column.cast(pa.float64()))
    if kind in (pa.string(), pa.large_string()):
        return Vector("str", from_its_start(fitting(column.cast, pa.string())))
    return Vector("other", column)


def fitting(function: Callable[_Given, pa.Array], *args: _Given.args, **kwargs: _Given.kwargs) -> pa.Array:
    """The result of an Arrow function. Raises `Unable` where a value does not fit into its type.

    >>> import pyarrow.compute as pc
    >>> fitting(pc.add_checked, pa.array([2**63 - 1]), 1)
    Traceback (most recent call last):
        ...
    headrace.sdk.expressions.batch_view.Unable: overflow
    """
    try:
        return function(*args, **kwargs)
    except (pa.ArrowInvalid, pa.ArrowCapacityError) as error:
        raise Unable(str(error)) from error


def from_its_start(texts: pa.Array) -> pa.Array:
    """Strings whose data starts at the first byte of their buffer.

    `ascii_lower` and `ascii_upper` read beyond the end of other buffers, such as those of a cast slice (Arrow 25).
    """
    if not len(texts):
        return texts
    (start,) = np.frombuffer(texts.buffers()[1], np.int32, 1, texts.offset * 4)
    # Concatenation with an empty array copies the strings.
    return pa.concat_arrays([texts, texts.slice(0, 0)]) if start or texts.offset else texts


def constant(value: object) -> Vector:
    """The vector of the same value for all elements. Raises `Unable`."""
    if isinstance(value, Timestamp):
        return Vector("instant", pa.scalar(value.micros, pa.int64()))
    kind = _KINDS.get(type(value))
    if kind is None:
        raise Unable(f"the constant {value!r:.80} is not of a type that is computed by column")
    return Vector(kind, constants([value], kind)[0])


def constants(values: Sequence[object], kind: str) -> pa.Array:
    """Constants of a kind. Raises `Unable` for what no column of the kind holds: numbers beyond 64 bits, surrogates."""
    try:
        return pa.array(values, TYPES[kind])
    except (OverflowError, UnicodeEncodeError) as error:
        raise Unable(f"one of the constants {values!a:.80} does not fit into a column: {error}") from error


def either_unsure(*masks: pa.Array | None) -> pa.Array | None:
    """Rows that are unsure in any of the masks; None for none."""
    unsure = None
    for mask in masks:
        if mask is not None:
            unsure = mask if unsure is None else pc.or_(unsure, mask)
    return unsure


def nulls_of(vector: Vector) -> pa.Array | None:
    """Where a value is None."""
    return None if vector.is_constant or not vector.values.null_count else vector.values.is_null()


def strict(kind: str, values: pa.Array, *operands: Vector) -> Vector:
    """A result that is unsure where an operand is None, as Python raises there."""
    return Vector(kind, values, either_unsure(*(mask for each in operands for mask in (each.unsure, nulls_of(each)))))


def require(condition: bool, what: str) -> None:
    """Raise `Unable` unless a condition holds."""
    if not condition:
        raise Unable(what)
