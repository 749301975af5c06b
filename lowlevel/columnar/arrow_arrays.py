"""Arrow arrays of numbers and bytes, made without a look at what else the values might be.

`pyarrow.array` asks of whatever it is given whether it is pandas', and loads pandas to find out: half a second and
40 MiB in each worker process, which most of them have no other use for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

_LETTERS = {
    pa.bool_(): "?",
    **{pa.int8(): "i1", pa.int16(): "i2", pa.int32(): "i4", pa.int64(): "i8"},
    **{pa.uint8(): "u1", pa.uint16(): "u2", pa.uint32(): "u4", pa.uint64(): "u8"},
    **{pa.float32(): "f4", pa.float64(): "f8"},
}
"""What numpy calls Arrow's types."""


def of_numbers(values: NDArray[np.generic]) -> pa.Array:
    """Whole numbers, floats or truth values, all there; numbers are not copied.

    >>> of_numbers(np.array([3, 1])).equals(pa.array([3, 1]))
    True
    >>> of_numbers(np.array([True, False])).equals(pa.array([True, False]))
    True
    """
    flat = np.ascontiguousarray(values)
    if flat.dtype == np.bool_:
        return pa.Array.from_buffers(pa.bool_(), len(flat), [None, _bits(flat)])
    return pa.Array.from_buffers(pa.from_numpy_dtype(flat.dtype), len(flat), [None, pa.py_buffer(flat)])


def of_integers(values: Sequence[int | None], kind: pa.DataType) -> pa.Array:
    """Whole numbers with a sign; None for those that are not there.

    >>> of_integers([1, None], pa.int64()).equals(pa.array([1, None], pa.int64()))
    True
    """
    valid, absent = _valid(values)
    present: Sequence[object] = values if valid is None else [0 if value is None else value for value in values]
    # Asked for numpy's type of `kind`, Arrow would look for pandas, too.
    numbers = np.array(present, f"i{kind.byte_width}")
    return pa.Array.from_buffers(kind, len(numbers), [valid, pa.py_buffer(numbers)], absent)


def of_bytes(values: Sequence[bytes | None], kind: pa.DataType) -> pa.Array:
    """Byte strings, as Arrow's binary type or the large one; None for those that are not there.

    Raises `OverflowError` where they are more than the plain type can address.

    >>> of_bytes([b"a", None, b""], pa.binary()).equals(pa.array([b"a", None, b""], pa.binary()))
    True
    """
    valid, absent = _valid(values)
    present = cast("Sequence[bytes]", values) if valid is None else [value or b"" for value in values]
    ends = np.zeros(len(values) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, present), np.int64, len(values)), out=ends[1:])
    if not pa.types.is_large_binary(kind):
        if ends[-1] > np.iinfo(np.int32).max:
            raise OverflowError(f"{ends[-1]} bytes in one array of type {kind}")
        ends = ends.astype(np.int32)
    contents = pa.py_buffer(b"".join(present))
    return pa.Array.from_buffers(kind, len(values), [valid, pa.py_buffer(ends), contents], absent)


def of_equal_bytes(values: Sequence[bytes], size: int) -> pa.Array:
    """Byte strings of `size` bytes each.

    >>> of_equal_bytes([b"ab", b"cd"], 2).equals(pa.array([b"ab", b"cd"], pa.binary(2)))
    True
    """
    contents = b"".join(values)
    if len(contents) != size * len(values):
        raise ValueError(f"{len(values)} values have {len(contents)} bytes, not {size} each")
    return pa.Array.from_buffers(pa.binary(size), len(values), [None, pa.py_buffer(contents)])


def _valid(values: Sequence[object]) -> tuple[pa.Buffer | None, int]:
    """Which of the values are there, None if all are; and how many are not."""
    if None not in values:
        return None, 0
    there = np.fromiter((value is not None for value in values), np.bool_, len(values))
    return _bits(there), len(there) - int(np.count_nonzero(there))


def _bits(flags: NDArray[np.bool_]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(flags, bitorder="little"))


def numbers_in(column: pa.Array) -> NDArray[Any]:
    """What `to_numpy` gives, which looks for pandas, too.

    >>> numbers_in(pa.array([1, 2, 3])[1:])
    array([2, 3])
    >>> numbers_in(pa.array([True, False, True])[1:])
    array([False,  True])
    """
    kind, start, count = column.type, getattr(column, "offset", 0), len(column)
    of_kind = _LETTERS.get(kind)
    if of_kind is None or column.null_count or isinstance(column, pa.ChunkedArray):
        found: NDArray[Any] = column.to_numpy(zero_copy_only=False)
        return found
    if not count:
        # There need not be any buffer.
        return np.empty(0, of_kind)
    contents = column.buffers()[1]
    if of_kind == "?":
        first = start // 8
        data = np.frombuffer(contents, np.uint8, -(-(start + count) // 8) - first, first)
        return np.unpackbits(data, bitorder="little")[start % 8 : start % 8 + count].astype(np.bool_)
    numbers = np.frombuffer(contents, of_kind, count, start * kind.byte_width)
    # Others may have the same memory.
    numbers.flags.writeable = False
    return numbers
