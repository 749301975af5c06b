"""Keys as columns: finds rows with equal keys (MillWheel paper §4.2), and encodes keys that are tuples (§4.4).

The encoded tuples of text and integers have the same bytes as those of `KeyCoder`, which encodes key by key.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from headrace.lowlevel.columnar.arrow_arrays import numbers_in, of_bytes, of_integers, of_numbers, zero

Numbers = NDArray[np.int64]
Flags = np.ndarray[tuple[int], np.dtype[np.bool_]]
_SMALL = 1 << 16
"""Number of groups up to which their numbers fit into 16 bits, which NumPy sorts by radix."""
_SPARSE = 4
"""If group numbers exceed this many times the number of rows, they are made dense by sorting, else by a table."""


def is_key_column(column: pa.Array) -> bool:
    """Whether equal values of the column are the same key; nulls are the key None.

    >>> is_key_column(pa.array([1, None])), is_key_column(pa.array([-0.0])), is_key_column(pa.array([[1]]))
    (True, True, False)
    """
    kind, types = column.type, pa.types
    if types.is_dictionary(kind):
        return is_text(column.dictionary) and not column.dictionary.null_count
    return bool(
        (types.is_primitive(kind) and not types.is_float16(kind) and not types.is_interval(kind))
        or types.is_decimal128(kind)
        or types.is_null(kind)
        or is_text(column)
        or kind in (pa.binary(), pa.large_binary())
    )


def is_text(column: pa.Array) -> bool:
    """Whether a column is of Arrow's type `string` or `large_string`."""
    return bool(pa.types.is_string(column.type) or pa.types.is_large_string(column.type))


def is_direct(column: pa.Array) -> bool:
    """Whether equal keys have equal encodings in this column, as text and whole numbers have; True equals 1."""
    return (is_text(column) or bool(pa.types.is_integer(column.type))) and not column.null_count


def numbered(columns: Sequence[pa.Array]) -> Numbers:
    """Number the distinct rows of some columns from 0: one int64 for each row.

    There are no gaps, but for a single column with a dictionary, whose numbers are those of its dictionary.

    Args:
        columns: One or more columns of the same length.

    >>> numbered([pa.array(["a", "b", "a"]), pa.array([1, 1, 1])]).tolist()
    [0, 1, 0]
    >>> numbered([pa.nulls(2)]).tolist()
    [0, 0]
    """
    first, *others = columns
    numbers = _codes(first)
    for column in others:
        codes = _codes(column)
        numbers, _ = dense(numbers * (int(codes.max(initial=0)) + 1) + codes)
    return numbers


def _codes(column: pa.Array) -> Numbers:
    if pa.types.is_null(column.type):
        return np.zeros(len(column), np.int64)
    if pa.types.is_floating(column.type):
        # As in keys, -0.0 is 0.0, and NaN is NaN.
        nothing = zero(column.type)
        column = pc.if_else(pc.equal(column, nothing), nothing, column)
        column = pc.if_else(pc.is_nan(column), pc.divide(nothing, nothing), column)
    if not pa.types.is_dictionary(column.type):
        return numbers_in(column.dictionary_encode("encode").indices).astype(np.int64)
    indices = column.indices.cast(pa.int64())
    missing = of_integers([len(column.dictionary)], pa.int64())[0]
    return numbers_in(indices.fill_null(missing) if column.null_count else indices)


def distinct_numbers(numbers: Numbers) -> tuple[Numbers, Numbers]:
    """The distinct numbers, ascending, and the index of each number among them, by a hash table instead of a sort.

    >>> distinct_numbers(np.array([7, 3, 7]))
    (array([3, 7]), array([1, 0, 1]))
    """
    encoded = of_numbers(numbers).dictionary_encode()
    distinct = numbers_in(encoded.dictionary)
    order = np.argsort(distinct)
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    return distinct[order], ranks[numbers_in(encoded.indices)]


def dense(groups: Numbers) -> tuple[Numbers, Numbers]:
    """Renumber groups from 0 without gaps, in ascending order.

    Args:
        groups: The group of each row, 0 or more.

    Returns:
        The new number of each row, and the group of each new number.

    >>> dense(np.array([7, 3, 7]))
    (array([1, 0, 1]), array([3, 7]))
    """
    limit = int(groups.max(initial=-1)) + 1
    if limit > _SPARSE * len(groups):
        distinct, numbers = np.unique(groups, return_inverse=True)
        return numbers.reshape(-1), distinct
    distinct = np.flatnonzero(np.bincount(groups, minlength=limit))
    table = np.empty(limit, np.int64)
    table[distinct] = np.arange(len(distinct))
    return table[groups], distinct


