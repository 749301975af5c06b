"""What: columns of values that have an order, as integers in the same order, and decimals as integers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.lowlevel.columnar.arrow_arrays import numbers_in, of_numbers
from headrace.lowlevel.columnar.key_columns import Numbers

_LIMITS = np.iinfo(np.int64)


def is_ordered(kind: pa.DataType) -> bool:
    """Whether the order of the values of a type is that of the Python values.

    >>> is_ordered(pa.date32()), is_ordered(pa.list_(pa.int64()))
    (True, False)
    """
    types = pa.types
    return bool(
        types.is_integer(kind)
        or types.is_boolean(kind)
        or (types.is_temporal(kind) and not types.is_interval(kind))
        or kind in (pa.float64(), pa.large_string(), pa.large_binary())
        or types.is_decimal128(kind)
    )


def with_order(column: pa.Array, choose: Callable[[Numbers], Numbers], nan_is_greatest: bool) -> pa.Array:
    """Choose values by integers that have their order.

    Args:
        column: At least one value of a type for which `is_ordered` is true; no nulls.
        choose: Given the integer of each value, gives those of the values that are wanted.
        nan_is_greatest: Whether NaN is the greatest of all floats or the least; -0.0 is less than 0.0.

    Returns:
        The wanted values.

    >>> with_order(pa.array(["b", "a"], pa.large_string()), lambda codes: codes[codes == codes.min()], True).to_pylist()
    ['a']
    """
    kind, types = column.type, pa.types
    if kind == pa.float64():
        bits = numbers_in(column).view(np.int64)
        nan = _LIMITS.max if nan_is_greatest else _LIMITS.min
        chosen = choose(np.where(np.isnan(numbers_in(column)), nan, _flipped(bits)))
        return of_numbers(np.where(chosen == nan, np.nan, _flipped(chosen).view(np.float64)))
    if kind == pa.uint64() or types.is_decimal(kind) or types.is_large_string(kind) or types.is_large_binary(kind):
        return _with_ranks(column, choose)
    if types.is_boolean(kind):
        return of_numbers(choose(numbers_in(column).astype(np.int64)) != 0)
    numbers = numbers_in(column.view(pa.int64() if kind.bit_width == 64 else pa.int32()))
    return of_numbers(choose(numbers.astype(np.int64)).astype(numbers.dtype)).view(kind)


def _flipped(bits: Numbers) -> Numbers:
    """The bits of floats as integers in the order of the floats, and back: those of negative floats are reversed."""
    return np.where(bits < 0, bits ^ _LIMITS.max, bits)


def _with_ranks(column: pa.Array, choose: Callable[[Numbers], Numbers]) -> pa.Array:
    encoded = column.dictionary_encode()
    order = numbers_in(pc.sort_indices(encoded.dictionary)).astype(np.int64)
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    return encoded.dictionary.take(of_numbers(order[choose(ranks[numbers_in(encoded.indices)])]))


def unscaled(column: pa.Array) -> Numbers | None:
    """Decimals of type `decimal128` without nulls as multiples of their last place; None if one exceeds 64 bits.

    >>> unscaled(pa.array([Decimal("1.50"), Decimal("-0.01")], pa.decimal128(38, 2)))
    array([150,  -1])
    """
    words = np.frombuffer(column.buffers()[1] or b"", np.int64, 2 * len(column), 16 * column.offset)
    low, high = words[::2], words[1::2]
    return low if bool((high == low >> 63).all()) else None


def of_unscaled(numbers: Numbers, kind: pa.DataType) -> pa.Array:
    """Decimals of a `decimal128` type, from multiples of their last place.

    >>> of_unscaled(np.array([150, -1]), pa.decimal128(38, 2)).to_pylist()
    [Decimal('1.50'), Decimal('-0.01')]
    """
    words = np.stack([numbers, numbers >> 63], 1).astype(np.int64)
    return pa.Array.from_buffers(kind, len(numbers), [None, pa.py_buffer(words)])
