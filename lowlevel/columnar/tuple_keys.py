"""Encoded keys of many rows at once: tuples and named tuples of text and whole numbers, as columns and back (§4.4).

The bytes are those of `KeyCoder`, which makes them key by key; here a few passes over columns make all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.lowlevel.columnkeys import Numbers, is_text

ENCODED = pa.large_binary()
"""Of columns of encoded keys."""
_DIGITS = 10
"""Of the length of a field, at most."""
_LETTERS: dict[type, bytes] = {str: b"s", int: b"i"}


def plain_keys(encoded: pa.Array) -> pa.Array | None:
    """Text and whole numbers: a letter, then what it stands for (`KeyCoder`)."""
    if not len(encoded):
        return pa.array([], pa.large_string())
    _, offsets, data = encoded.buffers()
    edges = np.frombuffer(offsets, np.int64)[encoded.offset : encoded.offset + len(encoded) + 1]
    letters = np.frombuffer(data, np.uint8)[edges[0] : edges[-1]]
    begins = edges[:-1] - edges[0]
    letter = letters[0]
    if letter not in b"si" or not (letters[begins] == letter).all():
        return None
    inside = np.ones(len(letters), np.bool_)
    inside[begins] = False
    bodies = [pa.py_buffer(edges - edges[0] - np.arange(len(edges))), pa.py_buffer(letters[inside])]
    try:
        text = pa.Array.from_buffers(ENCODED, len(encoded), [None, *bodies]).cast(pa.large_string())
        return text if letter == ord("s") else text.cast(pa.int64())
    except pa.ArrowInvalid:
        # Half a pair of surrogates; more than 64 bits.
        return None


@dataclass(frozen=True, slots=True)
class TupleKeys:
    """How keys are encoded that are like one of them.

    >>> from headrace.lowlevel.coder import KeyCoder
    >>> keys = TupleKeys.like(("UA", 7), KeyCoder().encode)
    >>> keys.encoded([pa.array(["UA", "AA"]), pa.array([7, -1])]).to_pylist()
    [b't2:3:sUA2:i7', b't2:3:sAA3:i-1']
    >>> keys.decoded(pa.array([b"t2:3:sAA3:i-1"], ENCODED))[1].to_pylist()
    [-1]
    """

    head: bytes
    """What stands before the tuple and its length; of a plain tuple, which has no length, nothing."""
    letters: tuple[bytes, ...]
    """Of each field."""

    @classmethod
    def like(cls, key: object, encode: Callable[[object], bytes]) -> TupleKeys | None:
        """For keys like this one, which `encode` makes bytes of one by one; None if they are not of such a kind."""
        if not isinstance(key, tuple) or not key or not set(map(type, key)) <= _LETTERS.keys():
            return None
        letters = tuple(_LETTERS[type(value)] for value in key)
        found, fields = encode(key), encode((*key,))
        tail = b"" if found == fields else b"%d:%b" % (len(fields), fields)
        if not found.endswith(tail):
            return None
        keys = cls(found[: len(found) - len(tail)] if tail else b"", letters)
        try:
            one = [pa.array([value], pa.large_string() if type(value) is str else None) for value in key]
        except (UnicodeEncodeError, OverflowError):
            # Half a pair of surrogates; more than 64 bits.
            return None
        # A coder of the program's own may say something else of its class.
        return keys if keys.encoded(one).to_pylist() == [found] else None

    def fits(self, columns: Sequence[pa.Array]) -> bool:
        """Whether keys that are made of these columns, field by field, are of this kind."""
        letters = [_LETTERS[str] if is_text(column) else _LETTERS[int] for column in columns]
        return tuple(letters) == self.letters

    @property
    def _opening(self) -> bytes:
        return b"t%d:" % len(self.letters)

    def encoded(self, columns: Sequence[pa.Array]) -> pa.Array:
        """The encoded keys of rows: a column of text or whole numbers for each field, without nulls."""
        parts: list[pa.Array | pa.Scalar] = [_constant(self._opening)]
        for letter, column in zip(self.letters, columns, strict=True):
            text = _bytes(column)
            parts += [_lengths(text, len(letter)), _constant(b":" + letter), text]
        fields = _joined(parts)
        return _joined([_constant(self.head), _lengths(fields), _constant(b":"), fields]) if self.head else fields

    def decoded(self, encoded: pa.Array) -> list[pa.Array] | None:
        """A column for each field, `large_string` or `int64`; None if not all of the keys are of this kind."""
        columns = _Reader(encoded).columns(self)
        # What was read is right if it makes these bytes again: so nothing of them need be checked while reading.
        return columns if columns is not None and self.encoded(columns).equals(encoded) else None

    def openings(self) -> tuple[int, bool, int]:
        """Bytes before the tuple's length, whether there is one, and bytes from there to the first field."""
        return len(self.head), bool(self.head), len(self._opening)


class _Reader:
    """Goes through the bytes of all keys side by side."""

    def __init__(self, encoded: pa.Array) -> None:
        _, offsets, data = encoded.buffers()
        edges = np.frombuffer(offsets, np.int64)[encoded.offset : encoded.offset + len(encoded) + 1]
        self._data = np.frombuffer(data, np.uint8)
        self._at, self._ends = edges[:-1].copy(), edges[1:]

    def columns(self, keys: TupleKeys) -> list[pa.Array] | None:
        """The fields; None where this cannot be."""
        head, has_length, opening = keys.openings()
        self._at += head
        if has_length and self._number() is None:
            return None
        self._at += opening
        found = [self._field(letter) for letter in keys.letters]
        columns = [column for column in found if column is not None]
        return columns if len(columns) == len(found) else None

    def _field(self, letter: bytes) -> pa.Array | None:
        sizes = self._number()
        if sizes is None or not ((sizes > 0) & (self._at + sizes <= self._ends)).all():
            return None
        begins, sizes = self._at + 1, sizes - 1
        self._at = self._at + sizes + 1
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        places = np.arange(offsets[-1]) + np.repeat(begins - offsets[:-1], sizes)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(self._data[places])]
        try:
            text = pa.Array.from_buffers(ENCODED, len(sizes), buffers).cast(pa.large_string())
            return text if letter == b"s" else text.cast(pa.int64())
        except pa.ArrowInvalid:
            # Half a pair of surrogates; more than 64 bits.
            return None

    def _number(self) -> Numbers | None:
        """The number before the next colon of each key, which is passed."""
        numbers = np.zeros(len(self._at), np.int64)
        going = np.ones(len(self._at), np.bool_)
        for _ in range(_DIGITS):
            if (self._at >= self._ends).any():
                return None
            letters = self._data[self._at]
            going &= letters != ord(":")
            if not going.any():
                self._at += 1
                return numbers
            numbers = np.where(going, 10 * numbers + letters - ord("0"), numbers)
            self._at += going
        return None


def _constant(data: bytes) -> pa.Scalar:
    return pa.scalar(data, ENCODED)


def _bytes(column: pa.Array) -> pa.Array:
    """The bytes of text, or of whole numbers as text."""
    return column.cast(pa.large_string()).cast(ENCODED)


def _lengths(column: pa.Array, more: int = 0) -> pa.Array:
    """How many bytes each has, and so many more, as text."""
    return _bytes(pc.add(pc.binary_length(column), more))


def _joined(parts: Sequence[pa.Array | pa.Scalar]) -> pa.Array:
    return pc.binary_join_element_wise(*parts, _constant(b""))
