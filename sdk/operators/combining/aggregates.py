"""What: sums, counts, means and extremes of whole numbers, computed as columns for many groups at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import cast

import numpy as np
import pyarrow as pa

from headrace.lowlevel.columnar.arrow_arrays import of_numbers
from headrace.lowlevel.columnar.key_columns import Numbers
from headrace.lowlevel.stored_names import stored_as
from headrace.sdk.combinefns.combine_fn import AnyCombineFn
from headrace.sdk.combinefns.composite import SkippingMarks, TupleCombineFn
from headrace.sdk.combinefns.numeric import CountCombineFn, MaxFn, MeanCombineFn, MinFn, SumFn

LARGEST_SUM = 1 << 62
"""Bound from which on sums are computed with Python ints, which do not overflow, instead of int64."""
_EXACT_FLOAT = 1 << 53


@stored_as("Reducer")
class Reducer(Enum):
    """Vectorized implementations of a CombineFn for whole numbers.

    Every reducer except COUNT keeps one int64 column; the number of elements of each group is kept separately.
    """

    SUM = SumFn
    COUNT = CountCombineFn
    MEAN = MeanCombineFn
    MAX = MaxFn
    MIN = MinFn

    @property
    def looks_at_values(self) -> bool:
        """Whether the result depends on the values of elements."""
        return self is not Reducer.COUNT

    @property
    def adds(self) -> bool:
        """Whether the kept numbers may grow beyond the values, and overflow."""
        return self in (Reducer.SUM, Reducer.MEAN)

    def reduced(self, groups: Numbers, count: int, values: Numbers) -> Numbers:
        """Combine values, or numbers kept for parts, by group.

        Args:
            groups: Group of each value, from 0 to below `count`: int64.
            count: Number of groups.
            values: int64, of the length of `groups`, in any order. The caller must rule out overflow of sums.

        Returns:
            int64, one entry for each group; a group without values has 0 for sums, the int64 limit for extremes.
        """
        bounds = np.iinfo(np.int64)
        extremes = {Reducer.MAX: (np.maximum, bounds.min), Reducer.MIN: (np.minimum, bounds.max)}
        ufunc, start = extremes.get(self, (np.add, 0))
        found = np.full(count, start, np.int64)
        ufunc.at(found, groups, values)
        return found

    def accumulators(self, kept: Numbers, counts: Numbers) -> list[object]:
        """The accumulators of the `CombineFn`, one for each group, from kept numbers and numbers of elements."""
        if self is Reducer.MEAN:
            return list(zip(kept.tolist(), counts.tolist(), strict=True))
        return cast("list[object]", (counts if self is Reducer.COUNT else kept).tolist())

    def results(self, kept: Numbers, counts: Numbers) -> pa.Array:
        """The outputs of the `CombineFn`, one for each group: an int64 array, or float64 for MEAN."""
        if self is not Reducer.MEAN:
            return of_numbers(counts if self is Reducer.COUNT else kept)
        if len(kept) and max(abs(int(kept.max())), abs(int(kept.min()))) >= _EXACT_FLOAT:
            # Division of Python ints is correctly rounded; float64 does not express these sums exactly.
            return pa.array([total / count for total, count in zip(kept.tolist(), counts.tolist(), strict=True)])
        return of_numbers(kept / counts)


@stored_as("Reducers")
@dataclass(frozen=True, slots=True)
class Reducers:
    """The reducers of a CombineFn: one reducer, or one for each item of tuples."""

    parts: tuple[Reducer, ...]
    of_tuples: bool

    @property
    def kept(self) -> tuple[int, ...]:
        """Indices of the parts that keep a column, ascending."""
        return tuple(place for place, part in enumerate(self.parts) if part.looks_at_values)

    def reduced(self, groups: Numbers, count: int, columns: Sequence[Numbers]) -> list[Numbers]:
        """See `Reducer.reduced`; `columns` and the result have one column for each index of `kept`."""
        parts = [self.parts[place] for place in self.kept]
        return [part.reduced(groups, count, column) for part, column in zip(parts, columns, strict=True)]

    def bound(self, columns: Sequence[Numbers]) -> int:
        """An upper bound of the absolute value of every sum over all rows of `columns`."""
        largest = 0
        for place, column in zip(self.kept, columns, strict=True):
            if self.parts[place].adds and len(column):
                largest = max(largest, len(column) * max(abs(int(column.max())), abs(int(column.min()))))
        return largest

    def accumulators(self, columns: Sequence[Numbers], counts: Numbers) -> list[object]:
        """See `Reducer.accumulators`."""
        parts = [part.accumulators(kept, counts) for part, kept in self._of_each(columns, counts)]
        return list(zip(*parts, strict=True)) if self.of_tuples else parts[0]

    def results(self, columns: Sequence[Numbers], counts: Numbers) -> list[pa.Array]:
        """See `Reducer.results`; one array for each part."""
        return [part.results(kept, counts) for part, kept in self._of_each(columns, counts)]

    def _of_each(self, columns: Sequence[Numbers], counts: Numbers) -> list[tuple[Reducer, Numbers]]:
        kept = dict(zip(self.kept, columns, strict=True))
        return [(part, kept.get(place, counts)) for place, part in enumerate(self.parts)]


def reducers_of(combine: AnyCombineFn) -> Reducers | None:
    """The reducers that compute a CombineFn as columns; None if there are none.

    >>> reducers_of(TupleCombineFn(SumFn(), CountCombineFn())).parts
    (<Reducer.SUM: ...>, <Reducer.COUNT: ...>)
    """
    made: object = combine.inner if isinstance(combine, SkippingMarks) else combine
    if isinstance(made, TupleCombineFn) and type(made) is TupleCombineFn:
        parts = [_reducer(part) for part in made.combiners]
        found = tuple(part for part in parts if part is not None)
        return Reducers(found, True) if found and len(found) == len(parts) else None
    one = _reducer(made)
    return None if one is None else Reducers((one,), False)


def _reducer(combine: object) -> Reducer | None:
    return next((reducer for reducer in Reducer if reducer.value is type(combine)), None)


def whole_numbers(values: Sequence[object]) -> Numbers | None:
    """The values as int64 in their order; None if one is not an int of 64 bits, or if there are no values.

    >>> whole_numbers([1, 2]), whole_numbers([1, 2.5]), whole_numbers([1 << 63])
    (array([1, 2]), None, None)
    """
    if set(map(type, values)) != {int}:
        return None
    try:
        return np.fromiter(cast("Sequence[int]", values), np.int64, len(values))
    except OverflowError:
        return None
