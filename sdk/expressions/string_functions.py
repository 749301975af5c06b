"""What: texts by column, where Arrow and Python agree on them."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from headrace.sdk.expressions.arrow_vector import Vector, fitting, require, strict

_ASCII_SPACE = "\t\n\v\f\r\x1c\x1d\x1e\x1f "
"""What Python's `str.strip` takes away of ASCII."""


def text(function: Callable[..., pa.Array], kind: str, is_ascii: bool) -> Callable[..., Vector]:
    """A function of texts; further operands are constants."""

    def made(operand: Vector, *others: Vector) -> Vector:
        require(operand.kind == "str" and not operand.is_constant, f"{operand.kind} is no column of texts")
        require(all(each.kind == "str" and each.is_constant for each in others), "texts are looked for as constants")
        if is_ascii:
            # Beyond ASCII, Python and Arrow have different opinions of letters.
            require(pc.all(pc.string_is_ascii(operand.values)).as_py() is not False, "not all texts are ASCII")
        found = fitting(function, operand.values, *(each.values.as_py() for each in others))
        return strict(kind, found, operand)

    return made


def replaced(values: pa.Array, old: str, new: str) -> pa.Array:
    """Every `old` replaced."""
    require(bool(old), "nothing is not replaced by column")
    return pc.replace_substring(values, old, new)


def stripped(values: pa.Array) -> pa.Array:
    """No white space at either end."""
    return pc.ascii_trim(values, _ASCII_SPACE)


def length(values: pa.Array) -> pa.Array:
    """The number of characters."""
    return pc.utf8_length(values).cast(pa.int64())
