"""The context of per-key computations: the key's committed state with this bundle's changes, timers, productions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from heapq import heappop, heappush, merge
from typing import NamedTuple

from headrace.lowlevel.coders.coder import PickleCoder
from headrace.lowlevel.coders.decoded_values import DecodedValues
from headrace.lowlevel.errors import StepError
from headrace.lowlevel.metric import ENGINE, MetricValues, TypedMetricName, collector, report
from headrace.lowlevel.processing.state_cache import SMALLEST, KeyStates, Prefetch, due_at
from headrace.lowlevel.records.late_data import Dropped, drop_late, is_late
from headrace.lowlevel.records.record import Batch, Emit, Record, new_tuple
from headrace.lowlevel.state.state_store import Delta, StateStore
from headrace.lowlevel.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from headrace.lowlevel.topology.nodes import Keyed
from headrace.lowlevel.topology.timer import HOLD, TimeDomain, Timer, hold_tag

LONGEST_NAME = 400
"""Largest length of a cell's name, in bytes."""
_FLUSH_AT = 10_000
"""Number of productions to one stream from which they are sent before the bundle ends."""
_UNREAD = object()
_RECORDS_OUT = TypedMetricName("counter", ENGINE, "records_out")
_DOMAINS = tuple(TimeDomain)
_LOW_WATERMARK = TimeDomain.LOW_WATERMARK


class _State:
    """Loads `KeyContext.state` at the first read.

    It is `functools.cached_property` without the lock, whose cost shows in small computations (`benchmarks/LOG.md`).
    """

    def __get__(self, context: KeyContext, owner: type[KeyContext]) -> object:
        context.state = state = context._load()
        return state


Due = tuple[int, int, str]
"""A due timer: its domain, negated so that wall time sorts first; its timestamp; its tag."""


class Savepoint(NamedTuple):
    """What `KeyContext.restore` resets: the key's changes, and productions, counters and metrics of the bundle."""

    cells: dict[bytes, bytes | None]
    marks: dict[tuple[bytes, int, str], int | None]
    due: list[Due]
    is_read: bool
    """Whether user code has read or set the state."""
    state: bytes | None
    """The encoded state; None if it was not read, or is None."""
    produced: dict[str, int]
    """Stream -> number of productions that are not sent yet."""
    counters: dict[str, int]
    metrics: MetricValues


