"""What: sums, counts, means and extremes of whole numbers for many keys at once, as columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from headrace.sdk.contents import Combiner
from headrace.sdk.transforms.numeric import CountCombineFn, MaxFn, MeanCombineFn, MinFn, SumFn

Column = NDArray[np.int64]
Reduce = Callable[[Column, Column, Column], Sequence[object]]
"""Accumulators of groups, given each value's group number, the values, and how many values each group has."""

_SPARSE = 4
"""Group numbers per element beyond which they are made dense by sorting."""
_LARGEST_SUM = 1 << 62


def _sums(groups: Column, values: Column, counts: Column) -> Sequence[object]:
    sums = np.zeros(len(counts), np.int64)
    np.add.at(sums, groups, values)
    return sums.tolist()


def _counts(groups: Column, values: Column, counts: Column) -> Sequence[object]:
    whole: list[object] = counts.tolist()
    return whole


def _means(groups: Column, values: Column, counts: Column) -> Sequence[object]:
    return list(zip(_sums(groups, values, counts), counts.tolist(), strict=True))


def _greatest(groups: Column, values: Column, counts: Column) -> Sequence[object]:
    extremes = np.full(len(counts), np.iinfo(np.int64).min)
    np.maximum.at(extremes, groups, values)
    return extremes.tolist()


def _least(groups: Column, values: Column, counts: Column) -> Sequence[object]:
    extremes = np.full(len(counts), np.iinfo(np.int64).max)
    np.minimum.at(extremes, groups, values)
    return extremes.tolist()


_REDUCTIONS: dict[type, Reduce] = {
    SumFn: _sums,
    CountCombineFn: _counts,
    MeanCombineFn: _means,
    MaxFn: _greatest,
    MinFn: _least,
}


def reduction(combine: Combiner) -> Reduce | None:
    """How the accumulators of a CombineFn are computed by column; None if they cannot be."""
    return _REDUCTIONS.get(type(combine))


def whole_numbers(values: Sequence[object]) -> Column | None:
    """The values as a column, if all are integers small enough to be added up exactly; else None.

    >>> whole_numbers([1, 2]), whole_numbers([1, 2.5]), whole_numbers([1 << 60, 1 << 60, 1 << 61, 0])
    (array([1, 2]), None, None)
    """
    if set(map(type, values)) != {int}:
        return None
    try:
        column = np.fromiter(values, np.int64, len(values))
    except OverflowError:
        return None
    largest = max(abs(int(column.max())), abs(int(column.min())))
    return column if largest * len(column) < _LARGEST_SUM else None


@dataclass(slots=True)
class Tally:
    """Columns of elements until they are reduced by key and bucket."""

    reduce: Reduce
    size: int = 0
    """Elements so far."""
    _keys: dict[object, int] = field(default_factory=dict)
    _starts: dict[int, int] = field(default_factory=dict)
    _columns: list[tuple[Column, Column, Column, Column]] = field(default_factory=list)

    def add(self, keys: Sequence[object], starts: Column, values: Column, timestamps: Column) -> None:
        """Add elements; equal keys must be the same key."""
        known = self._keys
        numbers = np.fromiter((known.setdefault(key, len(known)) for key in keys), np.int64, len(keys))
        distinct, places = np.unique(starts, return_inverse=True)
        order = [self._starts.setdefault(start, len(self._starts)) for start in distinct.tolist()]
        self._columns.append((numbers, np.array(order, np.int64)[places], values, timestamps))
        self.size += len(keys)

    @property
    def looks_at_values(self) -> bool:
        """Whether the values make a difference."""
        return self.reduce is not _counts

    def clear(self) -> None:
        """Forget all."""
        self.size, self._keys, self._starts, self._columns = 0, {}, {}, []

    def drain(self) -> list[tuple[object, int, object, int, int, int]]:
        """Key, bucket, accumulator, number of elements, the same again, the first one's timestamp of every group."""
        if not self.size:
            return []
        numbers, places, values, timestamps = (np.concatenate(column) for column in zip(*self._columns, strict=True))
        width = len(self._starts)
        groups, names = _dense(numbers * width + places, len(self._keys) * width)
        counts = np.bincount(groups, minlength=len(names))
        first = np.empty(len(names), np.int64)
        first[groups[::-1]] = timestamps[::-1]
        accumulators = self.reduce(groups, values, counts)
        keys, starts = list(self._keys), list(self._starts)
        owners = [keys[name] for name in (names // width).tolist()]
        stretches = [starts[name] for name in (names % width).tolist()]
        self.clear()
        sizes = counts.tolist()
        return list(zip(owners, stretches, accumulators, sizes, sizes, first.tolist(), strict=True))


def _dense(groups: Column, limit: int) -> tuple[Column, Column]:
    """Groups numbered from 0 without gaps, and what each number stood for."""
    if limit > _SPARSE * len(groups):
        names, dense = np.unique(groups, return_inverse=True)
        return dense, names
    names = np.flatnonzero(np.bincount(groups, minlength=limit))
    numbers = np.empty(limit, np.int64)
    numbers[names] = np.arange(len(names))
    return numbers[groups], names
