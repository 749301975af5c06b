"""What: variances and standard deviations, computed as columns for many groups at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np
import pyarrow as pa

from headrace.lowlevel.columnar.arrow_arrays import lists_of_one, numbers_in, of_numbers, owners_of_items
from headrace.lowlevel.columnar.key_columns import Numbers
from headrace.lowlevel.stored_names import stored_as
from headrace.sdk.combinefns.exact_sums import Floats, exact_sums, sums_in
from headrace.sdk.combinefns.variance import (
    LARGEST_SQUARED,
    SMALLEST_SQUARED,
    Moments,
    StandardDeviationFn,
    VarianceFn,
    squares_of_floats,
)
from headrace.sdk.operators.combining.list_reducers import Keeping
from headrace.sdk.operators.combining.value_columns import ElementColumns, widest

_MOST_DIGITS = 1 << 53
"""Absolute value up to which all whole numbers are floats."""


@stored_as("VarianceReducer")
@dataclass(frozen=True, slots=True)
class VarianceReducer(Keeping):
    """`VarianceFn` or `StandardDeviationFn`: keeps the parts of the sums of the values and of their squares."""

    is_root: bool
    """Whether the standard deviation is wanted."""
    population: bool
    """See `VarianceFn`."""

    def lifted(self, given: ElementColumns) -> pa.Array | None:
        """See `ColumnReducer`."""
        values = given.single()
        numbers = None if values is None or values.null_count else _floats(widest(values))
        if numbers is None:
            return None
        is_finite = np.isfinite(numbers)
        high, low = squares_of_floats(np.where(is_finite, numbers, 0.0))
        high[~is_finite] = np.nan
        squares = lists_of_one(of_numbers(high)) if not low.any() else _lists_of_two(high, low)
        return _moments(lists_of_one(of_numbers(numbers)), squares)

    def reduced(self, groups: Numbers, count: int, kept: pa.Array) -> pa.Array:
        """See `ColumnReducer`."""
        return _moments(
            *(
                exact_sums(owners_of_items(groups, lists), count, cast(Floats, numbers_in(lists.flatten())))
                for lists in kept.flatten()
            )
        )

    def accumulators(self, kept: pa.Array, counts: Numbers) -> list[object]:
        """See `ColumnReducer`."""
        return list(zip(counts.tolist(), *map(sums_in, kept.flatten()), strict=True))

    def results(self, kept: pa.Array, counts: Numbers) -> pa.Array:
        """See `ColumnReducer`."""
        combine = (StandardDeviationFn if self.is_root else VarianceFn)(self.population)
        moments = cast("list[Moments]", self.accumulators(kept, counts))
        return of_numbers(np.fromiter(map(combine.extract_output, moments), np.float64, len(moments)))

    def output_of_none(self, kept: pa.Array) -> bool:
        """See `ColumnReducer`: it is NaN."""
        return bool(pa.types.is_struct(kept.type))


def _floats(values: pa.Array) -> Floats | None:
    """Numbers whose squares are exact as two floats, as floats; None for others."""
    kind = values.type
    if not (pa.types.is_integer(kind) or pa.types.is_boolean(kind) or kind == pa.float64()):
        return None
    numbers = numbers_in(values)
    if pa.types.is_integer(kind) and len(numbers) and max(int(numbers.max()), -int(numbers.min())) > _MOST_DIGITS:
        return None
    floats = numbers.astype(np.float64)
    sizes = np.abs(floats)
    is_squared = ((sizes > SMALLEST_SQUARED) & (sizes < LARGEST_SQUARED)) | (sizes == 0) | ~np.isfinite(floats)
    return floats if is_squared.all() else None


def _moments(totals: pa.Array, squares: pa.Array) -> pa.Array:
    return pa.StructArray.from_arrays([totals, squares], ["total", "squares"])


def _lists_of_two(first: Floats, second: Floats) -> pa.Array:
    """A list (`large_list`) for each row, with its two numbers."""
    offsets = np.arange(0, 2 * len(first) + 1, 2)
    return pa.LargeListArray.from_arrays(of_numbers(offsets), of_numbers(np.stack([first, second], 1).reshape(-1)))
