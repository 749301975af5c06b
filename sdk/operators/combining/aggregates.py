"""What: sums, counts, means and extremes of whole numbers for many groups at once, as columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import cast

import numpy as np
import pyarrow as pa

from headrace.lowlevel.arrays import of_numbers
from headrace.lowlevel.columnkeys import Numbers
from headrace.sdk.contents import Combiner
from headrace.sdk.transforms.marks import SkippingMarks
from headrace.sdk.transforms.numeric import CountCombineFn, MaxFn, MeanCombineFn, MinFn, SumFn
from headrace.sdk.transforms.tuples import TupleCombineFn

LARGEST_SUM = 1 << 62
"""Sums whose parts could add up to more than this are left to Python, whose numbers have no end."""
_EXACT_FLOAT = 1 << 53


class Reducer(Enum):
    """How values are combined. All but a count keep a column of 64-bit numbers; every group's count is kept anyway."""

    SUM = SumFn
    COUNT = CountCombineFn
    MEAN = MeanCombineFn
    MAX = MaxFn
    MIN = MinFn

    @property
    def looks_at_values(self) -> bool:
        """Whether the values make a difference."""
        return self is not Reducer.COUNT

    @property
    def adds(self) -> bool:
        """Whether what it keeps may grow beyond its parts."""
        return self in (Reducer.SUM, Reducer.MEAN)

    def reduced(self, groups: Numbers, count: int, values: Numbers) -> Numbers:
        """What is kept of each group, of values or of what was kept of parts; groups are numbered to below `count`."""
        if self.adds:
            sums = np.zeros(count, np.int64)
            np.add.at(sums, groups, values)
            return sums
        bounds = np.iinfo(np.int64)
        extremes = np.full(count, bounds.min if self is Reducer.MAX else bounds.max)
        ufunc = np.maximum if self is Reducer.MAX else np.minimum
        ufunc.at(extremes, groups, values)
        return extremes

    def accumulators(self, kept: Numbers, counts: Numbers) -> list[object]:
        """As the `CombineFn` has them."""
        if self is Reducer.MEAN:
            return list(zip(kept.tolist(), counts.tolist(), strict=True))
        return cast("list[object]", (counts if self is Reducer.COUNT else kept).tolist())

    def results(self, kept: Numbers, counts: Numbers) -> pa.Array:
        """What the `CombineFn` makes of its accumulators."""
        if self is not Reducer.MEAN:
            return of_numbers(counts if self is Reducer.COUNT else kept)
        if len(kept) and max(abs(int(kept.max())), abs(int(kept.min()))) >= _EXACT_FLOAT:
            # Python divides whole numbers of any size as exactly as can be.
            return pa.array([total / count for total, count in zip(kept.tolist(), counts.tolist(), strict=True)])
        return of_numbers(kept / counts)


@dataclass(frozen=True, slots=True)
class Reducers:
    """One reducer, or one for each item of tuples."""

    parts: tuple[Reducer, ...]
    of_tuples: bool

    @property
    def kept(self) -> tuple[int, ...]:
        """Places of the parts that keep a column."""
        return tuple(place for place, part in enumerate(self.parts) if part.looks_at_values)

    def reduced(self, groups: Numbers, count: int, columns: Sequence[Numbers]) -> list[Numbers]:
        """See `Reducer.reduced`; a column for each part of `kept`."""
        parts = [self.parts[place] for place in self.kept]
        return [part.reduced(groups, count, column) for part, column in zip(parts, columns, strict=True)]

    def bound(self, columns: Sequence[Numbers]) -> int:
        """What no sum over all rows can be beyond."""
        largest = 0
        for place, column in zip(self.kept, columns, strict=True):
            if self.parts[place].adds and len(column):
                largest = max(largest, len(column) * max(abs(int(column.max())), abs(int(column.min()))))
        return largest

    def accumulators(self, columns: Sequence[Numbers], counts: Numbers) -> list[object]:
        """See `Reducer.accumulators`."""
        return self._joined([part.accumulators(kept, counts) for part, kept in self._of_each(columns, counts)])

    def results(self, columns: Sequence[Numbers], counts: Numbers) -> list[pa.Array]:
        """A column for each part."""
        return [part.results(kept, counts) for part, kept in self._of_each(columns, counts)]

    def _of_each(self, columns: Sequence[Numbers], counts: Numbers) -> list[tuple[Reducer, Numbers]]:
        kept = dict(zip(self.kept, columns, strict=True))
        return [(part, kept.get(place, counts)) for place, part in enumerate(self.parts)]

    def _joined(self, parts: list[list[object]]) -> list[object]:
        return list(zip(*parts, strict=True)) if self.of_tuples else parts[0]


def reducers_of(combine: Combiner) -> Reducers | None:
    """How a CombineFn is computed by column; None if it cannot be.

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
    """The values as a column, if all are integers of 64 bits; else None.

    >>> whole_numbers([1, 2]), whole_numbers([1, 2.5]), whole_numbers([1 << 63])
    (array([1, 2]), None, None)
    """
    if set(map(type, values)) != {int}:
        return None
    try:
        return np.fromiter(cast("Sequence[int]", values), np.int64, len(values))
    except OverflowError:
        return None
