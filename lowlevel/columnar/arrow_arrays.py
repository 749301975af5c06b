"""Arrow arrays of numbers and bytes, made without pandas.

`pyarrow.array` and `to_numpy` import pandas to check whether a value belongs to pandas. That takes half a second and 40
MiB in each worker process, most of which never need pandas.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
"""Arrow type -> numpy type code."""


def of_numbers(values: NDArray[np.generic]) -> pa.Array:
    """Convert a one-dimensional array of integers, floats or booleans to an Arrow array; numbers are not copied.

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
    """Convert integers to an Arrow array of a signed integer type; None becomes a null.

    >>> of_integers([1, None], pa.int64()).equals(pa.array([1, None], pa.int64()))
    True
    """
    valid, nulls = _valid(values)
    filled: Sequence[object] = values if valid is None else [0 if value is None else value for value in values]
    # `kind.to_pandas_dtype()` would import pandas.
    numbers = np.array(filled, f"i{kind.byte_width}")
    return pa.Array.from_buffers(kind, len(numbers), [valid, pa.py_buffer(numbers)], nulls)


def of_bytes(values: Sequence[bytes | None], kind: pa.DataType) -> pa.Array:
    """Convert byte strings to an Arrow array of type `binary` or `large_binary`; None becomes a null.

    Raises OverflowError for 2 GiB or more in an array of type `binary`.

    >>> of_bytes([b"a", None, b""], pa.binary()).equals(pa.array([b"a", None, b""], pa.binary()))
    True
    """
    valid, nulls = _valid(values)
    filled = cast("Sequence[bytes]", values) if valid is None else [value or b"" for value in values]
    ends = np.zeros(len(values) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, filled), np.int64, len(values)), out=ends[1:])
    if not pa.types.is_large_binary(kind):
        if ends[-1] > np.iinfo(np.int32).max:
            raise OverflowError(f"{ends[-1]} bytes in one array of type {kind}")
        ends = ends.astype(np.int32)
    contents = pa.py_buffer(b"".join(filled))
    return pa.Array.from_buffers(kind, len(values), [valid, pa.py_buffer(ends), contents], nulls)


def of_equal_bytes(values: Sequence[bytes], size: int) -> pa.Array:
    """Convert byte strings of length `size` to an Arrow array of type `binary(size)`.

    Raises ValueError if their total length is not `size` times their number.

    >>> of_equal_bytes([b"ab", b"cd"], 2).equals(pa.array([b"ab", b"cd"], pa.binary(2)))
    True
    """
    contents = b"".join(values)
    if len(contents) != size * len(values):
        raise ValueError(f"{len(values)} values have {len(contents)} bytes, not {size} each")
    return pa.Array.from_buffers(pa.binary(size), len(values), [None, pa.py_buffer(contents)])


def _valid(values: Sequence[object]) -> tuple[pa.Buffer | None, int]:
    """The validity bitmap (None if there are no nulls) and the number of nulls."""
    if None not in values:
        return None, 0
    flags = np.fromiter((value is not None for value in values), np.bool_, len(values))
    return _bits(flags), len(flags) - int(np.count_nonzero(flags))


def _bits(flags: NDArray[np.bool_]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(flags, bitorder="little"))


def numbers_in(column: pa.Array) -> NDArray[Any]:
    """The values of a column as a numpy array, equal to that of `to_numpy`; numbers are a read-only view.

    >>> numbers_in(pa.array([1, 2, 3])[1:])
    array([2, 3])
    >>> numbers_in(pa.array([True, False, True])[1:])
    array([False,  True])
    """
    kind, start, count = column.type, getattr(column, "offset", 0), len(column)
    letters = _LETTERS.get(kind)
    if letters is None or column.null_count or isinstance(column, pa.ChunkedArray):
        converted: NDArray[Any] = column.to_numpy(zero_copy_only=False)
        return converted
    if not count:
        # An empty column may have no buffer.
        return np.empty(0, letters)
    contents = column.buffers()[1]
    if letters == "?":
        first = start // 8
        data = np.frombuffer(contents, np.uint8, -(-(start + count) // 8) - first, first)
        return np.unpackbits(data, bitorder="little")[start % 8 : start % 8 + count].astype(np.bool_)
    numbers = np.frombuffer(contents, letters, count, start * kind.byte_width)
    # Other columns may share the memory.
    numbers.flags.writeable = False
    return numbers


def encode_tables(tables: Iterable[pa.RecordBatch], schema: pa.Schema) -> bytes:
    """Encode record batches of one schema as an Arrow IPC stream.

    >>> table = pa.record_batch({"sum": [7]})
    >>> [decoded.to_pydict() for decoded in decode_tables(encode_tables([table, table], table.schema))]
    [{'sum': [7]}, {'sum': [7]}]
    """
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as stream:
        for table in tables:
            stream.write_batch(table)
    return bytes(memoryview(sink.getvalue()))


def decode_tables(data: bytes | memoryview) -> list[pa.RecordBatch]:
    """Decode the bytes of `encode_tables`; the columns are views of the bytes."""
    return list(pa.ipc.open_stream(pa.py_buffer(data)))
