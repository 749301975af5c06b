"""What: encoded keys of many rows as columns again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, cast

import numpy as np
import pyarrow as pa

from headrace.lowlevel import tuplekeys
from headrace.lowlevel.arrays import of_numbers
from headrace.lowlevel.coder import KeyCoder
from headrace.lowlevel.columnkeys import first_places, numbered
from headrace.lowlevel.columns import Shape
from headrace.lowlevel.tuplekeys import TupleKeys, plain_keys
from headrace.sdk.columns.shape import Fields, FieldsKind, Single, Tuple

ENCODED = tuplekeys.ENCODED
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
    if (simple := plain_keys(encoded)) is not None:
        return Keys(Single(0), [simple])
    numbers = numbered_bytes(encoded)
    firsts = encoded.take(of_numbers(first_places(numbers, int(numbers.max(initial=-1)) + 1)))
    columns = _alike(firsts, coder)
    distinct = [] if columns is not None else list(map(coder.decode, firsts.to_pylist()))
    if columns is not None or (columns := _columns(distinct)) is not None:
        places = of_numbers(numbers)
        return Keys(columns.shape, [column.take(places) for column in columns.columns])
    return [distinct[number] for number in numbers.tolist()]


def numbered_bytes(encoded: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Number of each row's bytes, equal for equal ones."""
    return numbered([encoded])


def _alike(encoded: pa.Array, coder: KeyCoder) -> Keys | None:
    """Tuples and named tuples of which all are made as the first one is."""
    first = coder.decode(encoded[0].as_py())
    alike = TupleKeys.like(first, coder.encode) if _is_plain(type(first)) else None
    columns = None if alike is None else alike.decoded(encoded)
    return None if columns is None else Keys(_shape(type(first), len(columns)), columns)


def _is_plain(kind: type) -> bool:
    """Whether it is a kind of tuples that is ours to make again, no class of the user's."""
    return issubclass(kind, tuple) and (kind is tuple or getattr(kind, "_is_dynamic", False))


def _columns(keys: Sequence[object]) -> Keys | None:
    """Tuples and named tuples as a column for each place."""
    kinds = set(map(type, keys))
    kind = kinds.pop()
    if kinds or not _is_plain(kind):
        return None
    tuples = cast("Sequence[tuple[object, ...]]", keys)
    if len(set(map(len, tuples))) != 1 or not tuples[0]:
        return None
    columns = [_column(items) for items in zip(*tuples, strict=True)]
    found = [column for column in columns if column is not None]
    if len(found) < len(columns):
        return None
    return Keys(_shape(kind, len(found)), found)


def _shape(kind: type, width: int) -> Shape:
    shapes = tuple(map(Single, range(width)))
    names = cast("tuple[str, ...] | None", getattr(kind, "_fields", None))
    return Tuple(shapes) if names is None else Fields(names, shapes, FieldsKind.TUPLE, kind.__name__)


def _column(items: Sequence[object]) -> pa.Array | None:
    kinds = set(map(type, items))
    try:
        if kinds == {str}:
            return pa.array(items, pa.large_string())
        return pa.array(items, pa.int64()) if kinds == {int} else None
    except (UnicodeEncodeError, OverflowError):
        return None
