"""What: accumulators as columns, in the form in which `LiftedCombine` sends them to a grouping."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import pyarrow as pa

from headrace.lowlevel.columnar.arrow_arrays import numbers_in
from headrace.lowlevel.columnar.key_columns import Numbers
from headrace.lowlevel.records.column_batch import ValueSchema
from headrace.lowlevel.stored_names import stored_as
from headrace.sdk.operators.combining.aggregates import Reducers
from headrace.sdk.windows.slices import Slices


@stored_as("LiftedShape")
@dataclass(frozen=True, slots=True)
class Lifted:
    """Shape of lifted elements: (key, (code of the slice, accumulator, number of elements, number lost)).

    The number lost is that of the elements that are dropped if the window is closed. The table has the columns of the
    key, then the start of the slice, the columns that reducers keep, and the number of elements; all but the key are
    int64.
    """

    key: ValueSchema
    reducers: Reducers
    slices: Slices

    def values(self, table: pa.RecordBatch) -> list[object]:
        """See `ValueSchema`."""
        counts = self.counts(table)
        distinct, places = np.unique(self.starts(table), return_inverse=True)
        codes = list(map(self.slices.code, cast("list[int]", distinct.tolist())))
        sizes = counts.tolist()
        payloads = zip(
            [codes[place] for place in places.reshape(-1).tolist()],
            self.reducers.accumulators(self.kept(table), counts),
            sizes,
            sizes,
            strict=True,
        )
        return list(zip(self.key.values(table), payloads, strict=True))

    def part(self, index: int) -> ValueSchema | None:
        """See `ValueSchema`."""
        return self.key if index == 0 else None

    def columns(self) -> tuple[int, ...]:
        """See `ValueSchema`."""
        first = len(self.key.columns())
        return (*self.key.columns(), *range(first, first + 2 + len(self.reducers.kept)))

    def moved(self, places: Mapping[int, int]) -> Lifted:
        """See `ValueSchema`. Raises TypeError, because lifted elements always have a table of their own."""
        raise TypeError("accumulators stand in a table of their own")

    def starts(self, table: pa.RecordBatch) -> Numbers:
        """Start of each row's slice, microseconds UTC: int64."""
        return cast(Numbers, numbers_in(table.column(len(self.key.columns()))))

    def kept(self, table: pa.RecordBatch) -> Sequence[Numbers]:
        """The columns that the reducers keep: int64, each with one entry for each row."""
        first = len(self.key.columns()) + 1
        return [numbers_in(table.column(place)) for place in range(first, first + len(self.reducers.kept))]

    def counts(self, table: pa.RecordBatch) -> Numbers:
        """Number of elements in each row: int64."""
        return cast(Numbers, numbers_in(table.column(table.num_columns - 1)))
