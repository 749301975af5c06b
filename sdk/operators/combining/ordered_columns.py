"""What: columns of values that have an order, as integers in the same order, and decimals as integers."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.lowlevel.columnar.arrow_arrays import numbers_in
from headrace.lowlevel.columnar.key_columns import Numbers


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


def order_codes(column: pa.Array, nan_is_greatest: bool) -> Numbers:
    """A number for each value: equal values have equal numbers, and the numbers have the order of the values.

    Args:
        column: Values of a type for which `is_ordered` is true; no nulls.
        nan_is_greatest: Whether NaN is the greatest of all floats or the least; -0.0 is less than 0.0.

    Returns:
        int64.

    >>> order_codes(pa.array(["b", "a"], pa.large_string()), True).tolist()
    [1, 0]
    """
    kind, types = column.type, pa.types
    if kind == pa.float64():
        values, limits = numbers_in(column), np.iinfo(np.int64)
        bits = values.view(np.int64)
        # The bits of negative floats are in reverse order.
        flipped = np.where(bits < 0, bits ^ limits.max, bits)
        return np.where(np.isnan(values), limits.max if nan_is_greatest else limits.min, flipped)
    if kind == pa.uint64() or types.is_decimal(kind) or types.is_large_string(kind) or types.is_large_binary(kind):
        encoded = column.dictionary_encode()
        order = numbers_in(pc.sort_indices(encoded.dictionary)).astype(np.int64)
        ranks = np.empty(len(order), np.int64)
        ranks[order] = np.arange(len(order))
        codes: Numbers = ranks[numbers_in(encoded.indices)]
        return codes
    if types.is_boolean(kind):
        return numbers_in(column).astype(np.int64)
    return numbers_in(column.view(pa.int64() if kind.bit_width == 64 else pa.int32())).astype(np.int64)


def unscaled(column: pa.Array) -> Numbers | None:
    """Decimals of type `decimal128` without nulls as multiples of their last place; None if one exceeds 64 bits.

    >>> from decimal import Decimal
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
