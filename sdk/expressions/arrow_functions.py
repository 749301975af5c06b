"""What: functions of column expressions on Arrow vectors, which compute by column what Python computes one by one.

A `Vector` has the values of an expression for all elements, and marks the rows that Python must compute.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, timezone
from decimal import ROUND_FLOOR, Decimal, getcontext
from functools import partial, reduce
from typing import ParamSpec

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.lowlevel.columnar.arrow_arrays import numbers_in
from headrace.lowlevel.columnar.pyarrow_private import zone_of
from headrace.lowlevel.time import SECOND, Timestamp
from headrace.sdk.expressions.batch_view import Unable
from headrace.sdk.expressions.element_schema import is_within_calendar

_Given = ParamSpec("_Given")
EXACT = 1 << 53
"""Up to this number, each whole number is a 64-bit float."""
TYPES: Mapping[str, pa.DataType] = {
    "int": pa.int64(),
    "float": pa.float64(),
    "bool": pa.bool_(),
    "str": pa.string(),
    "bytes": pa.binary(),
    "date": pa.date32(),
    "time": pa.time64("us"),
    "naive": pa.timestamp("us"),
    "aware": pa.timestamp("us", "UTC"),
    "duration": pa.duration("us"),
    "instant": pa.int64(),
}
"""Kind of value -> the type of its columns; datetimes are naive, or aware in UTC. Decimals have one for each scale."""
_KINDS: Mapping[type, str] = {
    **{int: "int", float: "float", bool: "bool", str: "str", bytes: "bytes", Decimal: "decimal"},
    **{date: "date", time: "time", timedelta: "duration"},
}
_FOUND = frozenset(("int", "str", "bytes", "decimal", "date", "time", "naive", "aware", "duration"))
"""Kinds whose values are equal where Python finds them equal, and no others."""
_MOMENTS = ("naive", "aware")
_DAY = 86_400 * SECOND
_DIGITS = 28
"""Decimal digits that Python computes with, unless a program wants more."""


@dataclass(frozen=True, slots=True)
class Vector:
    """The values of an expression for all elements."""

    kind: str
    """A key of `TYPES`, "decimal", or "other" for columns that are only tested for nulls."""
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
    if kind in (pa.binary(), pa.large_binary()):
        return Vector("bytes", fitting(column.cast, pa.binary()))
    if pa.types.is_decimal128(kind):
        return Vector("decimal", column)
    return _temporal(column)


def _temporal(column: pa.Array) -> Vector:
    """A column of times with their values; nanoseconds stay what they are."""
    kind, types = column.type, pa.types
    if types.is_date32(kind):
        return Vector("date", column)
    if types.is_timestamp(kind) and kind.tz in (None, "UTC"):
        name = "naive" if kind.tz is None else "aware"
    elif types.is_time(kind) or types.is_duration(kind):
        name = "time" if types.is_time(kind) else "duration"
    else:
        return Vector("other", column)
    return Vector(name, column if kind.unit == "ns" else fitting(column.cast, TYPES[name]))


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
    kind = _kind_of(value)
    found = constants([value], kind)[0]
    # Other zones of the same offset are other values; they are only compared.
    require(
        kind == "aware" or repr(found.as_py()) == repr(value), f"the constant {value!r:.80} is no value of a column"
    )
    return Vector(kind, found)


def _kind_of(value: object) -> str:
    """The kind of a constant. Raises `Unable`."""
    kind = _KINDS.get(type(value))
    if type(value) is datetime:
        # Whether datetimes of other zones are equal depends on more than the instant.
        is_fixed = type(value.tzinfo) is timezone or value.tzinfo in (None, zone_of("UTC"))
        kind = None if not is_fixed else "naive" if value.tzinfo is None else "aware"
    if kind is None:
        raise Unable(f"the constant {value!r:.80} is not of a type that is computed by column")
    return kind


def constants(values: Sequence[object], kind: str, of_type: pa.DataType | None = None) -> pa.Array:
    """Constants of a kind, in its type or another. Raises `Unable` for what no column of the type holds.

    Such are numbers beyond 64 bits, surrogates, decimals that are no numbers or have more digits.
    """
    try:
        made = pa.array(values, of_type or TYPES.get(kind))
    except (OverflowError, UnicodeEncodeError, TypeError, pa.ArrowInvalid) as error:
        raise Unable(f"one of the constants {values!a:.80} does not fit into a column: {error}") from error
    require(not pa.types.is_decimal256(made.type), "a decimal has more than 38 digits")
    return made


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
    if first.kind == "duration" and second.kind in ("date", *_MOMENTS):
        return _moved(second, first, 1)
    if second.kind == "duration" and first.kind in ("date", *_MOMENTS):
        return _moved(first, second, 1)
    return _arithmetic(pc.add_checked, first, second)


def subtract(first: Vector, second: Vector) -> Vector:
    """The difference of numbers, or of times."""
    if first.kind in ("date", *_MOMENTS) and second.kind == "duration":
        return _moved(first, second, -1)
    if first.kind == second.kind and first.kind in ("date", *_MOMENTS):
        counts = _arithmetic(pc.subtract_checked, *map(_counts, (first, second)))
        micros = counts.values if first.kind != "date" else fitting(pc.multiply_checked, counts.values, _DAY)
        return Vector("duration", micros.cast(TYPES["duration"]), counts.unsure)
    return _arithmetic(pc.subtract_checked, first, second)


def multiply(first: Vector, second: Vector) -> Vector:
    """The product of numbers, or of a duration and a whole number."""
    kinds = (first.kind, second.kind)
    if kinds in (("duration", "int"), ("int", "duration")):
        product = _arithmetic(pc.multiply_checked, *map(_counts, (first, second)))
        return Vector("duration", product.values.cast(TYPES["duration"]), product.unsure)
    product = _arithmetic(pc.multiply_checked, first, second)
    if product.kind != "decimal":
        return product
    # Python has a negative zero.
    negative = (pc.less(each.values, _zero(each)) for each in (first, second))
    zero = pc.and_(pc.equal(product.values, _zero(product)), pc.or_(*negative))
    return Vector("decimal", product.values, either_unsure(product.unsure, pc.fill_null(zero, False)))


def _zero(vector: Vector) -> pa.Scalar:
    return pa.scalar(Decimal(0) if vector.kind == "decimal" else 0, vector.values.type)


def _counts(vector: Vector) -> Vector:
    """Times as the whole numbers of microseconds, or of days, that they are stored as; numbers as they are."""
    if vector.kind not in ("date", "duration", *_MOMENTS):
        return vector
    require(vector.values.type == TYPES[vector.kind], "nanoseconds are not computed with by column")
    stored = vector.values.cast(pa.int32()) if vector.kind == "date" else vector.values
    return Vector("int", stored.cast(pa.int64()), vector.unsure)


def _moved(moment: Vector, by: Vector, sign: int) -> Vector:
    """A date or datetime later by durations, or earlier for the sign -1."""
    require(not (moment.is_constant and moment.kind == "aware"), "a zone of a constant is no zone of a column")
    count = _counts(by)
    if moment.kind == "date":
        # Python takes the whole days of a duration.
        days = whole(np.floor_divide)
        count = constant(by.values.as_py().days) if by.is_constant else days(count, constant(_DAY))
    moved = _arithmetic(pc.add_checked if sign > 0 else pc.subtract_checked, _counts(moment), count)
    numbers = fitting(moved.values.cast, pa.int32()) if moment.kind == "date" else moved.values
    values = numbers.cast(TYPES[moment.kind])
    require(is_within_calendar(values), "some of the results are beyond the calendar")
    return Vector(moment.kind, values, moved.unsure)


def _arithmetic(function: Callable[..., pa.Array], first: Vector, second: Vector) -> Vector:
    """A function of Arrow on two numbers, or two durations."""
    if (first.kind, second.kind) == ("duration", "duration") and function is not pc.multiply_checked:
        counts = _arithmetic(function, *map(_counts, (first, second)))
        return Vector("duration", counts.values.cast(TYPES["duration"]), counts.unsure)
    if "decimal" in (first.kind, second.kind):
        digits = 18 if function is pc.multiply_checked else _DIGITS
        values = fitting(function, *(_decimals(each, digits) for each in (first, second)))
        return strict("decimal", _unrounded(values), first, second)
    # The checked functions raise for whole numbers beyond 64 bits; floats do not care.
    kind, one, other = _numbers(first, second)
    return strict(kind, fitting(function, one, other), first, second)


def _decimals(vector: Vector, digits: int) -> pa.Array | pa.Scalar:
    """Decimals or whole numbers, as decimals of so many digits or fewer."""
    kind = vector.values.type
    if vector.kind == "int":
        return vector.values.cast(pa.decimal128(19, 0))
    require(vector.kind == "decimal", f"decimals and {vector.kind} are not computed with by column")
    return (
        vector.values
        if kind.precision <= digits
        else fitting(pc.cast, vector.values, pa.decimal128(digits, kind.scale))
    )


def _unrounded(values: pa.Array) -> pa.Array:
    """Decimals that Python would not round. Raises `Unable`."""
    context = getcontext()
    usual = context.prec >= _DIGITS and context.rounding != ROUND_FLOOR and context.Emin < -99 and context.Emax > 99
    require(usual, "the program computes decimals in another way")
    kind = values.type
    return values if kind.precision <= _DIGITS else fitting(values.cast, pa.decimal128(_DIGITS, kind.scale))


def divide(first: Vector, second: Vector) -> Vector:
    """The quotient as a float."""
    if (first.kind, second.kind) == ("duration", "duration"):
        first, second = map(_counts, (first, second))
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
        if operand.kind == "duration":
            counts = made(_counts(operand))
            return Vector("duration", counts.values.cast(TYPES["duration"]), counts.unsure)
        require(operand.kind in ("int", "float", "decimal"), f"{operand.kind} has no sign")
        found = fitting(function, operand.values)
        return strict(operand.kind, _unrounded(found) if operand.kind == "decimal" else found, operand)

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


def seconds(operand: Vector) -> Vector:
    """The seconds since 1970 of datetimes in UTC; those of others depend on the zone of the machine."""
    require(operand.kind == "aware", f"{operand.kind} has no seconds since 1970")
    return to_float(Vector("instant", _counts(operand).values, operand.unsure))


def to_str(operand: Vector) -> Vector:
    """What `str()` makes of whole numbers and texts."""
    require(operand.kind in ("int", "str"), f"{operand.kind} becomes no text by column")
    return strict("str", fitting(pc.cast, operand.values, pa.string()), operand)


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
    if {first.kind, second.kind} in ({"decimal"}, {"decimal", "int"}):
        if first.values.type == second.values.type:
            return first.values, second.values
        return _decimals(first, _DIGITS), _decimals(second, _DIGITS)
    raise Unable(f"{first.kind} and {second.kind} are not compared by column")


def _micros(vector: Vector) -> pa.Array | pa.Scalar:
    """Instants, or whole seconds that stand for some."""
    return vector.values if vector.kind == "instant" else fitting(pc.multiply_checked, vector.values, SECOND)


def order(function: Callable[..., pa.Array]) -> Callable[[Vector, Vector], Vector]:
    """Whether a value comes before another."""

    def compared(first: Vector, second: Vector) -> Vector:
        require("bool" not in (first.kind, second.kind), "bools are not put in order by column")
        return strict("bool", fitting(function, *_comparable(first, second)), first, second)

    return compared


def equality(are_equal: bool) -> Callable[[Vector, Vector], Vector]:
    """Of None as well: it equals itself only."""

    def compared(first: Vector, second: Vector) -> Vector:
        function = pc.equal if are_equal else pc.not_equal
        values = fitting(function, *_comparable(first, second))
        if values.null_count:
            nulls = [nulls_of(each) for each in (first, second)]
            both = pc.and_(*nulls) if None not in nulls else pa.scalar(False)
            values = pc.coalesce(values, both if are_equal else pc.invert(both))
        return Vector("bool", values, either_unsure(first.unsure, second.unsure))

    return compared


def is_in(operand: Vector, members: tuple[object, ...]) -> Vector:
    """Whether a value is one of these."""
    require(not operand.is_constant, "a constant is not looked up by column")
    require(operand.kind in _FOUND, f"{operand.kind} is not looked up by column")
    sought = [each for each in members if each is not None]
    require({*map(_kind_of, sought)} <= {operand.kind}, "only what is of one type is looked up by column")
    within = constants(sought, operand.kind, operand.values.type)
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


def if_else(test: Vector, first: Vector, second: Vector) -> Vector:
    """The first value where a condition is true, else the second: only one of them is asked."""
    condition = truth(test)
    is_alike = first.kind == second.kind != "other" and first.values.type == second.values.type
    has_zone = first.kind == "aware" and (first.is_constant or second.is_constant)
    require(is_alike and not has_zone and not condition.is_constant, f"{first.kind} or {second.kind} is no column")
    asked = [
        None if each.unsure is None else pc.and_(where, each.unsure)
        for each, where in ((first, condition.values), (second, pc.invert(condition.values)))
    ]
    values = pc.if_else(condition.values, first.values, second.values)
    return Vector(first.kind, values, either_unsure(condition.unsure, *asked))


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
    others = other.values
    if operand.kind == other.kind == "decimal" and operand.values.type.scale == others.type.scale:
        others = fitting(pc.cast, others, operand.values.type)
    alike = operand.kind == other.kind != "other" and operand.values.type == others.type
    has_zone = other.is_constant and other.kind == "aware"
    require(
        alike and not operand.is_constant and not has_zone,
        f"{other.kind} does not stand in for {operand.kind} by column",
    )
    nulls = nulls_of(operand)
    if nulls is None:
        return operand
    asked = None if other.unsure is None else pc.and_(nulls, other.unsure)
    return Vector(operand.kind, pc.coalesce(operand.values, others), either_unsure(operand.unsure, asked))


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


def length(operand: Vector) -> Vector:
    """The number of characters, or of the items of lists."""
    kind, types = operand.values.type, pa.types
    if operand.kind == "other" and (types.is_list(kind) or types.is_large_list(kind)):
        return strict("int", pc.list_value_length(operand.values).cast(pa.int64()), operand)
    return text(lambda values: pc.utf8_length(values).cast(pa.int64()), "int", False)(operand)
