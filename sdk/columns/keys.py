"""What: encoded keys of many rows as columns again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, cast

import numpy as np
import pyarrow as pa

from headrace.lowlevel.coder import KeyCoder
from headrace.lowlevel.columnkeys import first_places, numbered
from headrace.lowlevel.columns import Shape
from headrace.sdk.columns.shape import Fields, FieldsKind, Single, Tuple

ENCODED = pa.large_binary()
"""Of columns of encoded keys."""


class Keys(NamedTuple):
    """Keys as columns."""

    shape: Shape
    columns: list[pa.Array]


def decoded(encoded: pa.Array, coder: KeyCoder) -> Keys | list[object]:
    """The keys of a column of encoded ones, as columns if they are text, whole numbers or tuples of these.

    >>> decoded(pa.array([b"sUA", b"sAA"], ENCODED), KeyCoder()).columns[0].to_pylist()
    ['UA', 'AA']
    """
    if (simple := _simple(encoded)) is not None:
        return Keys(Single(0), [simple])
    numbers = numbered_bytes(encoded)
    firsts = pa.array(first_places(numbers, int(numbers.max(initial=-1)) + 1))
    distinct = list(map(coder.decode, encoded.take(firsts).to_pylist()))
    if (columns := _columns(distinct)) is not None:
        places = pa.array(numbers)
        return Keys(columns.shape, [column.take(places) for column in columns.columns])
    return [distinct[number] for number in numbers.tolist()]


def numbered_bytes(encoded: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Number of each row's bytes, equal for equal ones."""
    return numbered([encoded])


def _simple(encoded: pa.Array) -> pa.Array | None:
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


def _columns(keys: Sequence[object]) -> Keys | None:
    """Tuples and named tuples as a column for each place."""
    kinds = set(map(type, keys))
    kind = kinds.pop()
    if kinds or not issubclass(kind, tuple) or not keys:
        return None
    names = cast("tuple[str, ...] | None", getattr(kind, "_fields", None))
    if kind is not tuple and not getattr(kind, "_is_dynamic", False):
        # A class of the user's is not for us to make again.
        return None
    tuples = cast("Sequence[tuple[object, ...]]", keys)
    if len(set(map(len, tuples))) != 1 or not tuples[0]:
        return None
    columns = [_column(items) for items in zip(*tuples, strict=True)]
    found = [column for column in columns if column is not None]
    if len(found) < len(columns):
        return None
    shapes = tuple(map(Single, range(len(found))))
    shape = Tuple(shapes) if names is None else Fields(names, shapes, FieldsKind.TUPLE, kind.__name__)
    return Keys(shape, found)


def _column(items: Sequence[object]) -> pa.Array | None:
    kinds = set(map(type, items))
    try:
        if kinds == {str}:
            return pa.array(items, pa.large_string())
        return pa.array(items, pa.int64()) if kinds == {int} else None
    except (UnicodeEncodeError, OverflowError):
        return None