class KeyContext:
    """The `Context` of a bundle, moved from key to key.

    The worker prefetches the stored state of the next keys with `prefetch.read`, then calls `begin` and `end` for each.
    """

    # `__dict__` holds only `state`, which user code reads and sets for every record: that takes 40 ns, and 90 ns with a
    # property over a slot.
    __slots__ = (
        "__dict__",
        "_after",
        "_all_cells",
        "_before",
        "_cells",
        "_coder",
        "_decode",
        "_emit",
        "_encoded",
        "_instance_dict",
        "_is_stored",
        "_keeps_values",
        "_key_hash",
        "_loaded",
        "_marks",
        "_may_hold",
        "_node",
        "_produced",
        "_states",
        "_store",
        "counters",
        "delta",
        "due",
        "has_other_marks",
        "key",
        "now",
        "prefetch",
        "values",
        "wall_time",
        "watermark",
    )

    def __init__(
        self,
        node: Keyed,
        store: StateStore,
        emit: Emit,
        states: KeyStates | None = None,
        values: DecodedValues | None = None,
    ) -> None:
        self._instance_dict = self.__dict__
        """Has `state` once user code has read or set it."""
        self.delta = Delta()
        self.counters: dict[str, int] = {}
        self.has_other_marks = False
        """Whether the bundle has set wall-time timers or holds."""
        self.now = MIN_TIMESTAMP
        """Timestamp of the record or timer being processed: the default for productions."""
        self._node = node
        self._coder = node.computation.state_coder
        self._store = store
        self._emit = emit
        self._states = states
        """Decoded state of earlier bundles; None if the computation takes no part in the cache."""
        self.values = DecodedValues(0) if values is None else values
        """See `Context.values`."""
        # Other coders are the user's code, whose calls are not left out.
        is_pickled = type(self._coder) is PickleCoder
        self._decode = self.values.decode if is_pickled else self._coder.decode
        self._keeps_values = is_pickled and states is None
        self._produced: dict[str, tuple[list[object], list[int]]] = {name: ([], []) for name in sorted(node.outputs)}
        self.prefetch = Prefetch(store)

    def open(self, watermark_before: int, watermark: int, wall_time: int) -> None:
        """Set the bundle's clocks."""
        self._before, self._after = watermark_before, watermark
        self.watermark = watermark_before
        self.wall_time = wall_time
        # Most computations have no holds: one read at the start of the bundle saves two for each timer.
        self._may_hold = next(self._store.until(HOLD, MAX_TIMESTAMP), None) is not None

    def begin(self, key_hash: bytes, key: object, encoded: bytes, due: list[Due]) -> None:
        """Turn to a key that was prefetched. `due`, in order, belongs to the context from now on."""
        self.key = key
        self._key_hash, self._encoded = key_hash, encoded
        self._cells: dict[bytes, bytes | None] = {}
        self._marks: dict[tuple[bytes, int, str], int | None] = {}
        prefetch = self.prefetch
        self._is_stored = key_hash in prefetch.keys or (prefetch.states is not None and key_hash in prefetch.states)
        self._all_cells = prefetch.cells.get(key_hash)
        """All committed cells of the key, if they were prefetched; else None."""
        self._loaded: object = _UNREAD
        self._instance_dict.pop("state", None)
        self.watermark = self._before
        self.due = due
        """Timers to fire in this bundle, as a heap."""

    # State

    def _load(self) -> object:
        data = self._loaded = self._stored_state()
        if data is None:
            return self._node.computation.initial_state()
        if self._states is None or len(data) < SMALLEST:
            return self._decode(data)
        return self._states.take(self._key_hash, data)

    state: object = _State()
    """See `Context.state`: loaded at the first read, and plain instance data from then on."""

    def _stored_state(self) -> bytes | None:
        self.prefetch.state_reads += 1
        if not self._is_stored:
            return None
        states = self.prefetch.states
        return self._store.get(self._key_hash, b"") if states is None else states.get(self._key_hash)

    def read(self, cell: bytes) -> bytes | None:
        """See `Context.read`."""
        if cell in self._cells:
            return self._cells[cell]
        if not self._is_stored:
            return None
        self.prefetch.cell_reads += 1
        return self._store.get(self._key_hash, cell) if self._all_cells is None else self._all_cells.get(cell)

    def write(self, cell: bytes, data: bytes | None) -> None:
        """See `Context.write`."""
        if not 0 < len(cell) <= LONGEST_NAME:
            raise ValueError(f"cell name {cell!r:.80} has {len(cell)} bytes; use 1 to {LONGEST_NAME}")
        self._cells[cell] = data

    def scan(self, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """See `Context.scan`."""
        stored = self._scanned(prefix) if self._is_stored else iter(())
        changed = sorted([change for change in self._cells.items() if change[0].startswith(prefix)])
        return overlaid(stored, changed) if changed else (entry for entry in stored if entry[0])

    def erase(self, prefix: bytes) -> None:
        """See `Context.erase`."""
        cells, names = self._cells, self._all_cells
        if self._is_stored:
            if names is None:
                names = dict(self._store.scan(self._key_hash, prefix))
            self.prefetch.cell_reads += 1
            cells.update([(name, None) for name in names if name and name.startswith(prefix)])
        for name in [name for name, data in cells.items() if data is not None and name.startswith(prefix)]:
            if name:
                cells[name] = None

    def _scanned(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        self.prefetch.cell_reads += 1
        if self._all_cells is None:
            return self._store.scan(self._key_hash, prefix)
        return iter(sorted([entry for entry in self._all_cells.items() if entry[0].startswith(prefix)]))

    # Timers and holds

    def is_late(self, record: Record) -> bool:
        """See `Context.is_late`."""
        return is_late(record.timestamp, self.watermark)

    def set_timer(
        self, tag: str, timestamp: int, domain: TimeDomain = TimeDomain.LOW_WATERMARK, hold: int | None = None
    ) -> None:
        """See `Context.set_timer`."""
        if domain is _LOW_WATERMARK:
            number, limit = 0, self._after
        else:
            number, limit = int(domain), self.wall_time
            self.has_other_marks = True
        mark = (self._key_hash, number, tag)
        if hold is not None:
            self.hold(hold, hold_tag(domain, tag))
        elif self._may_hold:
            self._release_of(domain, tag)
        elif self._marks.get(mark) == timestamp:
            return
        if timestamp > MAX_TIMESTAMP:
            timestamp = MAX_TIMESTAMP
        self._marks[mark] = timestamp
        if timestamp <= limit:
            heappush(self.due, (-number, timestamp, tag))

    def delete_timer(self, tag: str, domain: TimeDomain = TimeDomain.LOW_WATERMARK) -> None:
        """See `Context.delete_timer`."""
        self._marks[self._key_hash, int(domain), tag] = None
        if self._may_hold:
            self._release_of(domain, tag)

    def fire_early(self, tag: str, domain: TimeDomain = TimeDomain.LOW_WATERMARK) -> None:
        """See `Context.fire_early`."""
        if (timestamp := self.mark(domain, tag)) is not None:
            heappush(self.due, (-int(domain), timestamp, tag))

    def timer(self, tag: str, domain: TimeDomain = TimeDomain.LOW_WATERMARK) -> int | None:
        """See `Context.timer`."""
        return self.mark(domain, tag)

    def timers(self, domain: TimeDomain = TimeDomain.LOW_WATERMARK) -> Iterator[tuple[str, int]]:
        """See `Context.timers`."""
        stored = self._store.marks(self._key_hash) if self._is_stored else ()
        timers: dict[str, int | None] = {tag: timestamp for of, tag, timestamp in stored if of == domain}
        timers.update((tag, timestamp) for (_, of, tag), timestamp in self._marks.items() if of == domain)
        return ((tag, timestamp) for tag, timestamp in timers.items() if timestamp is not None)

    def mark(self, domain: int, tag: str) -> int | None:
        """Timestamp of a timer or hold of the key, this bundle's changes included; None if it is not set."""
        if (self._key_hash, domain, tag) in self._marks:
            return self._marks[self._key_hash, domain, tag]
        return self._store.mark(self._key_hash, domain, tag) if self._is_stored else None

    def hold(self, timestamp: int, tag: str = "") -> None:
        """See `Context.hold`."""
        self._may_hold = self.has_other_marks = True
        self._marks[self._key_hash, HOLD, tag] = timestamp

    def release(self, tag: str = "") -> None:
        """See `Context.release`."""
        self._marks[self._key_hash, HOLD, tag] = None

    def _release_of(self, domain: TimeDomain, tag: str) -> int | None:
        """Release the hold of a timer. Returns the timestamp of the hold; None if the timer has none."""
        hold = self.mark(HOLD, hold_tag(domain, tag))
        if hold is not None:
            self.release(hold_tag(domain, tag))
        return hold

    def advance(self) -> None:
        """After a key's last record: move to the new watermark, unless wall-time timers are due, which fire before."""
        if not self.due or not self.due[0][0]:  # The first item of a watermark timer is 0.
            self.watermark = self._after

    def pop_due(self) -> Timer | None:
        """Remove and return the next timer to fire; None if none is due."""
        due, marks, key_hash = self.due, self._marks, self._key_hash
        while due:
            negative, timestamp, tag = heappop(due)
            mark = (key_hash, -negative, tag)
            # A timer that this bundle did not change is as committed.
            if marks.get(mark, timestamp) != timestamp:
                continue
            marks[mark] = None
            domain = _LOW_WATERMARK
            if negative:
                domain = _DOMAINS[-negative]
            else:
                self.watermark = self._after
            hold = self._release_of(domain, tag) if self._may_hold else None
            return new_tuple(Timer, (tag, timestamp, domain, hold))
        self.watermark = self._after
        return None

    # Productions and counters

    def produce(self, stream: str, value: object, timestamp: int | None = None) -> None:
        """See `Context.produce`."""
        try:
            values, timestamps = self._produced[stream]
        except KeyError:
            raise self._undeclared(stream) from None
        values.append(value)
        timestamps.append(self.now if timestamp is None else timestamp)

    def produce_batch(self, stream: str, batch: Batch) -> None:
        """See `Context.produce_batch`."""
        try:
            values, timestamps = self._produced[stream]
        except KeyError:
            raise self._undeclared(stream) from None
        values.extend(batch.values)
        timestamps.extend(batch.timestamps)

    def _undeclared(self, stream: str) -> ValueError:
        declared = ", ".join(sorted(self._produced)) or "none"
        return ValueError(
            f"computation {self._node.name!r} produces to stream {stream!r}, which it does not declare "
            f"(outputs: {declared}); add the stream to its outputs in the topology"
        )

    def count(self, counter: str, n: int = 1) -> None:
        """See `Context.count`."""
        self.counters[counter] = self.counters.get(counter, 0) + n

    def drop_late(self, n: int = 1, window: object | None = None) -> None:
        """See `Context.drop_late`."""
        drop_late(self.counters, self._node.name, self.watermark, n, lambda: [Dropped(self.key, window, n)])

    # Savepoints

    def savepoint(self) -> Savepoint:
        """The key's changes so far, for `restore` if a later record turns out to be poison."""
        state = self._instance_dict.get("state", _UNREAD)
        metrics = collector()
        return Savepoint(
            dict(self._cells),
            dict(self._marks),
            list(self.due),
            state is not _UNREAD,
            None if state is _UNREAD or state is None else self._encode(state),
            {stream: len(values) for stream, (values, _) in self._produced.items()},
            dict(self.counters),
            {} if metrics is None else metrics.saved(),
        )

    def restore(self, saved: Savepoint) -> None:
        """Undo all changes since the savepoint; must be called before `end`."""
        self._cells, self._marks, self.due = dict(saved.cells), dict(saved.marks), list(saved.due)
        self._instance_dict.pop("state", None)
        if saved.is_read:
            self.state = None if saved.state is None else self._coder.decode(saved.state)
        for stream, count in saved.produced.items():
            values, timestamps = self._produced[stream]
            del values[count:], timestamps[count:]
        self.counters.clear()
        self.counters.update(saved.counters)
        if (metrics := collector()) is not None:
            metrics.restore(saved.metrics)

    # End of a key and of the bundle

    def end(self) -> None:
        """End the key: add its changes to the bundle's delta."""
        state = self._instance_dict.get("state", _UNREAD)
        if state is not _UNREAD:
            self._end_state(state)
        if self._cells or self._marks:
            self.delta.take(self._key_hash, self._encoded, self._cells, self._marks, self._is_stored, self._all_cells)
        for values, _ in self._produced.values():
            if len(values) >= _FLUSH_AT:
                self.flush()
                return

    def _end_state(self, state: object) -> None:
        if self._loaded is _UNREAD:
            self._loaded = self._stored_state()
        before = self._loaded
        if self._keeps_values and type(before) is bytes and self.values.holds(before, state):
            return
        data = None if state is None else self._encode(state)
        if data != before:
            self._cells[b""] = data
        elif data is not None and self._keeps_values:
            self.values.left_unchanged(data, state)
        if self._states is not None and data is not None and len(data) >= SMALLEST:
            latest = self._states.due_of(self._key_hash)
            stored: Iterable[tuple[int, str, int]] = ()
            if latest is None or latest <= self._after:
                latest, stored = MAX_TIMESTAMP, self._store.marks(self._key_hash) if self._is_stored else ()
            due = due_at(latest, stored, self._key_hash, self._marks, self._after - self.wall_time)
            self._states.keep(self._key_hash, data, state, due)

    def _encode(self, state: object) -> bytes:
        try:
            return self._coder.encode(state)
        except Exception as error:
            raise StepError(
                self._node.name,
                self.key,
                state,
                f"this is its state, which cannot be stored ({type(error).__name__}: {error}); "
                "keep what it is made of instead, or give the computation a state_coder",
            ) from error

    def flush(self) -> None:
        """Send all productions so far. Raises `StepError` for a value that is not of its stream's format."""
        for stream, (values, timestamps) in self._produced.items():
            if values:
                check_format(self._node, stream, values)
                self._produced[stream] = ([], [])
                report(_RECORDS_OUT, len(values))
                self._emit(stream, Batch(values, timestamps))


def check_format(node: Keyed, stream: str, values: Sequence[object]) -> None:
    """Raise `StepError` for the first value that is not of the format of the computation's output stream."""
    record_type = node.formats.get(stream)
    if record_type is None or set(map(type, values)) == {record_type}:
        return
    for value in values:
        if not isinstance(value, record_type):
            raise StepError(
                node.name,
                None,
                value,
                f"stream {stream!r} takes records of type {record_type.__name__}, not {type(value).__name__}; "
                "produce that type or change the format in the topology",
            )


def overlaid(
    stored: Iterator[tuple[bytes, bytes]], changed: list[tuple[bytes, bytes | None]]
) -> Iterator[tuple[bytes, bytes]]:
    """Merge stored and changed cells of a key, without the cell `b""`, in order of names; reads lazily.

    Args:
        stored: Name and contents of stored cells, in order of names.
        changed: Name and new contents, None for a removed cell, in order of names.

    >>> list(overlaid(iter([(b"", b"state"), (b"a", b"1"), (b"c", b"3")]), [(b"a", None), (b"b", b"2")]))
    [(b'b', b'2'), (b'c', b'3')]
    """
    names = {cell for cell, _ in changed}
    unchanged = ((cell, data) for cell, data in stored if cell and cell not in names)
    yield from ((cell, data) for cell, data in merge(unchanged, changed) if data is not None)
