"""What: sketches as columns, for many groups at once: of distinct values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

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
    distinct_numbers,
    encoded_keys,
    first_indices,
    is_direct,
    is_key_column,
    numbered,
)
from headrace.lowlevel.stored_names import stored_as
from headrace.sdk.combinefns.unique_sketch import UniqueSketch, estimates, identity, numbers_of, sketch_hashes
from headrace.sdk.operators.combining.list_reducers import Keeping, lists_of, places_in_groups
from headrace.sdk.operators.combining.value_columns import ElementColumns


@stored_as("UniqueReducer")
@dataclass(frozen=True, slots=True)
class UniqueReducer(Keeping):
    """`ApproximateUniqueCombineFn`: keeps a list of the least hashes, ascending, one more than a sketch."""

    lg_size: int
    """See `UniqueSketch`."""

    def lifted(self, given: ElementColumns) -> pa.Array | None:
        """See `ColumnReducer`."""
        values = given.single()
        if values is None or not is_key_column(values):
            return None
        codes = numbered([values])
        rows = first_indices(codes, int(codes.max(initial=-1)) + 1)
        distinct = values.take(of_numbers(rows))
        identities = encoded_keys(distinct).to_pylist() if is_direct(distinct) else map(identity, to_list(distinct))
        return lists_of_one(of_numbers(sketch_hashes(numbers_of(identities))[codes]))

    def reduced(self, groups: Numbers, count: int, kept: pa.Array) -> pa.Array:
        """See `ColumnReducer`."""
        distinct, ranks = distinct_numbers(cast(Numbers, numbers_in(kept.flatten())))
        pairs = np.sort(owners_of_items(groups, kept) * len(distinct) + ranks)
        owners, ranks = np.divmod(pairs[np.diff(pairs, prepend=-1) > 0], len(distinct))
        chosen = places_in_groups(owners, count) <= 1 << self.lg_size
        return lists_of(of_numbers(distinct[ranks[chosen]]), owners[chosen], count)

    def accumulators(self, kept: pa.Array, counts: Numbers) -> list[object]:
        """See `ColumnReducer`."""
        lists = cast("list[list[int] | None]", to_list(kept))
        return [UniqueSketch.of_hashes(self.lg_size, hashes or ()) for hashes in lists]

    def results(self, kept: pa.Array, counts: Numbers) -> pa.Array:
        """See `ColumnReducer`."""
        size = 1 << self.lg_size
        found = numbers_in(list_sizes(kept)).copy()
        many = np.flatnonzero(found > size)
        if len(many):
            thetas = pc.list_element(kept.take(of_numbers(many)), size)
            found[many] = estimates(cast(Numbers, numbers_in(thetas)), size)
        return of_numbers(found)

    def output_of_none(self, kept: pa.Array) -> bool:
        """See `ColumnReducer`: it is 0."""
        return bool(pa.types.is_large_list(kept.type))
