"""Productions on their way: from a stream to its subscribers, to the interval of each key (paper §4.2, §4.3, §6.1.2).

A `Router` stands behind the `emit` of one task. Inline computations run at once; for keyed ones the key is extracted,
and records are gathered by interval and key, so that the consumer finds them grouped. What leaves is few large
`Parcel`s; the engine ships them without looking inside.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from typing import cast

from headrace.lowlevel.coder import encode_key, row_of
from headrace.lowlevel.deadletter import DeadLetter
from headrace.lowlevel.errors import StepError
from headrace.lowlevel.failure import failed_step, own_traceback
from headrace.lowlevel.intervals import Interval, IntervalMap
from headrace.lowlevel.metric import at
from headrace.lowlevel.parcel import Parcel
from headrace.lowlevel.record import Batch
from headrace.lowlevel.time import MIN_TIMESTAMP
from headrace.lowlevel.topology import Inline, Keyed, Topology

_SHIP_AT = 100_000
"""Records that are gathered for a consumer before they are shipped."""
_REMEMBERED = 100_000
"""Keys whose encodings are remembered from task to task: some 30 MB."""
_LONGEST_REMEMBERED = 256
"""Bytes of such an encoding; longer ones are made again."""
_DIRECT = (str, int)
"""Types of which equal keys always have equal encodings, so that the key itself can be looked up in a dictionary."""


class _Gather:
    """Records for one consumer of one stream, by key, until they are shipped."""

    def __init__(
        self, place: Keyed, stream: str, send: Callable[[_Gather], None], bury: Callable[[Keyed, Batch], None]
    ) -> None:
        self._place, self._bury = place, bury
        self.consumer, self.stream, self.extract = place.name, stream, place.inputs[stream]
        self._encode_key = place.key_coder.encode
        self.size = 0
        self._send = send
        self._kind: type | None = None
        self._groups: dict[object, tuple[list[object], list[int], list[bytes]]] = {}
        self._identified = False

    def add(self, batch: Batch) -> None:
        """Extract keys and put every record with its key's others; send when enough has come together."""
        try:
            kind, keys = self._keys(batch)
        except StepError:
            if self._place.dead_letters is None:
                raise
            batch = self._without_poison(batch)
            if not len(batch):
                return
            kind, keys = self._keys(batch)
        if self.size and (self.size >= _SHIP_AT or kind is not self._kind):
            # A key must not be in two groups under two forms: its records would change their order.
            self._send(self)
        self._kind = kind
        groups = self._groups
        self.size += len(batch)
        if batch.ids is not None:
            self._identified = True
            for key, value, timestamp, record_id in zip(keys, batch.values, batch.timestamps, batch.ids, strict=True):
                group = groups.setdefault(key, ([], [], []))
                group[0].append(value)
                group[1].append(timestamp)
                group[2].append(record_id)
            return
        for key, value, timestamp in zip(keys, batch.values, batch.timestamps, strict=True):
            found = groups.get(key)
            if found is None:
                groups[key] = ([value], [timestamp], [])
            else:
                found[0].append(value)
                found[1].append(timestamp)

    def _keys(self, batch: Batch) -> tuple[type, Sequence[object]]:
        """Their type and the keys, or their encodings where equal keys could differ in type (1, 1.0 and True)."""
        try:
            with at(self.consumer):
                keys = list(map(self.extract, batch.values))
            kinds = set(map(type, keys))
            if len(kinds) == 1 and (kind := kinds.pop()) in _DIRECT:
                return kind, keys
            return _Encoded, list(map(_Encoded, map(self._encode_key, keys)))
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

    def parcels(self, intervals: IntervalMap, place: Callable[[object], tuple[bytes, bytes]]) -> dict[Interval, Parcel]:
        """Everything gathered, by interval; the gathering starts anew."""
        parcels: dict[int, Parcel] = {}
        position_of = intervals.position_of
        for key, (values, timestamps, ids) in self._groups.items():
            encoded, row = place(key)
            position = position_of(row)
            if (parcel := parcels.get(position)) is None:
                parcel = parcels[position] = Parcel(self.consumer, self.stream, ids=[] if self._identified else None)
            parcel.add(encoded, row, values, timestamps, ids)
        self._groups, self.size, self._identified = {}, 0, False
        return {intervals.intervals[position]: parcel for position, parcel in parcels.items()}


class _Encoded(bytes):
    """Marks bytes that are an encoded key already."""

    __slots__ = ()


