"""Arrow arrays of numbers and bytes, and columns as Python values, made without pandas.

`pyarrow.array` and `to_numpy` import pandas to check whether a value belongs to pandas. That takes half a second and 40
MiB in each worker process, most of which never need pandas.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import islice
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from headrace.lowlevel.columnar.pyarrow_private import zone_of

_LETTERS = {
    pa.bool_(): "?",
    **{pa.int8(): "i1", pa.int16(): "i2", pa.int32(): "i4", pa.int64(): "i8"},
    **{pa.uint8(): "u1", pa.uint16(): "u2", pa.uint32(): "u4", pa.uint64(): "u8"},
    **{pa.float32(): "f4", pa.float64(): "f8"},
}
"""Arrow type -> numpy type code."""
_FIRST_MICRO, _LAST_MICRO = -62_135_596_800_000_000, 253_402_300_799_999_999
"""Microseconds since 1970 UTC of the first and the last `datetime`."""


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
    numbers = np.array(filled, f"i{kind.bit_width // 8}")
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
    return of_joined(contents, size)


def of_joined(contents: bytes, size: int) -> pa.Array:
    """An Arrow array of type `binary(size)` of byte strings that stand one behind the other.

    >>> of_joined(b"abcd", 2).equals(pa.array([b"ab", b"cd"], pa.binary(2)))
    True
    """
    return pa.Array.from_buffers(pa.binary(size), len(contents) // size, [None, pa.py_buffer(contents)])


def zero(kind: pa.DataType) -> pa.Scalar:
    """The number 0 of a type of numbers.

    >>> zero(pa.decimal128(5, 2)), zero(pa.int8())
    (<pyarrow.Decimal128Scalar: Decimal('0.00')>, <pyarrow.Int8Scalar: 0>)
    """
    return pa.Array.from_buffers(kind, 1, [None, pa.py_buffer(bytes(-(-kind.bit_width // 8)))])[0]


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
    numbers = np.frombuffer(contents, letters, count, start * kind.bit_width // 8)
    # Other columns may share the memory.
    numbers.flags.writeable = False
    return numbers


def without_dictionary(column: pa.Array) -> pa.Array:
    """The same values in a column that has no dictionary.

    >>> without_dictionary(pa.array(["a", "a"]).dictionary_encode()).type
    DataType(string)
    """
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def lists_of_one(values: pa.Array) -> pa.Array:
    """A list (`large_list`) for each value, with this value.

    >>> lists_of_one(pa.array([3, 1])).to_pylist()
    [[3], [1]]
    """
    return pa.LargeListArray.from_arrays(of_numbers(np.arange(len(values) + 1)), values)


def list_sizes(lists: pa.Array) -> pa.Array:
    """The number of items of each list, 0 for a null.

    >>> list_sizes(pa.array([["a", "b"], None, []])).to_pylist()
    [2, 0, 0]
    """
    sizes = pc.list_value_length(lists)
    return sizes.fill_null(zero(sizes.type))


def owners_of_items(owners: NDArray[np.int64], lists: pa.Array) -> NDArray[np.int64]:
    """The owner of each item of lists (without nulls), given that of each list.

    >>> owners_of_items(np.array([7, 5]), pa.array([["a"], ["b", "c"]], pa.large_list(pa.string())))
    array([7, 5, 5])
    """
    return np.repeat(owners, np.diff(numbers_in(lists.offsets)))


def encode_tables(tables: Iterable[pa.RecordBatch], schema: pa.Schema) -> bytes:
    """Encode record batches of one schema as an Arrow IPC stream.

    >>> table = pa.RecordBatch.from_pydict({"sum": [7]})
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


