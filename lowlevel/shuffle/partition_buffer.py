"""Records on their way to one consumer, until enough have come together to be shipped by interval and key (paper §4.2).

What comes is put end to end, and only what is shipped is grouped: by a stable sort of small numbers for whole columns,
which costs a tenth of a microsecond a record, where a list a key costs a whole one.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from headrace.lowlevel.coder import STANDARD_KEYS
from headrace.lowlevel.columngather import ColumnGather
from headrace.lowlevel.columns import ColumnBatch
from headrace.lowlevel.deadletter import DeadLetter
from headrace.lowlevel.errors import StepError
from headrace.lowlevel.failure import failed_step, own_traceback
from headrace.lowlevel.intervals import Interval, IntervalMap, Wants, everything
from headrace.lowlevel.metric import at
from headrace.lowlevel.parcel import Parcel, out_of_time
from headrace.lowlevel.record import Batch
from headrace.lowlevel.redelivery import by_record_id
from headrace.lowlevel.topology import Keyed
from headrace.lowlevel.turned import Turned

_SHIP_AT = 100_000
"""Records that are gathered for a consumer before they are shipped."""
_DIRECT = (str, int)
"""Types of which equal keys always have equal encodings, so that the key itself can be looked up in a dictionary."""
_FEW = 1 << 16
"""Numbers below this are sorted in linear time."""

_T = TypeVar("_T")
PlacesOf = Callable[[Sequence[object]], list[tuple[bytes, bytes]]]
"""Encoded key and row of each key; keys that are bytes are encoded already."""


class Gather:
    """Records for one consumer of one stream, until they are shipped."""

    def __init__(
        self, place: Keyed, stream: str, send: Callable[[Gather], None], bury: Callable[[Keyed, Batch], None]
    ) -> None:
        self._place, self._bury = place, bury
        self.consumer, self.stream, self.extract = place.name, stream, place.inputs[stream]
        self._by_id = self.extract is by_record_id
        # Ids are the injector's business, whatever keys the topology has.
        self._encode_key = STANDARD_KEYS.encode if self._by_id else place.key_coder.encode
        self._send = send
        self._kind: type | None = None
        self._columns = ColumnGather(self.consumer, stream, self.extract, self._encode_key)
        self._begin()

    def _begin(self) -> None:
        self._keys: list[object] = []
        """The keys themselves if they are of a type in `_DIRECT`, else their encodings."""
        self._values: list[object] = []
        self._times = array("q")
        self._ids: list[bytes] | None = None

    def add(self, batch: Batch) -> None:
        """Take the records in; send them on when enough have come together."""
        if isinstance(batch, ColumnBatch) and self._columns.key_of(batch) is not None:
            if self._keys or self._columns.size >= _SHIP_AT or not self._columns.fits(batch):
                self._send(self)
            self._columns.add(batch)
            return
        if self._columns.size:
            self._send(self)
        self._add_values(batch)

    def _add_values(self, batch: Batch) -> None:
        """Extract keys and take the records in."""
        try:
            kind, keys = self._keys_of(batch)
        except StepError:
            if self._place.dead_letters is None:
                raise
            batch = self._without_poison(batch)
            if not len(batch):
                return
            kind, keys = self._keys_of(batch)
        # A key must not be there under two forms: its records would change their order.
        if self._keys and (len(self._keys) >= _SHIP_AT or kind is not self._kind or not self._alike(batch)):
            self._send(self)
        self._kind = kind
        try:
            self._times.extend(batch.timestamps)
        except OverflowError:
            encoded = list(map(self._encode_key, keys)) if kind in _DIRECT else cast("list[bytes]", keys)
            raise out_of_time(self.consumer, self.stream, encoded, batch.values, batch.timestamps) from None
        self._keys += keys
        self._values += batch.values
        if batch.ids is not None:
            self._ids = self._ids or []
            self._ids += batch.ids

    def _alike(self, batch: Batch) -> bool:
        """Whether a batch's records have ids if those before it have."""
        return (batch.ids is None) == (self._ids is None)

    def _keys_of(self, batch: Batch) -> tuple[type, list[object]]:
        """Their type and the keys, or `bytes` and their encodings where equal keys could differ in type (1, True)."""
        try:
            with at(self.consumer):
                keys = list(batch.ids if self._by_id and batch.ids else map(self.extract, batch.values))
            kinds = set(map(type, keys))
            if len(kinds) == 1 and (kind := kinds.pop()) in _DIRECT:
                return kind, keys
            return bytes, list(map(self._encode_key, keys))
        except Exception as error:
            raise failed_step(error, self.consumer, None, batch.values[self._failing(batch)]) from error

    def _without_poison(self, batch: Batch) -> Batch:
        """The records that have a key; the others are buried."""
        kept: list[int] = []
        letters: list[object] = []
        poison: list[int] = []
        for index, value in enumerate(batch.values):
            try:
                self._encode_key(self.extract(value))
            except Exception as error:
                letters.append(DeadLetter(self.consumer, None, value, own_traceback(error)))
                poison.append(batch.timestamps[index])
            else:
                kept.append(index)
        self._bury(self._place, Batch(letters, poison))
        ids = None if batch.ids is None else [batch.ids[index] for index in kept]
        return Batch([batch.values[index] for index in kept], [batch.timestamps[index] for index in kept], ids)

    def _failing(self, batch: Batch) -> int:
        """Which value of a batch has no key; only asked once the batch has failed."""
        for index, value in enumerate(batch.values):
            try:
                self._encode_key(self.extract(value))
            except Exception:
                return index
        return 0

    def parcels(self, intervals: IntervalMap, places_of: PlacesOf, wants: Wants = everything) -> dict[Interval, Parcel]:
        """Everything gathered, by interval, keys in the order in which they came; the gathering starts anew.

        Intervals that nobody `wants` are left out.
        """
        if self._columns.size:
            return dict(self._columns.parcels(intervals, places_of, wants))
        if not self._keys:
            return {}
        sent = _grouped(self._keys, intervals, places_of)
        times = np.frombuffer(self._times, np.int64)
        # Columns are made as long as the values lie in memory in their order.
        values = Turned.of(self._values, self._keys if self._kind in _DIRECT else ()) or self._values
        parcels = {}
        for cut in sent.cuts:
            interval = intervals.intervals[cut.position]
            if not wants(interval):
                continue
            order = sent.order[cut.records]
            parcels[interval] = Parcel(
                self.consumer,
                self.stream,
                sent.encoded[cut.keys],
                sent.rows[cut.keys],
                array("q", sent.sizes[cut.keys].tobytes()),
                array("q", times[order].tobytes()),
                values.taken(order) if isinstance(values, Turned) else _taken(values, order),
                None if self._ids is None else _taken(self._ids, order),
            )
        self._begin()
        return parcels


