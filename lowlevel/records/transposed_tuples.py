"""Tuples turned into columns: what `pickle` notes of every tuple and number costs more than turning them round."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from itertools import chain, repeat
from operator import is_, itemgetter
from typing import cast, overload

import numpy as np
from numpy.typing import NDArray

Column = Sequence[object] | None
"""None for a column that is the records' key."""


class Turned(Sequence[object]):
    """Tuples of one length as columns, whole numbers and floats as 64 bits each.

    >>> turned = Turned.of([("a", 1), ("b", 2)], [])
    >>> turned.columns, turned[1], list(turned)
    ([['a', 'b'], array('q', [1, 2])], ('b', 2), [('a', 1), ('b', 2)])
    """

    __slots__ = ("_keys", "columns")

    def __init__(self, columns: Sequence[Column], keys: Sequence[object]) -> None:
        self.columns = columns
        self._keys = keys
        """The key of each tuple."""

    @classmethod
    def of(cls, values: Sequence[object], keys: Sequence[object]) -> Turned | None:
        """The values as columns; None if they are anything but tuples of one length.

        `keys` are the records' keys, of a type of which equal keys are the same everywhere; else empty.
        """
        if set(map(type, values)) != {tuple}:
            return None
        tuples = cast("Sequence[tuple[object, ...]]", values)
        if len(set(map(len, tuples))) != 1:
            return None
        # `zip(*tuples)` would make an iterator for each of them.
        items = (list(map(itemgetter(place), tuples)) for place in range(len(tuples[0])))
        columns = [None if keys and all(map(is_, column, keys)) else packed(column) for column in items]
        return cls(columns, keys) if columns else None

    def taken(self, places: NDArray[np.intp]) -> Turned:
        """The tuples at these places, in their order."""
        columns = [None if column is None else _taken(column, places) for column in self.columns]
        # The keys are of use only where they are a column.
        return Turned(columns, _taken(self._keys, places) if None in columns else ())

    def __len__(self) -> int:
        return len(self.whole()[0])

    @overload
    def __getitem__(self, place: int) -> tuple[object, ...]: ...
    @overload
    def __getitem__(self, place: slice) -> list[object]: ...
    def __getitem__(self, place: int | slice) -> object:
        columns = self.whole()
        if isinstance(place, slice):
            return list(zip(*[column[place] for column in columns], strict=True))
        return tuple([column[place] for column in columns])

    def __iter__(self) -> Iterator[object]:
        return zip(*self.whole(), strict=True)

    def whole(self) -> list[Sequence[object]]:
        """The columns, the keys where they are one."""
        return [self._keys if column is None else column for column in self.columns]


def whole(columns: Sequence[Column], keys: Sequence[object], counts: Sequence[int]) -> list[object]:
    """The tuples again; there are so many of each key, one behind the other.

    >>> whole([None, [1, 2, 3]], ["a", "b"], [2, 1])
    [('a', 1), ('a', 2), ('b', 3)]
    """
    repeated = (chain.from_iterable(map(repeat, keys, counts)) if column is None else column for column in columns)
    return list(zip(*repeated, strict=True))


def packed(column: list[object]) -> Sequence[object]:
    """Whole numbers or floats as 64 bits each, if there is nothing else and they fit.

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


def _taken(column: Sequence[object], places: NDArray[np.intp]) -> Sequence[object]:
    if isinstance(column, array):
        return array(column.typecode, np.asarray(column)[places].tobytes())
    return list(map(column.__getitem__, places.tolist()))
