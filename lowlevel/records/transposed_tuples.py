"""Tuples as columns, for pickling: `pickle` spends more on each tuple and number than transposing costs."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from itertools import chain, repeat
from operator import is_, itemgetter
from typing import cast, overload

import numpy as np
from numpy.typing import NDArray

Column = Sequence[object] | None
"""The items at one index of all tuples; None if they are the records' keys."""


class TransposedTuples(Sequence[object]):
    """Tuples of one length as columns; integers and floats take 64 bits each.

    >>> transposed = TransposedTuples.of([("a", 1), ("b", 2)], [])
    >>> transposed.columns, transposed[1], list(transposed)
    ([['a', 'b'], array('q', [1, 2])], ('b', 2), [('a', 1), ('b', 2)])
    """

    __slots__ = ("_keys", "columns")

    def __init__(self, columns: Sequence[Column], keys: Sequence[object]) -> None:
        self.columns = columns
        self._keys = keys
        """The key of each record; may be empty if no column is None."""

    @classmethod
    def of(cls, values: Sequence[object], keys: Sequence[object]) -> TransposedTuples | None:
        """The values as columns; None unless they are tuples of one length, which is not 0.

        `keys` are the keys of the records, or empty if a decoded key may differ in type from an equal one.
        """
        if set(map(type, values)) != {tuple}:
            return None
        tuples = cast("Sequence[tuple[object, ...]]", values)
        if len(set(map(len, tuples))) != 1:
            return None
        # `zip(*tuples)` would make an iterator for each tuple.
        items = (list(map(itemgetter(index), tuples)) for index in range(len(tuples[0])))
        columns = [None if keys and all(map(is_, column, keys)) else packed(column) for column in items]
        return cls(columns, keys) if columns else None

    def taken(self, indices: NDArray[np.intp]) -> TransposedTuples:
        """The tuples with these indices, in the order of `indices`."""
        columns = [None if column is None else _taken(column, indices) for column in self.columns]
        # The keys are needed only if they are a column.
        return TransposedTuples(columns, _taken(self._keys, indices) if None in columns else ())

    def __len__(self) -> int:
        return len(self.whole()[0])

    @overload
    def __getitem__(self, index: int) -> tuple[object, ...]: ...
    @overload
    def __getitem__(self, index: slice) -> list[object]: ...
    def __getitem__(self, index: int | slice) -> object:
        columns = self.whole()
        if isinstance(index, slice):
            return list(zip(*[column[index] for column in columns], strict=True))
        return tuple([column[index] for column in columns])

    def __iter__(self) -> Iterator[object]:
        return zip(*self.whole(), strict=True)

    def whole(self) -> list[Sequence[object]]:
        """All columns, with the keys in the place of None."""
        return [self._keys if column is None else column for column in self.columns]


def tuples_of(columns: Sequence[Column], keys: Sequence[object], counts: Sequence[int]) -> list[object]:
    """The tuples of columns; `counts` has the number of tuples of each key, which stand together.

    >>> tuples_of([None, [1, 2, 3]], ["a", "b"], [2, 1])
    [('a', 1), ('a', 2), ('b', 3)]
    """
    repeated = (chain.from_iterable(map(repeat, keys, counts)) if column is None else column for column in columns)
    return list(zip(*repeated, strict=True))


def packed(column: list[object]) -> Sequence[object]:
    """The column as an array of 64-bit numbers if all items are `int`, or all `float`, and fit; else the list.

    >>> packed([1, 2]), packed([1, True]), packed([1 << 63])
    (array('q', [1, 2]), [1, True], [9223372036854775808])
    """
    kinds = set(map(type, column))
    try:
        if kinds == {int}:
            return array("q", cast("list[int]", column))
        if kinds == {float}:
            return array("d", cast("list[float]", column))
    except OverflowError:
        return column
    return column


def _taken(column: Sequence[object], indices: NDArray[np.intp]) -> Sequence[object]:
    if isinstance(column, array):
        return array(column.typecode, np.asarray(column)[indices].tobytes())
    return list(map(column.__getitem__, indices.tolist()))
