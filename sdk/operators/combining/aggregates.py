"""What: sums, counts, means and extremes, computed as columns for many groups at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, cast

import numpy as np
import pyarrow as pa

from headrace.lowlevel.columnar.arrow_arrays import lists_of_one, numbers_in, of_numbers, owners_of_items, to_list, zero
from headrace.lowlevel.columnar.key_columns import Numbers
from headrace.lowlevel.stored_names import stored_as
from headrace.sdk.combinefns.collecting import (
    CountDistinctCombineFn,
    EarliestCombineFn,
    Largest,
    LatestCombineFn,
    Smallest,
    ToListCombineFn,
    TopCombineFn,
    ToSetCombineFn,
)
from headrace.sdk.combinefns.combine_fn import AnyCombineFn
from headrace.sdk.combinefns.composite import SingleInputTupleCombineFn, SkippingMarks, TupleCombineFn
from headrace.sdk.combinefns.exact_sums import PARTS, exact_sums, rounded_sums, sums_in
from headrace.sdk.combinefns.numeric import (
    AllFn,
    AnyFn,
    CountCombineFn,
    CountNonNullCombineFn,
    MaxFn,
    MeanCombineFn,
    MinFn,
    SumFn,
)
from headrace.sdk.combinefns.quantile_sketch import ApproximateQuantilesCombineFn
from headrace.sdk.combinefns.unique_sketch import ApproximateUniqueCombineFn
from headrace.sdk.combinefns.variance import StandardDeviationFn, VarianceFn
from headrace.sdk.combinefns.vectorized import VectorizedCombineFn
from headrace.sdk.operators.combining.list_reducers import (
    CustomReducer,
    DistinctReducer,
    EarliestReducer,
    LatestReducer,
    ListReducer,
    SetReducer,
    TopReducer,
)
from headrace.sdk.operators.combining.moment_reducers import VarianceReducer
from headrace.sdk.operators.combining.ordered_columns import is_ordered, of_unscaled, order_codes, unscaled
from headrace.sdk.operators.combining.quantile_reducer import QuantileReducer
from headrace.sdk.operators.combining.sketch_reducers import UniqueReducer
from headrace.sdk.operators.combining.value_columns import ElementColumns, widest

LARGEST_SUM = 1 << 62
"""Bound from which on sums are computed with Python ints, which do not overflow, instead of int64."""
_EXACT_FLOAT = 1 << 53


class ColumnReducer(Protocol):
    """A CombineFn over columns, for many groups at once.

    It keeps one column, or none: what the accumulators hold besides the number of elements, which is kept for each
    group separately. An entry is null for a group without elements.
    """

    @property
    def looks_at_values(self) -> bool:
        """Whether it keeps a column: the result depends on the values of elements."""

    @property
    def adds(self) -> bool:
        """Whether the kept numbers may grow beyond the values, and overflow."""

    def lifted(self, given: ElementColumns) -> pa.Array | None:
        """What is kept of each value: a column of one entry for each; None if columns do not express it."""

    def reduced(self, groups: Numbers, count: int, kept: pa.Array) -> pa.Array:
        """Combine by group what is kept of values or of parts.

        Args:
            groups: Group of each entry, from 0 to below `count`: int64.
            count: Number of groups.
            kept: One entry for each of `groups`, at least one, in any order, without nulls. The caller must rule out
                overflow.

        Returns:
            A column of the same type, one entry for each group; it is arbitrary for a group without entries.
        """

    def accumulators(self, kept: pa.Array, counts: Numbers) -> list[object]:
        """The accumulators of the `CombineFn`, one for each group; arbitrary where `kept` is null."""

    def accumulator(self, kept: object, count: int) -> object:
        """The accumulator of one group, from what is kept of it as a Python value, and its number of elements."""

    def results(self, kept: pa.Array, counts: Numbers) -> pa.Array:
        """The outputs of the `CombineFn`, one for each group."""

    def has_results(self, kept: pa.Array) -> bool:
        """Whether columns express the outputs of groups that have elements."""

    def output_of_none(self, kept: pa.Array) -> bool:
        """Whether `results` gives the output for no elements where `kept` is null."""


@stored_as("Reducer")
class Reducer(Enum):
    """The reducers of sums, counts, means, extremes and votes."""

    SUM = SumFn
    COUNT = CountCombineFn
    COUNT_NON_NULL = CountNonNullCombineFn
    MEAN = MeanCombineFn
    MAX = MaxFn
    MIN = MinFn
    ANY = AnyFn
    ALL = AllFn

    @property
    def looks_at_values(self) -> bool:
        """See `ColumnReducer`."""
        return self is not Reducer.COUNT

    @property
    def adds(self) -> bool:
        """See `ColumnReducer`."""
        return self in (Reducer.SUM, Reducer.MEAN)

    def lifted(self, given: ElementColumns) -> pa.Array | None:
        """See `ColumnReducer`."""
        values = given.single()
        if values is not None and self is Reducer.COUNT_NON_NULL:
            return values.is_valid().cast(pa.int64())
        if values is None or values.null_count:
            return None
        values = widest(values)
        if self in (Reducer.MAX, Reducer.MIN):
            return values if is_ordered(values.type) else None
        if self.adds:
            return _addends(values)
        if not pa.types.is_boolean(values.type):
            return None
        return of_numbers((numbers_in(values) == (self is Reducer.ANY)).astype(np.int64))

    def reduced(self, groups: Numbers, count: int, kept: pa.Array) -> pa.Array:
        """See `ColumnReducer`."""
        if self in (Reducer.MAX, Reducer.MIN):
            return kept.take(of_numbers(_extremes(groups, count, kept, self is Reducer.MAX)))
        if kept.type == PARTS:
            return exact_sums(owners_of_items(groups, kept), count, numbers_in(kept.flatten()))
        found = np.zeros(count, np.int64)
        if not pa.types.is_decimal(kept.type):
            np.add.at(found, groups, numbers_in(kept))
            return of_numbers(found)
        np.add.at(found, groups, cast(Numbers, unscaled(kept)))
        return of_unscaled(found, kept.type)

    def accumulators(self, kept: pa.Array | None, counts: Numbers) -> list[object]:
        """See `ColumnReducer`."""
        sizes = counts.tolist()
        values = sizes if kept is None else values_of_kept(kept)
        return [self.accumulator(value, count) for value, count in zip(values, sizes, strict=True)]

    def accumulator(self, kept: object, count: int) -> object:
        """See `ColumnReducer`."""
        if self is Reducer.COUNT:
            return count
        return (kept, count) if self is Reducer.MEAN else kept

    def results(self, kept: pa.Array, counts: Numbers) -> pa.Array:
        """See `ColumnReducer`."""
        if self is Reducer.COUNT:
            return of_numbers(counts)
        if self in _SET:
            found = kept.cast(pa.int64()).fill_null(zero(pa.int64()))
            is_count = self is Reducer.COUNT_NON_NULL
            return found if is_count else of_numbers((numbers_in(found) > 0) == (self is Reducer.ANY))
        if kept.type == PARTS:
            sums = rounded_sums(kept)
            return of_numbers(sums / counts if self is Reducer.MEAN else sums)
        if self is Reducer.SUM and pa.types.is_integer(kept.type):
            return kept.fill_null(zero(kept.type))
        return _means(numbers_in(kept), counts) if self is Reducer.MEAN else kept

    def has_results(self, kept: pa.Array) -> bool:
        """See `ColumnReducer`. Python divides decimals, by its context."""
        return not (self is Reducer.MEAN and pa.types.is_decimal(kept.type))

    def output_of_none(self, kept: pa.Array) -> bool:
        """See `ColumnReducer`."""
        return self in _SET or (self is Reducer.SUM and pa.types.is_integer(kept.type))


def values_of_kept(kept: pa.Array) -> list[object]:
    """What is kept of each group as a Python value; None where that is null."""
    return cast("list[object]", sums_in(kept)) if kept.type == PARTS else to_list(kept)


_SET = frozenset([Reducer.COUNT, Reducer.COUNT_NON_NULL, Reducer.ANY, Reducer.ALL])


def _addends(values: pa.Array) -> pa.Array | None:
    """What sums keep of each value: int64, `PARTS`, or a decimal whose digits fit into 64 bits; None for others."""
    kind = values.type
    if kind == pa.float64():
        return lists_of_one(values)
    if pa.types.is_decimal128(kind):
        return None if unscaled(values) is None else values
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind):
        try:
            return values.cast(pa.int64())
        except pa.ArrowInvalid:
            # A number has 64 bits without a sign.
            return None
    return None


def _extremes(groups: Numbers, count: int, values: pa.Array, greatest: bool) -> Numbers:
    """The index of a greatest or least value of each group; 0 for a group without values."""
    codes = order_codes(values, greatest)
    found = np.full(count, np.iinfo(np.int64).min if greatest else np.iinfo(np.int64).max)
    (np.maximum if greatest else np.minimum).at(found, groups, codes)
    indices = np.zeros(count, np.int64)
    rows = np.flatnonzero(codes == found[groups])
    indices[groups[rows]] = rows
    return indices


def _means(sums: Numbers, counts: Numbers) -> pa.Array:
    if len(sums) and max(abs(int(sums.max())), abs(int(sums.min()))) >= _EXACT_FLOAT:
        # Division of Python ints is correctly rounded; float64 does not express these sums exactly.
        exact = [total / count for total, count in zip(sums.tolist(), counts.tolist(), strict=True)]
        return of_numbers(np.array(exact))
    return of_numbers(sums / counts)


@stored_as("Reducers")
@dataclass(frozen=True, slots=True)
class Reducers:
    """The reducers of a CombineFn: one reducer, or one for each item of tuples."""

    parts: tuple[ColumnReducer, ...]
    of_tuples: bool
    """Whether results are tuples, of one item for each part."""

    @property
    def reads_items(self) -> bool:
        """Whether values are tuples, and each part reads its own item; if False, each part reads the whole value."""
        return self.of_tuples

    @property
    def kept(self) -> tuple[int, ...]:
        """Indices of the parts that keep a column, ascending."""
        return tuple(place for place, part in enumerate(self.parts) if part.looks_at_values)

    @property
    def keep_numbers(self) -> bool:
        """Whether each part keeps a single value of a group, or none."""
        return all(isinstance(part, Reducer) for part in self.parts)

    def reduced(self, groups: Numbers, count: int, columns: Sequence[pa.Array]) -> list[pa.Array]:
        """See `ColumnReducer.reduced`; `columns` and the result have one column for each index of `kept`."""
        parts = [self.parts[place] for place in self.kept]
        return [
            part.reduced(groups, count, column) if len(column) else pa.nulls(count, column.type)
            for part, column in zip(parts, columns, strict=True)
        ]

    def bound(self, columns: Sequence[pa.Array]) -> int:
        """An upper bound of the absolute value of every sum of 64 bits over all rows of `columns`."""
        largest = 0
        for numbers in self.summed(columns):
            if numbers is not None and len(numbers):
                largest = max(largest, len(numbers) * max(abs(int(numbers.max())), abs(int(numbers.min()))))
        return largest

    def summed(self, columns: Sequence[pa.Array]) -> list[Numbers | None]:
        """The numbers that are added in 64 bits, for each index of `kept`; None where there are none."""
        return [
            _numbers(column) if self.parts[place].adds else None
            for place, column in zip(self.kept, columns, strict=True)
        ]

    def accumulators(self, columns: Sequence[pa.Array], counts: Numbers) -> list[object]:
        """The accumulators of the `CombineFn`, one for each group."""
        parts = [
            to_list(kept) if _is_empty(kept) else part.accumulators(kept, counts)
            for part, kept in self._of_each(columns)
        ]
        return list(zip(*parts, strict=True)) if self.of_tuples else parts[0]

    def accumulator(self, kept: Sequence[object], count: int) -> object:
        """The accumulator of one group, from its `values_of_kept` and its number of elements."""
        values = dict(zip(self.kept, kept, strict=True))
        parts = [part.accumulator(values.get(place), count) for place, part in enumerate(self.parts)]
        return (*parts,) if self.of_tuples else parts[0]

    def results(self, columns: Sequence[pa.Array], counts: Numbers) -> list[pa.Array]:
        """See `Reducer.results`; one array for each part."""
        return [part.results(kept, counts) for part, kept in self._of_each(columns)]

    def has_results(self, columns: Sequence[pa.Array]) -> bool:
        """Whether `results` expresses the outputs of groups that have elements."""
        return all(_is_empty(kept) or part.has_results(kept) for part, kept in self._of_each(columns))

    def has_outputs_of_none(self, columns: Sequence[pa.Array]) -> bool:
        """Whether `results` expresses the outputs of groups that have none."""
        return all(part.output_of_none(kept) for part, kept in self._of_each(columns))

    def _of_each(self, columns: Sequence[pa.Array]) -> list[tuple[ColumnReducer, pa.Array]]:
        kept = dict(zip(self.kept, columns, strict=True))
        return [(part, kept.get(place)) for place, part in enumerate(self.parts)]


@stored_as("SingleInputReducers")
class SingleInputReducers(Reducers):
    """The reducers of a `SingleInputTupleCombineFn`; `of_tuples` is True."""

    __slots__ = ()

    @property
    def reads_items(self) -> bool:
        """See `Reducers`."""
        return False


def _is_empty(kept: pa.Array | None) -> bool:
    """Whether a column has no type yet, as nothing has been kept in it."""
    return kept is not None and pa.types.is_null(kept.type)


def _numbers(column: pa.Array) -> Numbers | None:
    if pa.types.is_decimal(column.type):
        return unscaled(column.drop_null())
    return cast(Numbers, numbers_in(column.drop_null())) if pa.types.is_integer(column.type) else None


def reducers_of(combine: AnyCombineFn) -> Reducers | None:
    """The reducers that compute a CombineFn as columns; None if there are none.

    >>> reducers_of(TupleCombineFn(SumFn(), CountCombineFn())).parts
    (<Reducer.SUM: ...>, <Reducer.COUNT: ...>)
    """
    made: object = combine.inner if isinstance(combine, SkippingMarks) else combine
    kind = _OF_TUPLES.get(type(made))
    if kind is not None:
        parts = [_reducer(part) for part in cast(SingleInputTupleCombineFn, made).combiners]
        found = tuple(part for part in parts if part is not None)
        return kind(found, True) if found and len(found) == len(parts) else None
    one = _reducer(made)
    return None if one is None else Reducers((one,), False)


def _reducer(combine: object) -> ColumnReducer | None:
    if isinstance(combine, VectorizedCombineFn):
        return CustomReducer(combine)
    if type(combine) in (TopCombineFn, Largest, Smallest):
        number, key, least = cast("TopCombineFn[object]", combine).state_arguments().values()
        return TopReducer(cast(int, number), bool(least)) if key is None else None
    if type(combine) is ApproximateUniqueCombineFn:
        return UniqueReducer(combine.lg_size)
    if type(combine) is ApproximateQuantilesCombineFn:
        return QuantileReducer(*combine.settings) if combine.is_plain else None
    if type(combine) in (VarianceFn, StandardDeviationFn):
        return VarianceReducer(type(combine) is StandardDeviationFn, cast(VarianceFn, combine).population)
    return _REDUCERS.get(type(combine))


_OF_TUPLES: dict[type, type[Reducers]] = {
    TupleCombineFn: Reducers,
    SingleInputTupleCombineFn: SingleInputReducers,
}
"""CombineFn of several others -> the class of its reducers."""
_REDUCERS: dict[type, ColumnReducer] = {
    **{reducer.value: reducer for reducer in Reducer},
    ToListCombineFn: ListReducer(),
    ToSetCombineFn: SetReducer(),
    CountDistinctCombineFn: DistinctReducer(),
    LatestCombineFn: LatestReducer(),
    EarliestCombineFn: EarliestReducer(),
}
"""CombineFn -> its reducer, for those without arguments."""
