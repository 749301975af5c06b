"""Productions on their way: from a stream to its subscribers, to the interval of each key (paper §4.2, §4.3, §6.1.2).

A `Router` stands behind the `emit` of one task. Inline computations run at once; for keyed ones the key is extracted,
and records are gathered by interval and key, so that the consumer finds them grouped. What leaves is few large
`Parcel`s; the engine ships them without looking inside.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b

from headrace.lowlevel.collected import Collected
from headrace.lowlevel.errors import StepError
from headrace.lowlevel.failure import failed_step
from headrace.lowlevel.gather import Gather
from headrace.lowlevel.intervals import Interval, IntervalMap, Wants, everything
from headrace.lowlevel.metric import at
from headrace.lowlevel.parcel import Parcel
from headrace.lowlevel.places import Places
from headrace.lowlevel.record import Batch
from headrace.lowlevel.time import MIN_TIMESTAMP
from headrace.lowlevel.topology import Inline, Keyed, Topology


class Router:
    """Takes batches from computations and injectors of one task to where they go.

    `intervals` are those of each consumer. `ship(interval, parcel)` is called with what is ready; `close` sends the
    rest. `order` is `topology.inline_order()`, for callers that make many routers, and `places` what those remember of
    keys. `watermarks` are the input low
    watermarks that computations had before: by them elements are late where a part of a step runs before the shuffle.
    Only what goes to intervals that the task `wants` to send to is shipped.
    """

    def __init__(
        self,
        topology: Topology,
        intervals: Mapping[str, IntervalMap],
        ship: Callable[[Interval, Parcel], None],
        order: Sequence[str] | None = None,
        places: Places | None = None,
        watermarks: Mapping[str, int] | None = None,
        wants: Wants = everything,
    ) -> None:
        self._intervals = intervals
        self._order = topology.inline_order() if order is None else order
        self._ship = ship
        self._wants = wants
        self._places_of = (Places() if places is None else places).of
        self._gathers: dict[str, list[Gather]] = {}
        self._inlines: dict[str, list[Inline]] = {}
        self._running: dict[str, Inline] = {}
        self._sinks: dict[str, list[str]] = {}
        self.staged: dict[str, Collected] = {}
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
                self._gathers.setdefault(stream, []).append(Gather(keyed, stream, self._send, self._bury))
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
            self.staged.setdefault(sink, Collected()).add(batch)

    def _run_inline(self, inline: Inline, stream: str, batch: Batch) -> None:
        if inline.name not in self._running:
            self._running[inline.name] = inline
            self._call(inline, inline.computation.begin_bundle, self._watermarks.get(inline.step, MIN_TIMESTAMP))
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

    def _send(self, gather: Gather) -> None:
        for interval, parcel in gather.parcels(self._intervals[gather.consumer], self._places_of, self._wants).items():
            self._ship(interval, parcel)

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