def to_list(column: pa.Array) -> list[object]:
    """The values of a column, equal to those of `to_pylist`; ten times as fast for timestamps and dictionaries.

    >>> str(to_list(pa.array([0, 1_500_000], pa.timestamp("us", "UTC")))[1])
    '1970-01-01 00:00:01.500000+00:00'
    """
    kind = column.type
    if pa.types.is_dictionary(kind):
        # `to_pylist` makes an Arrow scalar of each value: 1.6 µs.
        return to_list(column.dictionary_decode())
    if pa.types.is_integer(kind) and not column.null_count:
        return cast(list[object], numbers_in(column).tolist())
    if (pa.types.is_list(kind) or pa.types.is_large_list(kind)) and not _may_lack_python(kind.value_type):
        items = iter(to_list(column.flatten()))
        sizes = pc.list_value_length(column).to_pylist()
        return [None if size is None else list(islice(items, size)) for size in sizes]
    if pa.types.is_time64(kind) and kind.unit == "ns":
        _refuse_nanoseconds(column)
    if not pa.types.is_timestamp(kind) or kind.unit == "ns":
        return _converted(column)
    try:
        zone_of(kind.tz or "UTC")
    except LookupError as error:
        raise _unknown_zone(kind) from error
    try:
        return _datetimes(column)
    except (OverflowError, ValueError) as error:
        ends = pc.min_max(column.cast(pa.timestamp(kind.unit)))
        least, greatest = (ends[name].cast(pa.string()) for name in ("min", "max"))
        raise ValueError(
            f"a column of type {kind} has times from {least} to {greatest} UTC, which are not all within the years 1 "
            f"to 9999 of its zone; correct them, or leave the column out ({error})"
        ) from error


def _may_lack_python(kind: pa.DataType) -> bool:
    """Whether a type may have values that Python's does not have, or has other values in it."""
    return bool(pa.types.is_temporal(kind) or is_nested(kind))


def is_nested(kind: pa.DataType) -> bool:
    """Whether a type has values of other types in it.

    >>> is_nested(pa.list_(pa.int8(), 2)), is_nested(pa.int8())
    (True, False)
    """
    # Older releases of pyarrow leave out lists of one size.
    return bool(pa.types.is_nested(kind) or pa.types.is_fixed_size_list(kind))


def named_values(table: pa.RecordBatch, index: int) -> list[object]:
    """The values of the column with this index, as those of `to_list`. Raises `ValueError` that names the column.

    >>> named_values(pa.RecordBatch.from_pydict({"carrier": ["UA"], "delay": [3]}), 1)
    [3]
    """
    try:
        return to_list(table.column(index))
    except ValueError as error:
        raise ValueError(f"column {table.schema.names[index]!r}: {error}") from error


def _converted(column: pa.Array) -> list[object]:
    """The values by Arrow's own conversion. Raises `ValueError` if Python or Arrow cannot have one of them."""
    try:
        return cast(list[object], column.to_pylist())
    except UnicodeDecodeError as error:
        raise ValueError(
            f"a column of type {column.type} has text that is not UTF-8; write it as binary, or leave the column out "
            f"({error})"
        ) from error
    except LookupError as error:
        raise _unknown_zone(column.type) from error
    except (OverflowError, ValueError) as error:
        culprit = next(filter(_lacks_python, column), None)
        shown = "" if culprit is None else f": {_shown(culprit)}"
        raise ValueError(
            f"a column of type {column.type} has a value that Python does not have{shown}; correct it, or leave the "
            f"column out ({error})"
        ) from error


def _unknown_zone(kind: pa.DataType) -> ValueError:
    return ValueError(
        f"a column of type {kind} has a time zone that is not known here; write the times in UTC, or install the "
        "package tzdata if the zone exists"
    )


def _lacks_python(value: pa.Scalar) -> bool:
    try:
        value.as_py()
    except Exception:
        return True
    return False


