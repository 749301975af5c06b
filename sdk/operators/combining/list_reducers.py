"""What: combiners as columns that keep values: all, the distinct, the greatest or latest; and those of programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, cast

import cloudpickle
import numpy as np
import pyarrow as pa

from headrace.lowlevel.code_pickling import dumps
from headrace.lowlevel.coders.coder import encode_key
from headrace.lowlevel.coders.key_classes import identity_of
from headrace.lowlevel.columnar.arrow_arrays import (
    list_sizes,
    lists_of_one,
    numbers_in,
    of_numbers,
    owners_of_items,
    to_list,
)
from headrace.lowlevel.columnar.key_columns import (
    Numbers,
    first_indices,
    is_key_column,
    numbered,
    order_by_group,
    order_in_groups,
)
from headrace.lowlevel.stored_names import stored_as
from headrace.lowlevel.time import Timestamp
from headrace.sdk.combinefns.vectorized import VectorizedCombineFn
from headrace.sdk.expressions.element_schema import Instant
from headrace.sdk.operators.combining.ordered_columns import is_ordered, order_codes
from headrace.sdk.operators.combining.value_columns import ElementColumns, widest

_MOST_PASSES = 8
"""Number of values of a group up to which they are looked for by passes over all rows."""
_SPARSE = 4
"""How many rows each value that is looked for must have on average, for the passes to pay off."""


class Keeping:
    """Base class: keeps one column, in which nothing is added up."""

    looks_at_values, adds = True, False

    def accumulators(self, kept: pa.Array, counts: Numbers) -> list[object]:
        """See `ColumnReducer`."""
        return to_list(kept)

    def accumulator(self, kept: object, count: int) -> object:
        """See `ColumnReducer`."""
        return kept

    def results(self, kept: pa.Array, counts: Numbers) -> pa.Array:
        """See `ColumnReducer`."""
        return kept

    def has_results(self, kept: pa.Array) -> bool:
        """See `ColumnReducer`."""
        return True

    def output_of_none(self, kept: pa.Array) -> bool:
        """See `ColumnReducer`."""
        return False


@stored_as("ListReducer")
@dataclass(frozen=True, slots=True)
class ListReducer(Keeping):
    """`ToListCombineFn`: keeps a list of the values."""

    def lifted(self, given: ElementColumns) -> pa.Array | None:
        """See `ColumnReducer`."""
        values = given.single()
        return None if values is None or not is_key_column(values) else lists_of_one(widest(values))

    def reduced(self, groups: Numbers, count: int, kept: pa.Array) -> pa.Array:
        """See `ColumnReducer`."""
        owners = owners_of_items(groups, kept)
        return lists_by_owner(kept.flatten(), owners, count, order_by_group(owners, count))


@stored_as("TopReducer")
@dataclass(frozen=True, slots=True)
class TopReducer(Keeping):
    """`TopCombineFn` without a sort key: keeps a sorted list of the greatest or least values."""

    number: int
    """Number of values that are kept."""
    least: bool

    def lifted(self, given: ElementColumns) -> pa.Array | None:
        """See `ColumnReducer`."""
        values = given.single()
        if values is None or values.null_count:
            return None
        values = widest(values)
        return lists_of_one(values) if is_ordered(values.type) else None

    def reduced(self, groups: Numbers, count: int, kept: pa.Array) -> pa.Array:
        """See `ColumnReducer`."""
        values, owners = kept.flatten(), owners_of_items(groups, kept)
        codes = order_codes(values, nan_is_greatest=True)
        codes = codes if self.least else ~codes
        rows = _among_least(owners, codes, count, self.number)
        order = rows[order_in_groups(owners[rows], codes[rows])]
        return lists_by_owner(values, owners, count, order[places_in_groups(owners[order], count) < self.number])


def _among_least(groups: Numbers, codes: Numbers, count: int, number: int) -> Numbers:
    """Indices of rows, ascending, among which are the `number` rows of each group with the least codes.

    Each pass finds the least code of each group that is above the one before. A pass over 200,000 rows takes a
    millisecond, sorting them sixty.
    """
    rows = np.arange(len(groups))
    if not 0 < number <= _MOST_PASSES or len(groups) < _SPARSE * number * count:
        return rows
    above = rows
    for _ in range(number):
        bounds = np.full(count, np.iinfo(np.int64).max)
        np.minimum.at(bounds, groups[above], codes[above])
        above = above[codes[above] > bounds[groups[above]]]
    return np.flatnonzero(codes <= bounds[groups])


@stored_as("SetReducer")
@dataclass(frozen=True, slots=True)
class SetReducer(Keeping):
    """`ToSetCombineFn`: keeps a list of the distinct values with the number of times that each was added."""

    def lifted(self, given: ElementColumns) -> pa.Array | None:
        """See `ColumnReducer`."""
        values = given.single()
        if values is None or not is_key_column(values) or not self._is_taken(values):
            return None
        return lists_of_one(_counted(widest(values), np.ones(len(values), np.int64)))

    def _is_taken(self, values: pa.Array) -> bool:
        """Whether columns tell these values apart as accumulators do."""
        return not has_odd_floats(values)

    def reduced(self, groups: Numbers, count: int, kept: pa.Array) -> pa.Array:
        """See `ColumnReducer`."""
        values, counts = kept.flatten().flatten()
        owners, rows, sums = distinct_items(owners_of_items(groups, kept), values, cast(Numbers, numbers_in(counts)))
        return lists_of(_counted(values.take(of_numbers(rows)), sums), owners, count)

    def accumulators(self, kept: pa.Array, counts: Numbers) -> list[object]:
        """See `ColumnReducer`."""
        values, numbers = (to_list(column) for column in kept.flatten().flatten())
        entries = zip(values, cast("list[int]", numbers), strict=True)
        sizes = list_sizes(kept).to_pylist()
        return [Counter(dict(next(entries) for _ in range(size))) for size in sizes]

    def has_results(self, kept: pa.Array) -> bool:
        """See `ColumnReducer`: there are no columns of sets."""
        return False


@stored_as("DistinctReducer")
@dataclass(frozen=True, slots=True)
class DistinctReducer(SetReducer):
    """`CountDistinctCombineFn`: keeps what `SetReducer` keeps; values are compared as keys are."""

    def _is_taken(self, values: pa.Array) -> bool:
        return True

    def accumulators(self, kept: pa.Array, counts: Numbers) -> list[object]:
        """See `ColumnReducer`."""
        held = cast("list[Counter[object]]", super(DistinctReducer, self).accumulators(kept, counts))
        return [Counter({identity_of(encode_key(value)): each for value, each in one.items()}) for one in held]

    def results(self, kept: pa.Array, counts: Numbers) -> pa.Array:
        """See `ColumnReducer`."""
        return list_sizes(kept)

    def has_results(self, kept: pa.Array) -> bool:
        """See `ColumnReducer`."""
        return True

    def output_of_none(self, kept: pa.Array) -> bool:
        """See `ColumnReducer`: it is 0."""
        return bool(pa.types.is_large_list(kept.type))


@stored_as("LatestReducer")
@dataclass(frozen=True, slots=True)
class LatestReducer(Keeping):
    """`LatestCombineFn`: keeps the time in microseconds UTC and the value."""

    def _ranks(self, times: Numbers) -> Numbers:
        """Numbers that are greater for times that are chosen before others."""
        return times

    def lifted(self, given: ElementColumns) -> pa.Array | None:
        """See `ColumnReducer`."""
        value, time = given.item(0), given.item(1)
        values = None if value is None else value.single()
        if values is None or time is None or not isinstance(time.shape, Instant) or given.item(2) is not None:
            return None
        return _struct({"time": time.columns[time.shape.column], "value": widest(values)})

    def reduced(self, groups: Numbers, count: int, kept: pa.Array) -> pa.Array:
        """See `ColumnReducer`. Of several values with the chosen time, the first is kept."""
        ranks = self._ranks(cast(Numbers, numbers_in(kept.flatten()[0])))
        greatest = np.full(count, np.iinfo(np.int64).min)
        np.maximum.at(greatest, groups, ranks)
        rows = np.flatnonzero(ranks == greatest[groups])[::-1]
        indices = np.zeros(count, np.int64)
        indices[groups[rows]] = rows
        return kept.take(of_numbers(indices))

    def accumulators(self, kept: pa.Array, counts: Numbers) -> list[object]:
        """See `ColumnReducer`."""
        times, values = (to_list(column) for column in kept.flatten())
        stamps = [None if time is None else Timestamp(micros=cast(int, time)) for time in times]
        return list(zip(values, stamps, strict=True))

    def results(self, kept: pa.Array, counts: Numbers) -> pa.Array:
        """See `ColumnReducer`."""
        return kept.flatten()[1]

    def output_of_none(self, kept: pa.Array) -> bool:
        """See `ColumnReducer`: it is None."""
        return bool(pa.types.is_struct(kept.type))


@stored_as("EarliestReducer")
@dataclass(frozen=True, slots=True)
class EarliestReducer(LatestReducer):
    """`EarliestCombineFn`."""

    def _ranks(self, times: Numbers) -> Numbers:
        return -times


@lru_cache(maxsize=64)
def _unpacked(data: bytes) -> CustomReducer:
    return CustomReducer(cloudpickle.loads(data))


@stored_as("CustomReducer", make=_unpacked, parts=lambda reducer: (reducer.packed,))
class CustomReducer(Keeping):
    """A `VectorizedCombineFn`: keeps its states."""

    def __init__(self, combine: VectorizedCombineFn[Any, Any, Any]) -> None:
        self.combine = combine

    @cached_property
    def packed(self) -> bytes:
        """The combiner, pickled with its class if a worker could not import that."""
        return dumps(self.combine)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CustomReducer) and (self.combine is other.combine or self.packed == other.packed)

    def __hash__(self) -> int:
        return hash(self.packed)

    def lifted(self, given: ElementColumns) -> pa.Array | None:
        """See `ColumnReducer`. Raises TypeError for an array of another length, or with nulls."""
        values = given.single()
        states = None if values is None else self.combine.lift(values)
        return None if states is None or values is None else self._checked("lift", states, len(values))

    def reduced(self, groups: Numbers, count: int, kept: pa.Array) -> pa.Array:
        """See `ColumnReducer`. Raises TypeError for an array of another length or type."""
        merged = self._checked("merge", self.combine.merge(kept, groups, count), count, nulls=True)
        if merged.type != kept.type:
            raise TypeError(self._problem("merge", f"an array of type {merged.type}", f"one of type {kept.type}"))
        return merged

    def accumulators(self, kept: pa.Array, counts: Numbers) -> list[object]:
        """See `ColumnReducer`."""
        return cast("list[object]", self.combine.accumulators(kept))

    def results(self, kept: pa.Array, counts: Numbers) -> pa.Array:
        """See `ColumnReducer`."""
        found = self.combine.extract(kept)
        assert found is not None, "has_results has asked"
        return self._checked("extract", found, len(kept), nulls=True)

    def has_results(self, kept: pa.Array) -> bool:
        """See `ColumnReducer`."""
        return self.combine.extract(kept.slice(0, 0)) is not None

    def _checked(self, method: str, found: pa.Array, length: int, nulls: bool = False) -> pa.Array:
        array = found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found
        if not isinstance(array, pa.Array):
            raise TypeError(self._problem(method, f"a {type(found).__name__}", "a pyarrow.Array"))
        if len(array) != length:
            raise TypeError(self._problem(method, f"{len(array)} entries", f"{length}"))
        if array.null_count and not nulls:
            raise TypeError(self._problem(method, f"{array.null_count} nulls", "an array without nulls"))
        return array

    def _problem(self, method: str, given: str, wanted: str) -> str:
        return f"{type(self.combine).__name__}.{method} has returned {given}; it must return {wanted}"


def _struct(columns: dict[str, pa.Array]) -> pa.Array:
    return pa.StructArray.from_arrays(list(columns.values()), list(columns))


def _counted(values: pa.Array, counts: Numbers) -> pa.Array:
    return _struct({"value": values, "count": of_numbers(counts)})


def has_odd_floats(values: pa.Array) -> bool:
    """Whether there are floats that Python's sets tell apart in another way: NaN and -0.0."""
    if not pa.types.is_floating(values.type):
        return False
    numbers = numbers_in(values.drop_null())
    return bool(((numbers != numbers) | ((numbers == 0) & np.signbit(numbers))).any())


