"""What: quantile sketches as columns, for many groups at once.

values   7 3 9 | 4 4 ...        the values that are kept, in one list for each group
levels   1 1 1 | 1 2 ...        their levels: a value of level 2 stands for two, of level 3 for four
extremes       | 0 99           least and greatest of the discarded values of each group, if there are any
turns    0     | 1              how often levels of the group were halved
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, cast

import numpy as np
import pyarrow as pa

from headrace.lowlevel.columnar.arrow_arrays import (
    list_sizes,
    lists_of_one,
    numbers_in,
    of_numbers,
    owners_of_items,
    to_list,
)
from headrace.lowlevel.columnar.key_columns import Flags, Numbers, order_by_group
from headrace.lowlevel.stored_names import stored_as
from headrace.sdk.combinefns.quantile_sketch import EXACT, LOWEST, QuantileSketch, chances, level_to_halve
from headrace.sdk.operators.combining.list_reducers import Keeping, has_odd_floats, lists_by_owner
from headrace.sdk.operators.combining.ordered_columns import is_ordered, order_codes
from headrace.sdk.operators.combining.value_columns import ElementColumns, widest

_FIELDS = ("values", "levels", "extremes", "turns")


@stored_as("QuantileReducer")
@dataclass(frozen=True, slots=True)
class QuantileReducer(Keeping):
    """`ApproximateQuantilesCombineFn` of values without sort keys and weights: keeps what a `QuantileSketch` has."""

    number: int
    """Number of quantiles, the least and the greatest value among them."""
    is_reversed: bool
    """Whether the greatest value comes first."""
    k: int
    """See `QuantileSketch`."""

    def lifted(self, given: ElementColumns) -> pa.Array | None:
        """See `ColumnReducer`."""
        values = given.single()
        if values is None or values.null_count or has_odd_floats(values) or not is_ordered(widest(values).type):
            return None
        values, zeros = widest(values), np.zeros(len(values), np.int64)
        nothing = pa.LargeListArray.from_arrays(of_numbers(np.append(zeros, 0)), values.slice(0, 0))
        return _kept(lists_of_one(values), lists_of_one(of_numbers(zeros + LOWEST)), nothing, of_numbers(zeros))

    def reduced(self, groups: Numbers, count: int, kept: pa.Array) -> pa.Array:
        """See `ColumnReducer`."""
        values, levels, extremes, turns = kept.flatten()
        items = _Items(
            pa.concat_arrays([values.flatten(), extremes.flatten()]),
            np.concatenate([owners_of_items(groups, values), owners_of_items(groups, extremes)]),
            numbers_in(levels.flatten()).copy(),
        )
        sums = np.zeros(count, np.int64)
        np.add.at(sums, groups, numbers_in(turns))
        stays = self._shrunk(items, sums)
        rows = np.flatnonzero(stays)
        order = rows[order_by_group(items.owners[rows], count)]
        sizes = of_numbers(items.levels)
        found = [lists_by_owner(column, items.owners, count, order) for column in (items.values, sizes)]
        beyond = items.extremes(np.flatnonzero(~stays))
        return _kept(*found, lists_by_owner(items.values, items.owners, count, beyond), of_numbers(sums))

    def _shrunk(self, items: _Items, turns: Numbers) -> Flags:
        """Halve levels of groups that have too many values; return which of all values stay.

        The levels of values that then stand for two are raised in place, and so are the numbers of halvings, `turns`.
        """
        sizes = np.bincount(items.owners[: len(items.levels)], minlength=len(turns))
        large = np.flatnonzero(sizes > EXACT)
        if not len(large):
            return np.ones(len(items.levels), np.bool_)
        by_group, ends = order_by_group(items.owners[: len(items.levels)], len(turns)), np.cumsum(sizes)
        codes, stays = items.codes(), np.ones(len(items.levels), np.bool_)
        for group in large.tolist():
            rows = by_group[ends[group] - sizes[group] : ends[group]]
            # Sorted once: what is taken of a level stays sorted.
            rows = rows[np.argsort(codes[rows], kind="stable")]
            while True:
                numbers, counts = np.unique(items.levels[rows], return_counts=True)
                level = level_to_halve(dict(zip(numbers.tolist(), counts.tolist(), strict=True)), self.k, EXACT)
                if level is None:
                    break
                turns[group] += 1
                ordered = rows[items.levels[rows] == level]
                ordered = ordered[: len(ordered) // 2 * 2]
                second = chances(int(turns[group]))() < 0.5
                dropped, raised = ordered[int(not second) :: 2], ordered[int(second) :: 2]
                items.levels[raised] += 1
                stays[dropped] = False
                rows = rows[stays[rows]]
        return stays

    def accumulators(self, kept: pa.Array, counts: Numbers) -> list[object]:
        """See `ColumnReducer`."""
        columns = zip(*map(to_list, kept.flatten()), strict=True)
        return [
            QuantileSketch.of_levels(
                self.k,
                EXACT,
                cast("list[object]", values or ()),
                cast("list[int]", levels or ()),
                cast(int, turns or 0),
                cast("list[object]", extremes or []),
            )
            for values, levels, extremes, turns in columns
        ]

    def results(self, kept: pa.Array, counts: Numbers) -> pa.Array:
        """See `ColumnReducer`."""
        values, levels, extremes, _ = kept.flatten()
        sizes = list_sizes(values)
        owners = np.repeat(np.arange(len(kept)), numbers_in(sizes))
        beyond = np.repeat(np.arange(len(kept)), numbers_in(list_sizes(extremes)))
        items = _Items(
            pa.concat_arrays([values.flatten(), extremes.flatten()]),
            np.concatenate([owners, beyond]),
            numbers_in(levels.flatten()),
        )
        present = np.flatnonzero(numbers_in(sizes))
        ends = items.extremes(np.arange(len(owners))).reshape(-1, 2)[:, :: -1 if self.is_reversed else 1]
        rows = np.column_stack([ends[:, :1], self._between(items, present), ends[:, 1:]])
        return lists_by_owner(items.values, items.owners, len(kept), rows.reshape(-1))

    def _between(self, items: _Items, present: Numbers) -> Numbers:
        """The rows of the quantiles between the least and the greatest value: one line for each group of `present`."""
        codes, owners = items.codes()[: len(items.levels)], items.owners[: len(items.levels)]
        order = np.lexsort((~codes if self.is_reversed else codes, owners))
        reached = np.cumsum(1 << (items.levels[order] - LOWEST))
        last = np.cumsum(np.bincount(owners, minlength=int(present.max(initial=-1)) + 1))[present] - 1
        before = np.concatenate([[0], reached[last[:-1]]]) if len(last) else reached
        totals = reached[last] - before
        step, first = totals / (self.number - 1), (totals - 1) / (self.number - 1)
        targets = np.arange(self.number - 2) * step[:, None] + first[:, None]
        # The first value up to which more than the target is reached; the sums are whole numbers.
        places = np.searchsorted(reached, before[:, None] + np.floor(targets).astype(np.int64) + 1)
        return order[np.minimum(places, last[:, None])]

    def output_of_none(self, kept: pa.Array) -> bool:
        """See `ColumnReducer`: it is an empty list."""
        return bool(pa.types.is_struct(kept.type))


class _Items(NamedTuple):
    """What sketches keep, in one row for each value: first the kept values, then the extremes of discarded ones."""

    values: pa.Array
    owners: Numbers
    """The group of each value."""
    levels: Numbers
    """The level of each kept value."""

    def codes(self) -> Numbers:
        """See `order_codes`."""
        return order_codes(self.values, nan_is_greatest=True)

    def extremes(self, rows: Numbers) -> Numbers:
        """The rows of the least and the greatest value of each group, among these rows and the extremes.

        The result has two rows for each group that has any, in the order of the groups.
        """
        rows = np.concatenate([rows, np.arange(len(self.levels), len(self.owners))])
        if not len(rows):
            return rows
        order = rows[np.lexsort((self.codes()[rows], self.owners[rows]))]
        begins: Flags = np.diff(self.owners[order], prepend=-1) != 0
        first = np.flatnonzero(begins)
        last = np.append(first[1:], len(order)) - 1
        return np.stack([order[first], order[last]], 1).reshape(-1)


def _kept(*columns: pa.Array) -> pa.Array:
    return pa.StructArray.from_arrays(list(columns), list(_FIELDS))
