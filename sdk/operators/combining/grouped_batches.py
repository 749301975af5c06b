"""What: columns of pairs cut up by key and bucket of event time, so that Python sees groups instead of elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from headrace.lowlevel.arrays import of_numbers
from headrace.lowlevel.columnkeys import Numbers, dense, is_key_column, numbered
from headrace.lowlevel.columns import ColumnBatch, Shape
from headrace.sdk.buckets import Buckets

_LEAST = 4
"""Elements a group from which on it pays to sort them."""
_SMALL = 1 << 16
"""Numbers below it are sorted without being compared."""


class Portion(NamedTuple):
    """The elements of a batch that have one key and bucket."""

    key: object
    start: int
    """The bucket's."""
    timestamp: int
    """Of the first of them, microseconds UTC."""
    values: list[object]
    """In the batch's order."""


def portions(batch: ColumnBatch, buckets: Buckets) -> list[Portion] | None:
    """The portions of pairs (key, value); None if keys are no columns that tell them apart, or nearly all differ."""
    key, value = batch.shape.part(0), batch.shape.part(1)
    if key is None or value is None or not len(batch) or not buckets.reaches(batch.times):
        return None
    columns = [column for column in map(batch.table.column, key.columns()) if not pa.types.is_null(column.type)]
    if not all(map(is_key_column, columns)):
        return None
    starts, places = np.unique(buckets.starts(batch.times), return_inverse=True)
    keys = numbered(columns) if columns else np.zeros(len(batch), np.int64)
    groups, names = dense(keys * len(starts) + places.reshape(-1))
    if len(names) * _LEAST > len(batch):
        return None
    return _cut(batch, key, value, groups, starts[names % len(starts)].tolist())


def _cut(batch: ColumnBatch, key: Shape, value: Shape, groups: Numbers, starts: Sequence[int]) -> list[Portion]:
    order = _order(groups, len(starts))
    values = value.values(batch.table.take(of_numbers(order)))
    stops = np.cumsum(np.bincount(groups, minlength=len(starts)))
    firsts = order[stops - np.diff(stops, prepend=0)]
    keys = key.values(batch.table.take(of_numbers(firsts)))
    found = zip(keys, starts, batch.times[firsts].tolist(), [0, *stops.tolist()], stops.tolist(), strict=False)
    return [Portion(one, start, time, values[first:stop]) for one, start, time, first, stop in found]


def _order(groups: Numbers, count: int) -> Numbers:
    """The places of the rows, group after group."""
    return np.argsort(groups.astype(np.uint16) if count <= _SMALL else groups, kind="stable")