def distinct_items(owners: Numbers, values: pa.Array, counts: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """The distinct pairs of an owner and a value; values are compared as keys are.

    Args:
        owners: The owner of each value.
        values: Values of a type for which `is_key_column` is true.
        counts: How often each is there.

    Returns:
        The owner of each pair, ascending; the index of a row with its value; and the sum of its counts: int64.
    """
    codes = numbered([values])
    number = int(codes.max(initial=0)) + 1
    pairs = owners * number + codes
    if (counts == 1).all():
        # To sort numbers takes a fifth of the time that it takes to sort their indices.
        pairs = np.sort(pairs)
    else:
        order = np.argsort(pairs)
        pairs, counts = pairs[order], counts[order]
    first = np.flatnonzero(np.diff(pairs, prepend=-1))
    found, places = np.divmod(pairs[first], number)
    totals = np.concatenate([[0], np.cumsum(counts)])
    return found, first_indices(codes, number)[places], np.diff(totals[np.append(first, len(pairs))])


def places_in_groups(owners: Numbers, count: int) -> Numbers:
    """The place of each item among those of its owner, from 0; `owners` is ascending, from 0 to below `count`.

    >>> places_in_groups(np.array([0, 0, 2]), 3).tolist()
    [0, 1, 0]
    """
    sizes = np.bincount(owners, minlength=count)
    return np.arange(len(owners)) - np.repeat(np.cumsum(sizes) - sizes, sizes)


def lists_by_owner(values: pa.Array, owners: Numbers, count: int, order: Numbers | Sequence[int]) -> pa.Array:
    """A list for each group; `order` has the indices of the items, group after group."""
    return lists_of(values.take(of_numbers(np.asarray(order))), owners[order], count)


def lists_of(values: pa.Array, owners: Numbers, count: int) -> pa.Array:
    """A list of its values for each group; `owners` has the group of each value, ascending."""
    offsets = np.concatenate([[0], np.cumsum(np.bincount(owners, minlength=count))])
    return pa.LargeListArray.from_arrays(of_numbers(offsets), values)
