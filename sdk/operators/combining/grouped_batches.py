"""What: column batches of pairs, split by key and slice of event time, so that Python code runs once for each group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from headrace.lowlevel.columnar.arrow_arrays import of_numbers
from headrace.lowlevel.columnar.key_columns import Numbers, dense, is_key_column, numbered
from headrace.lowlevel.records.column_batch import ColumnBatch, ValueSchema
from headrace.sdk.windows.slices import Slices

_LEAST = 4
"""Average number of elements in a group from which on sorting by group is faster."""
_SMALL = 1 << 16
"""Number of groups up to which their numbers fit into 16 bits, which NumPy sorts by radix."""


class GroupedBatch(NamedTuple):
    """The elements of a batch that have the same key and slice."""

    key: object
    start: int
    """Start of the slice, microseconds UTC."""
    timestamp: int
    """Timestamp of the first element, microseconds UTC."""
    values: list[object]
    """Values of the elements, in the order of the batch."""


def grouped_batches(batch: ColumnBatch, slices: Slices) -> list[GroupedBatch] | None:
    """Split a batch of pairs (key, value) by key and slice.

    Return None if columns do not express the keys, if slices of the timestamps cannot be computed in 64 bits, or if
    groups have fewer than `_LEAST` elements on average.
    """
    key, value = batch.shape.part(0), batch.shape.part(1)
    if key is None or value is None or not len(batch) or not slices.reaches(batch.times):
        return None
    columns = [column for column in map(batch.table.column, key.columns()) if not pa.types.is_null(column.type)]
    if not all(map(is_key_column, columns)):
        return None
    starts, places = np.unique(slices.starts(batch.times), return_inverse=True)
    keys = numbered(columns) if columns else np.zeros(len(batch), np.int64)
    groups, names = dense(keys * len(starts) + places.reshape(-1))
    if len(names) * _LEAST > len(batch):
        return None
    return _cut(batch, key, value, groups, starts[names % len(starts)].tolist())


def _cut(
    batch: ColumnBatch, key: ValueSchema, value: ValueSchema, groups: Numbers, starts: Sequence[int]
) -> list[GroupedBatch]:
    order = _order(groups, len(starts))
    values = value.values(batch.table.take(of_numbers(order)))
    stops = np.cumsum(np.bincount(groups, minlength=len(starts)))
    firsts = order[stops - np.diff(stops, prepend=0)]
    keys = key.values(batch.table.take(of_numbers(firsts)))
    found = zip(keys, starts, batch.times[firsts].tolist(), [0, *stops.tolist()], stops.tolist(), strict=False)
    return [GroupedBatch(one, start, time, values[first:stop]) for one, start, time, first, stop in found]


def _order(groups: Numbers, count: int) -> Numbers:
    """Indices of the rows, group after group: int64; the sort is stable."""
    return np.argsort(groups.astype(np.uint16) if count <= _SMALL else groups, kind="stable")
