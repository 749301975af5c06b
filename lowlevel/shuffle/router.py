"""The router: takes productions from a stream to its subscribers, by key interval (paper §4.2, §4.3, §6.1.2).

A `Router` implements `emit` for one task. Inline computations run at once; for keyed ones it extracts keys and groups
records by interval and key, so that the consumer gets them grouped. It ships few large `Block`s, which the engine
passes on as they are. The encodings and hashes of recent keys are kept by the process from task to task.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b

from headrace.lowlevel.errors import StepError
from headrace.lowlevel.intervals.interval_map import Interval, IntervalMap
from headrace.lowlevel.metric import at
from headrace.lowlevel.records.block import Block
from headrace.lowlevel.records.record import Batch
from headrace.lowlevel.shuffle.partition_buffer import KeyHashCache, PartitionBuffer
from headrace.lowlevel.sinks.staged_rows import Collected
from headrace.lowlevel.time import MIN_TIMESTAMP
from headrace.lowlevel.topology.nodes import Inline, Keyed
from headrace.lowlevel.topology.topology import Topology
from headrace.lowlevel.user_errors import failed_step


class Router:
    """Takes batches from the computations and injectors of one task to their consumers.

    Args:
        topology: Streams and their subscribers.
        intervals: Computation -> its key intervals.
        ship: Called with an interval and each complete block; `close` ships the remaining ones.
        order: `topology.inline_order()`, for callers that make many routers.
        key_hashes: A cache that the process keeps from task to task; None for one of the router's own.
        watermarks: Computation -> its input low watermark before this epoch, microseconds UTC. A part of its step that
            runs before the shuffle counts elements behind that as late.
    """

    def __init__(
        self,
        topology: Topology,
        intervals: Mapping[str, IntervalMap],
        ship: Callable[[Interval, Block], None],
        order: Sequence[str] | None = None,
        key_hashes: KeyHashCache | None = None,
        watermarks: Mapping[str, int] | None = None,
    ) -> None:
        self._intervals = intervals
        self._order = topology.inline_order() if order is None else order
        self._ship = ship
        self._key_hashes = KeyHashCache() if key_hashes is None else key_hashes
        self._buffers: dict[str, list[PartitionBuffer]] = {}
        self._inlines: dict[str, list[Inline]] = {}
        self._running: dict[str, Inline] = {}
        self._sinks: dict[str, list[str]] = {}
        self.staged: dict[str, Collected] = {}
        """Sink -> its rows so far."""
        self.produced: dict[str, int] = {}
        """Stream -> number of records so far."""
        self.buried: dict[str, int] = {}
        """Computation -> number of records for which a key extractor failed."""
        self.late: dict[str, int] = {}
        """Computation -> number of late elements that a part of its step before the shuffle has counted."""
        self._watermarks = watermarks or {}
        self._subscribe(topology)

    def _subscribe(self, topology: Topology) -> None:
        for keyed in topology.keyed.values():
            for stream in keyed.inputs:
                self._buffers.setdefault(stream, []).append(PartitionBuffer(keyed, stream, self._send, self._bury))
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
        for buffer in self._buffers.get(stream, ()):
            buffer.add(batch)
        for sink in self._sinks.get(stream, ()):
            self.staged.setdefault(sink, Collected()).add(batch)

    def _run_inline(self, inline: Inline, stream: str, batch: Batch) -> None:
        if inline.name not in self._running:
            self._running[inline.name] = inline
            self._call(inline, inline.computation.begin_bundle, self._watermarks.get(inline.step, MIN_TIMESTAMP))
        if inline.computation.counts_late:
            late = batch.count_before(self._watermarks.get(inline.step, MIN_TIMESTAMP))
            if late:
                self.late[inline.step] = self.late.get(inline.step, 0) + late
        if batch.ids is None:
            self._call(inline, inline.computation.process_batch, stream, batch, self.emit)
            return
        for value, timestamp, record_id in zip(batch.values, batch.timestamps, batch.ids, strict=True):
            single = Batch([value], [timestamp])
            self._call(inline, inline.computation.process_batch, stream, single, _derive_ids(self.emit, record_id))

    @staticmethod
    def _call(inline: Inline, hook: Callable[..., None], *arguments: object) -> None:
        try:
            with at(inline.step):
                hook(*arguments)
        except StepError:
            raise
        except Exception as error:
            raise failed_step(error, inline.step, None, None) from error

    def _bury(self, node: Keyed, letters: Batch) -> None:
        """Emit and count the dead letters of records for which a key extractor failed."""
        assert node.dead_letters is not None
        self.buried[node.name] = self.buried.get(node.name, 0) + len(letters)
        self.emit(node.dead_letters, letters)

    def _send(self, buffer: PartitionBuffer) -> None:
        for interval, block in buffer.take_blocks(self._intervals[buffer.consumer], self._key_hashes).items():
            self._ship(interval, block)

    def close(self) -> None:
        """End the bundle: finish inline computations, producers before their consumers, and ship all records."""
        for name in self._order:
            if (inline := self._running.pop(name, None)) is not None:
                self._call(inline, inline.computation.finish_bundle, self.emit)
        for buffers in self._buffers.values():
            for buffer in buffers:
                self._send(buffer)
        # Buffers refer to the router: without them it is free, and its rows with it, as soon as its task is.
        self._buffers.clear()


def _derive_ids(emit: Callable[[str, Batch], None], record_id: bytes) -> Callable[[str, Batch], None]:
    """An `emit` that gives each output an id which depends only on its input's id, its stream and its index there."""
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