def _shown(value: pa.Scalar) -> str:
    """A text for a value that Python does not have: of the first part that it does not have, if there are parts.

    >>> _shown(pa.array([[2**62]], pa.list_(pa.duration("s")))[0])
    '4611686018427387904 s (duration[s])'
    """
    kind = value.type
    if (part := next(filter(_lacks_python, _parts(value)), None)) is not None:
        return _shown(part)
    if not pa.types.is_temporal(kind):
        return f"{value!s:.80} ({kind})"
    unit = "days" if pa.types.is_date32(kind) else "ms" if pa.types.is_date64(kind) else kind.unit
    since = "" if pa.types.is_duration(kind) or pa.types.is_time(kind) else " since 1970"
    return f"{value.value} {unit}{since} ({kind})"


def _parts(value: pa.Scalar) -> Iterable[pa.Scalar]:
    """The values in a value of a list, struct or map; none for others."""
    if isinstance(value, pa.StructScalar):
        return [value[index] for index in range(len(value))]
    return value.values if isinstance(value, (pa.ListScalar, pa.MapScalar)) else ()


def _refuse_nanoseconds(column: pa.Array) -> None:
    """Raise `ValueError` for times of day that Python's would cut."""
    micros = column.cast(pa.time64("us"), safe=False)
    if not micros.cast(column.type).equals(column):
        raise ValueError(
            f"a column of type {column.type} has times of day with nanoseconds, which those of Python do not have; "
            "write it as time64[us], or leave the column out"
        )


def _datetimes(column: pa.Array) -> list[object]:
    """The values of a column of timestamps."""
    kind = column.type
    if column.null_count:
        return cast(list[object], column.to_pylist())
    # pyarrow takes 3 µs for each datetime, half of what reading a row may cost.
    micros = numbers_in(column.cast(pa.timestamp("us")).cast(pa.int64()))
    if len(micros) and not (micros.min() >= _FIRST_MICRO and micros.max() <= _LAST_MICRO):
        # numpy would return numbers.
        raise OverflowError("year is out of range")
    if kind.tz is None:
        return cast(list[object], micros.view("datetime64[us]").tolist())
    zone = zone_of(kind.tz)
    epoch = datetime(1970, 1, 1, tzinfo=zone if kind.tz == "UTC" else UTC)
    # A sum takes a third of the time of `replace` with a zone.
    instants = [epoch + since for since in cast(list[timedelta], micros.view("timedelta64[us]").tolist())]
    return cast(list[object], instants if kind.tz == "UTC" else [instant.astimezone(zone) for instant in instants])


def dicts_of(names: tuple[str, ...], columns: Sequence[Sequence[object]]) -> list[dict[str, object]]:
    """Make a dict of each row of some columns.

    Args:
        names: The keys of each dict, one for each column.
        columns: One or more columns of the same length.

    Raises:
        ValueError: The columns differ in length, or their number is not that of the names.

    >>> dicts_of(("carrier", "delay"), (["UA", "AA"], [3, 4]))
    [{'carrier': 'UA', 'delay': 3}, {'carrier': 'AA', 'delay': 4}]
    """
    return _dict_maker(names)(columns)


@lru_cache(maxsize=256)
def _dict_maker(names: tuple[str, ...]) -> Callable[[Sequence[Sequence[object]]], list[dict[str, object]]]:
    """`lambda columns: [{name: value, ...} for values in zip(*columns)]` with the names as constants.

    The code is generated because Python builds a dict of constant keys by one instruction. That takes 0.3 µs for two
    fields and 0.6 µs for five; `dict(zip(names, row))` takes 1.3 and 1.5 µs, `map(dict, map(zip, ...))` 1.0 µs, of 3 µs
    for reading a row. Names are only inserted as literals.
    """
    values = [f"v{number}" for number in range(len(names))]
    items = ", ".join(f"{name!r}: {value}" for name, value in zip(names, values, strict=True))
    source = f"lambda columns: [{{{items}}} for {', '.join(values)}, in zip(*columns, strict=True)]"
    return cast(Callable[[Sequence[Sequence[object]]], list[dict[str, object]]], eval(source, {}))