def _taken(column: list[_T], places: NDArray[np.intp]) -> list[_T]:
    return list(map(column.__getitem__, places.tolist()))


class _Cut(NamedTuple):
    """What of grouped records is one interval's."""

    position: int
    keys: slice
    records: slice


@dataclass(frozen=True, slots=True)
class _Grouped:
    """Where records go: sorted by interval, within that by key in order of appearance, within that as they came."""

    encoded: list[bytes]
    """Each key once."""
    rows: list[bytes]
    sizes: NDArray[np.int64]
    """Records of each key."""
    order: NDArray[np.intp]
    """Places of the records as they came."""
    cuts: list[_Cut]


def _grouped(keys: Sequence[object], intervals: IntervalMap, places_of: PlacesOf) -> _Grouped:
    """Sort by small numbers: each key gets one, by its interval and then in order of appearance.

    >>> places = {"a": (b"a", bytes(16)), "b": (b"b", bytes(16))}
    >>> grouped = _grouped(["b", "a", "b"], IntervalMap.evenly(1), lambda keys: [places[key] for key in keys])
    >>> grouped.encoded, grouped.sizes.tolist(), grouped.order.tolist()
    ([b'b', b'a'], [2, 1], [0, 2, 1])
    """
    places = dict.fromkeys(keys)
    encoded, rows = zip(*places_of(list(places)), strict=True)
    positions = intervals.positions_of(rows)
    by_position = positions.argsort(kind="stable")
    numbers = np.empty(len(places), np.uint16 if len(places) <= _FEW else np.int64)
    numbers[by_position] = np.arange(len(places))
    of_key = dict(zip(places, numbers.tolist(), strict=True))
    of_record = np.fromiter(map(of_key.__getitem__, keys), numbers.dtype, len(keys))
    sizes = np.bincount(of_record, minlength=len(places))
    ends = np.concatenate([[0], np.cumsum(sizes)])
    positions = positions[by_position]
    first = np.flatnonzero(np.diff(positions, prepend=-1)).tolist()
    cuts = [
        _Cut(int(positions[start]), slice(start, stop), slice(int(ends[start]), int(ends[stop])))
        for start, stop in pairwise([*first, len(positions)])
    ]
    picked = by_position.tolist()
    return _Grouped(
        [encoded[place] for place in picked],
        [rows[place] for place in picked],
        sizes,
        of_record.argsort(kind="stable"),
        cuts,
    )
