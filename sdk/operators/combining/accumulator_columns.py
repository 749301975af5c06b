"""What: accumulators as columns, as `LiftedCombine` sends them to a grouping."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import pyarrow as pa

from headrace.lowlevel.arrays import numbers_in
from headrace.lowlevel.columnkeys import Numbers
from headrace.lowlevel.columns import Shape
from headrace.sdk.buckets import Buckets
from headrace.sdk.columns.reducers import Reducers


@dataclass(frozen=True, slots=True)
class Lifted:
    """(key, (code of the bucket, accumulator, number of elements, number lost if the window is closed)).

    The table has the columns of the key, then the bucket's start, what the reducers keep, and the number of elements.
    """

    key: Shape
    reducers: Reducers
    buckets: Buckets

    def values(self, table: pa.RecordBatch) -> list[object]:
        """See `Shape`."""
        counts = self.counts(table)
        distinct, places = np.unique(self.starts(table), return_inverse=True)
        codes = list(map(self.buckets.code, cast("list[int]", distinct.tolist())))
        sizes = counts.tolist()
        payloads = zip(
            [codes[place] for place in places.reshape(-1).tolist()],
            self.reducers.accumulators(self.kept(table), counts),
            sizes,
            sizes,
            strict=True,
        )
        return list(zip(self.key.values(table), payloads, strict=True))

    def part(self, index: int) -> Shape | None:
        """See `Shape`."""
        return self.key if index == 0 else None

    def columns(self) -> tuple[int, ...]:
        """See `Shape`."""
        first = len(self.key.columns())
        return (*self.key.columns(), *range(first, first + 2 + len(self.reducers.kept)))

    def moved(self, places: Mapping[int, int]) -> Lifted:
        """See `Shape`."""
        raise TypeError("accumulators stand in a table of their own")

    def starts(self, table: pa.RecordBatch) -> Numbers:
        """Start of each row's bucket, microseconds UTC."""
        return cast(Numbers, numbers_in(table.column(len(self.key.columns()))))

    def kept(self, table: pa.RecordBatch) -> Sequence[Numbers]:
        """What the reducers keep."""
        first = len(self.key.columns()) + 1
        return [numbers_in(table.column(place)) for place in range(first, first + len(self.reducers.kept))]

    def counts(self, table: pa.RecordBatch) -> Numbers:
        """Number of elements in each row."""
        return cast(Numbers, numbers_in(table.column(table.num_columns - 1)))