def order_in_groups(groups: Numbers, numbers: Numbers) -> Numbers:
    """The indices that sort rows by group, then by number; the sort is stable.

    Args:
        groups: The group of each row, 0 or more.
        numbers: The number of each row.

    >>> order_in_groups(np.array([1, 0, 1]), np.array([5, 9, 3])).tolist()
    [1, 2, 0]
    """
    if not len(groups):
        return np.empty(0, np.int64)
    least = int(numbers.min())
    span = int(numbers.max()) - least + 1
    if (int(groups.max()) + 1) * span >= 1 << 63:
        return np.lexsort((numbers, groups))
    # One number is sorted in less than half of the time of two.
    return np.argsort(groups * span + (numbers - least), kind="stable")


def first_indices(numbers: Numbers, count: int) -> Numbers:
    """The index of the first row with each number from 0 to `count - 1`; each number must occur."""
    indices = np.empty(count, np.int64)
    indices[numbers[::-1]] = np.arange(len(numbers) - 1, -1, -1)
    return indices


def order_by_group(groups: Numbers, count: int) -> Numbers:
    """The indices of the rows, group after group, in their order within each group: int64.

    >>> order_by_group(np.array([1, 0, 1]), 2).tolist()
    [1, 0, 2]
    """
    return np.argsort(groups.astype(np.uint16) if count <= _SMALL else groups, kind="stable")


ENCODED = pa.large_binary()
"""Type of columns of encoded keys."""
_DIGITS = 10
"""Greatest number of bytes of a field's length with the colon behind it."""
_LETTERS: dict[type, bytes] = {str: b"s", int: b"i"}


def plain_keys(encoded: pa.Array) -> pa.Array | None:
    """Decode keys that are all text or all integers, to type `large_string` or `int64`; None for other keys."""
    if not len(encoded):
        return pa.array([], pa.large_string())
    _, offsets, data = encoded.buffers()
    edges = np.frombuffer(offsets, np.int64)[encoded.offset : encoded.offset + len(encoded) + 1]
    contents = np.frombuffer(data, np.uint8)[edges[0] : edges[-1]]
    begins = edges[:-1] - edges[0]
    letter = contents[0]
    if letter not in b"si" or not (contents[begins] == letter).all():
        return None
    inside = np.ones(len(contents), np.bool_)
    inside[begins] = False
    return _field(edges - edges[0] - np.arange(len(edges)), contents[inside], bytes([letter]))


def encoded_keys(column: pa.Array) -> pa.Array:
    """The encodings of keys for which `is_direct` is true; the opposite of `plain_keys`.

    >>> encoded_keys(pa.array(["UA"])).to_pylist(), encoded_keys(pa.array([-7])).to_pylist()
    ([b'sUA'], [b'i-7'])
    """
    return _joined([_constant(_LETTERS[str if is_text(column) else int]), _bytes(column)])


def _field(offsets: Numbers, contents: NDArray[np.uint8], letter: bytes) -> pa.Array | None:
    """A column of the bytes between offsets; None if the text is not UTF-8 or an integer exceeds 64 bits."""
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(contents)]
    try:
        text = pa.Array.from_buffers(ENCODED, len(offsets) - 1, buffers).cast(pa.large_string())
        return text if letter == b"s" else text.cast(pa.int64())
    except pa.ArrowInvalid:
        return None