class Router:
    """Takes batches from computations and injectors of one task to where they go.

    `intervals` are those of each consumer. `ship(interval, parcel)` is called with what is ready; `close` sends the
    rest. `order` is `topology.inline_order()`, for callers that make many routers, and `places` what those remember of
    keys. `watermarks` are the input low
    watermarks that computations had before: by them elements are late where a part of a step runs before the shuffle.
    """

    def __init__(
        self,
        topology: Topology,
        intervals: Mapping[str, IntervalMap],
        ship: Callable[[Interval, Parcel], None],
        order: Sequence[str] | None = None,
        places: dict[object, tuple[bytes, bytes]] | None = None,
        watermarks: Mapping[str, int] | None = None,
    ) -> None:
        self._intervals = intervals
        self._order = topology.inline_order() if order is None else order
        self._ship = ship
        self._places = {} if places is None else places
        if len(self._places) >= _REMEMBERED:
            self._places.clear()
        self._gathers: dict[str, list[_Gather]] = {}
        self._inlines: dict[str, list[Inline]] = {}
        self._running: dict[str, Inline] = {}
        self._sinks: dict[str, list[str]] = {}
        self.staged: dict[str, Batch] = {}
        """Sink -> its rows so far."""
        self.produced: dict[str, int] = {}
        """Stream -> records so far."""
        self.buried: dict[str, int] = {}
        """Computation -> records that its key extractors failed for."""
        self.late: dict[str, int] = {}
        """Computation -> elements that were late and came to a part of its step that runs before the shuffle."""
        self._watermarks = watermarks or {}
        self._subscribe(topology)

    def _subscribe(self, topology: Topology) -> None:
        for keyed in topology.keyed.values():
            for stream in keyed.inputs:
                self._gathers.setdefault(stream, []).append(_Gather(keyed, stream, self._send, self._bury))
        for inline in topology.inlines.values():
            for stream in sorted(inline.inputs):
                self._inlines.setdefault(stream, []).append(inline)
        for name, (stream, _) in topology.sinks.items():
            self._sinks.setdefault(stream, []).append(name)

    def emit(self, stream: str, batch: Batch) -> None:
        """Send a batch to every subscriber of its stream."""
        if not len(batch):
            return
        self.produced[stream] = self.produced.get(stream, 0) + len(batch)
        for inline in self._inlines.get(stream, ()):
            self._run_inline(inline, stream, batch)
        for gather in self._gathers.get(stream, ()):
            gather.add(batch)
        for sink in self._sinks.get(stream, ()):
            rows = self.staged.setdefault(sink, Batch([], []))
            cast("list[object]", rows.values).extend(batch.values)
            cast("list[int]", rows.timestamps).extend(batch.timestamps)

    def _run_inline(self, inline: Inline, stream: str, batch: Batch) -> None:
        if inline.name not in self._running:
            self._running[inline.name] = inline
            self._call(inline, inline.computation.start_bundle)
        late = batch.count_before(self._watermarks.get(inline.step, MIN_TIMESTAMP))
        if late:
            self.late[inline.step] = self.late.get(inline.step, 0) + late
        if batch.ids is None:
            self._call(inline, inline.computation.process_batch, stream, batch, self.emit)
            return
        for value, timestamp, record_id in zip(batch.values, batch.timestamps, batch.ids, strict=True):
            one = Batch([value], [timestamp])
            self._call(inline, inline.computation.process_batch, stream, one, _derive_ids(self.emit, record_id))

    @staticmethod
    def _call(inline: Inline, hook: Callable[..., None], *arguments: object) -> None:
        try:
            with at(inline.step):
                hook(*arguments)
        except StepError:
            raise
        except Exception as error:
            raise failed_step(error, inline.step, None, None) from error

    def _bury(self, place: Keyed, letters: Batch) -> None:
        """Send records on that a key extractor failed for."""
        assert place.dead_letters is not None
        self.buried[place.name] = self.buried.get(place.name, 0) + len(letters)
        self.emit(place.dead_letters, letters)

    def _send(self, gather: _Gather) -> None:
        for interval, parcel in gather.parcels(self._intervals[gather.consumer], self._place).items():
            self._ship(interval, parcel)

    def _place(self, key: object) -> tuple[bytes, bytes]:
        """Encoded key and row; most keys come again, so they are kept."""
        if (place := self._places.get(key)) is None:
            encoded = bytes(key) if isinstance(key, _Encoded) else encode_key(key)
            place = (encoded, row_of(encoded))
            if len(self._places) < _REMEMBERED and len(encoded) <= _LONGEST_REMEMBERED:
                self._places[key] = place
        return place

    def close(self) -> None:
        """End the bundle: inline computations finish in order of the flow, and everything is shipped."""
        for name in self._order:
            if (inline := self._running.pop(name, None)) is not None:
                self._call(inline, inline.computation.finish_bundle, self.emit)
        for gathers in self._gathers.values():
            for gather in gathers:
                self._send(gather)


def _derive_ids(emit: Callable[[str, Batch], None], record_id: bytes) -> Callable[[str, Batch], None]:
    """An `emit` that gives each output an id which depends on its input's id, stream and place only."""
    sent: dict[str, int] = {}

    def emit_with_ids(stream: str, batch: Batch) -> None:
        first = sent.get(stream, 0)
        sent[stream] = first + len(batch)
        ids = [
            blake2b(b"%b|%b|%d" % (record_id, stream.encode(), first + i), digest_size=16).digest()
            for i in range(len(batch))
        ]
        emit(stream, Batch(batch.values, batch.timestamps, ids))

    return emit_with_ids
