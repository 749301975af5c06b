"""Parcels of one stream as columns sorted by key (paper §4.3)."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from itertools import chain

import numpy as np
import pyarrow as pa

from headrace.lowlevel.arrays import of_bytes, of_equal_bytes, of_numbers
from headrace.lowlevel.columngather import joined
from headrace.lowlevel.columnkeys import Numbers
from headrace.lowlevel.columnparcel import ColumnParcel
from headrace.lowlevel.columnwise.values import ColumnValues, ObjectValues, Values
from headrace.lowlevel.parcel import Parcel


def rows_of(parcel: Parcel) -> pa.Array:
    """The row of each key of a parcel."""
    return of_equal_bytes(parcel.rows, 16)


def keys_of(parcel: Parcel) -> pa.Array:
    """Each encoded key of a parcel."""
    return of_bytes(parcel.keys, pa.large_binary())


def by_key(parcels: Sequence[Parcel], numbers: Sequence[Numbers]) -> tuple[Numbers, Numbers, Numbers, Values]:
    """All records: the numbers of their keys, in order; the place of each record's key there; timestamps; values.

    `numbers` are those of the keys of each parcel.
    """
    every = np.concatenate([np.repeat(its, parcel.counts) for parcel, its in zip(parcels, numbers, strict=True)])
    times = np.concatenate([np.frombuffer(_times(parcel), np.int64) for parcel in parcels])
    found = numbers[0] if len(parcels) == 1 else np.unique(every)
    if len(parcels) == 1:
        # Sorted by key already, in the order in which keys came.
        return found, np.repeat(np.arange(len(found)), parcels[0].counts), times, _values(parcels, None)
    order = np.argsort(every, kind="stable")
    return found, np.searchsorted(found, every[order]), times[order], _values(parcels, order)


def _times(parcel: Parcel) -> bytes:
    return parcel.batch.times.tobytes() if isinstance(parcel, ColumnParcel) else parcel.timestamps.tobytes()


def _values(parcels: Sequence[Parcel], order: Numbers | None) -> Values:
    batches = [parcel.batch for parcel in parcels if isinstance(parcel, ColumnParcel)]
    if len(batches) == len(parcels) and all(
        batch.shape == batches[0].shape and batch.table.schema.types == batches[0].table.schema.types
        for batch in batches
    ):
        table = joined(batches).table
        return ColumnValues(table if order is None else table.take(of_numbers(order)), batches[0].shape)
    values = list(chain.from_iterable(parcel.values for parcel in parcels))
    return ObjectValues(values if order is None else list(map(values.__getitem__, order.tolist())))


def unseen(parcel: Parcel, journal: Callable[[bytes, int], bool]) -> Parcel:
    """The parcel without records that were processed before (paper §6.1.1); `journal` is told of every id."""
    if parcel.ids is None:
        return parcel
    fresh = [
        place
        for place, (record_id, time) in enumerate(zip(parcel.ids, parcel.timestamps, strict=True))
        if journal(record_id, time)
    ]
    if len(fresh) == len(parcel):
        return parcel
    owners = np.repeat(np.arange(len(parcel.rows)), parcel.counts)[np.array(fresh, np.int64)]
    counts = np.bincount(owners, minlength=len(parcel.rows))
    left = np.flatnonzero(counts).tolist()
    return Parcel(
        parcel.consumer,
        parcel.stream,
        [parcel.keys[place] for place in left],
        [parcel.rows[place] for place in left],
        array("q", counts[left].tobytes()),
        array("q", [parcel.timestamps[place] for place in fresh]),
        [parcel.values[place] for place in fresh],
    )