@dataclass(frozen=True, slots=True)
class TupleKeys:
    """The encoding of tuple keys of one class and with the same types of fields.

    >>> from headrace.lowlevel.coders.coder import KeyCoder
    >>> keys = TupleKeys.like(("UA", 7), KeyCoder().encode)
    >>> keys.encoded([pa.array(["UA", "AA"]), pa.array([7, -1])]).to_pylist()
    [b't2:3:sUA2:i7', b't2:3:sAA3:i-1']
    >>> keys.decoded(pa.array([b"t2:3:sAA3:i-1"], ENCODED))[1].to_pylist()
    [-1]
    """

    head: bytes
    """The bytes before the tuple's length, which name its class; empty for a plain tuple, which has no length."""
    letters: tuple[bytes, ...]
    """The letter of each field's type."""

    @classmethod
    def like(cls, key: object, encode: Callable[[object], bytes]) -> TupleKeys | None:
        """The encoding of keys like this one, given its encoder; None unless it is a tuple of text and integers."""
        if not isinstance(key, tuple) or not key or not set(map(type, key)) <= _LETTERS.keys():
            return None
        letters = tuple(_LETTERS[type(value)] for value in key)
        encoded, fields = encode(key), encode((*key,))
        tail = b"" if encoded == fields else b"%d:%b" % (len(fields), fields)
        if not encoded.endswith(tail):
            return None
        keys = cls(encoded[: len(encoded) - len(tail)] if tail else b"", letters)
        try:
            columns = [
                of_bytes([value.encode()], pa.large_binary()).cast(pa.large_string())
                if type(value) is str
                else of_integers([value], pa.int64())
                for value in key
            ]
        except (UnicodeEncodeError, OverflowError):
            # A lone surrogate, or an integer of more than 64 bits.
            return None
        # A registered coder may encode the class in another way.
        return keys if keys.encoded(columns).to_pylist() == [encoded] else None

    def fits(self, columns: Sequence[pa.Array]) -> bool:
        """Whether keys with these columns as fields have this encoding."""
        letters = [_LETTERS[str] if is_text(column) else _LETTERS[int] for column in columns if is_direct(column)]
        return tuple(letters) == self.letters

    @property
    def _opening(self) -> bytes:
        return b"t%d:" % len(self.letters)

    def encoded(self, columns: Sequence[pa.Array]) -> pa.Array:
        """Encode the keys of rows, given a column of text or integers without nulls for each field."""
        parts: list[pa.Array | pa.Scalar] = [_constant(self._opening)]
        for letter, column in zip(self.letters, columns, strict=True):
            text = _bytes(column)
            parts += [_lengths(text, len(letter)), _constant(b":" + letter), text]
        fields = _joined(parts)
        return _joined([_constant(self.head), _lengths(fields), _constant(b":"), fields]) if self.head else fields

    def decoded(self, encoded: pa.Array) -> list[pa.Array] | None:
        """Decode keys to a `large_string` or `int64` column for each field; None if a key has another encoding."""
        columns = _Reader(encoded).columns(self)
        # The reader does not check all bytes; encoding the columns again does.
        return columns if columns is not None and self.encoded(columns).equals(encoded) else None

    def openings(self) -> tuple[int, bool, int]:
        """Number of bytes before the tuple's length, whether it has one, and bytes from there to the first field."""
        return len(self.head), bool(self.head), len(self._opening)


class _Reader:
    """Reads the bytes of all keys of a column in parallel."""

    def __init__(self, encoded: pa.Array) -> None:
        _, offsets, data = encoded.buffers()
        edges = np.frombuffer(offsets, np.int64)[encoded.offset : encoded.offset + len(encoded) + 1]
        self._data = np.frombuffer(data, np.uint8)
        self._at, self._ends = edges[:-1].copy(), edges[1:]

    def columns(self, keys: TupleKeys) -> list[pa.Array] | None:
        """A column for each field; None if a key cannot be read."""
        head, has_length, opening = keys.openings()
        self._at += head
        if has_length and self._number() is None:
            return None
        self._at += opening
        columns = [column for letter in keys.letters if (column := self._field(letter)) is not None]
        return columns if len(columns) == len(keys.letters) else None

    def _field(self, letter: bytes) -> pa.Array | None:
        sizes = self._number()
        if sizes is None or not ((sizes > 0) & (self._at + sizes <= self._ends)).all():
            return None
        begins, sizes = self._at + 1, sizes - 1
        self._at = self._at + sizes + 1
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        indices = np.arange(offsets[-1]) + np.repeat(begins - offsets[:-1], sizes)
        return _field(offsets, self._data[indices], letter)

    def _number(self) -> Numbers | None:
        """Read the number before the next colon of each key, and the colon; None if there is none within `_DIGITS`."""
        numbers = np.zeros(len(self._at), np.int64)
        unfinished = np.ones(len(self._at), np.bool_)
        for _ in range(_DIGITS):
            if (self._at >= self._ends).any():
                return None
            letters = self._data[self._at]
            unfinished &= letters != ord(":")
            if not unfinished.any():
                self._at += 1
                return numbers
            numbers = np.where(unfinished, 10 * numbers + letters - ord("0"), numbers)
            self._at += unfinished
        return None


def _constant(data: bytes) -> pa.Scalar:
    return of_bytes([data], ENCODED)[0]


def _bytes(column: pa.Array) -> pa.Array:
    """The UTF-8 bytes of text, or of integers in decimal digits."""
    return column.cast(pa.large_string()).cast(ENCODED)


def _lengths(column: pa.Array, extra: int = 0) -> pa.Array:
    """The length of each value in bytes plus `extra`, in decimal digits."""
    lengths = pc.binary_length(column)
    return _bytes(pc.add(lengths, of_integers([extra], lengths.type)[0]))


def _joined(parts: Sequence[pa.Array | pa.Scalar]) -> pa.Array:
    return pc.binary_join_element_wise(*parts, _constant(b""))
