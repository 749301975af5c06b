"""What a computation sees of its key while a bundle runs: committed state below, this bundle's changes on top."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from headrace.lowlevel.errors import StepError
from headrace.lowlevel.format import check_format
from headrace.lowlevel.lookahead import LookAhead
from headrace.lowlevel.metric import ENGINE, Metric, collector, report
from headrace.lowlevel.overlay import overlaid
from headrace.lowlevel.record import Batch, Emit, Record, new_tuple
from headrace.lowlevel.savepoint import Due, Savepoint
from headrace.lowlevel.softstate import SMALLEST, KeyStates, due_at
from headrace.lowlevel.state import Copy, Delta
from headrace.lowlevel.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from headrace.lowlevel.timer import HOLD, TimeDomain, Timer
from headrace.lowlevel.topology import Keyed

LONGEST_NAME = 400
"""Bytes that the name of a cell may have."""
IDS_ASKED = "ids_asked"
"""Counter of ids that the Bloom filter could not call new, so that the store was asked."""
_FLUSH_AT = 10_000
_UNREAD = object()
_RECORDS_OUT = Metric("counter", ENGINE, "records_out")
_DOMAINS = tuple(TimeDomain)
_LOW_WATERMARK = TimeDomain.LOW_WATERMARK


class _State:
    """What stands for `KeyContext.state` until it is there: the first look loads it, the next ones cost nothing."""

    def __get__(self, context: KeyContext, owner: type[KeyContext]) -> object:
        context.state = state = context._load()
        return state


class KeyContext:
    """The `Context` of a bundle, moved from key to key.

    `ahead` is told which keys come next, so that what is stored of them can be read in one go.
    """

    if TYPE_CHECKING:
        state: object
        """See `Context.state`."""
    else:
        # An object without `__set__` gives way to an attribute of the same name.
        state = _State()

    # Nothing but `state` lies in the dictionary, so that what each record looks at is found at once.
    __slots__ = (
        "__dict__",
        "_after",
        "_before",
        "_cells",
        "_coder",
        "_copy",
        "_emit",
        "_encoded",
        "_few",
        "_held",
        "_known",
        "_loaded",
        "_marks",
        "_may_hold",
        "_place",
        "_produced",
        "_row",
        "_states",
        "ahead",
        "counters",
        "delta",
        "due",
        "key",
        "now",
        "wall_time",
        "watermark",
    )

    def __init__(self, place: Keyed, copy: Copy, emit: Emit, states: KeyStates | None = None) -> None:
        self._held = self.__dict__
        """`state`, once it was looked at."""
        self.delta = Delta()
        self.counters: dict[str, int] = {}
        self.now = MIN_TIMESTAMP
        """Timestamp of the record or timer being processed: the default for productions."""
        self._place = place
        self._coder = place.computation.state_coder
        self._copy = copy
        self._emit = emit
        self._states = states
        """Decoded state of earlier bundles; None where none is kept."""
        self._produced: dict[str, tuple[list[object], list[int]]] = {name: ([], []) for name in sorted(place.outputs)}
        self.ahead = LookAhead(copy)

    def open(self, watermark_before: int, watermark: int, wall_time: int) -> None:
        """Set the bundle's clocks."""
        self._before, self._after = watermark_before, watermark
        self.watermark = watermark_before
        self.wall_time = wall_time
        # Most computations hold nothing: one look at the bundle's start spares two for every timer.
        self._may_hold = next(self._copy.until(HOLD, MAX_TIMESTAMP), None) is not None

    def begin(self, row: bytes, key: object, encoded: bytes, due: list[Due]) -> None:
        """Turn to a key that `ahead` was told of; `due` is in order, and is the context's from now on."""
        self.key = key
        self._row, self._encoded = row, encoded
        self._cells: dict[bytes, bytes | None] = {}
        self._marks: dict[tuple[bytes, int, str], int | None] = {}
        ahead = self.ahead
        self._known = row in ahead.keys or (ahead.states is not None and row in ahead.states)
        self._few = ahead.cells.get(row)
        """All committed cells of the key, if they were read."""
        self._loaded: object = _UNREAD
        self._held.pop("state", None)
        self.watermark = self._before
        self.due = due
        """Timers to fire, as a heap."""

    # State

    def _load(self) -> object:
        data = self._loaded = self._stored_state()
        if data is None:
            return self._place.computation.initial_state()
        if self._states is None or len(data) < SMALLEST:
            return self._coder.decode(data)
        return self._states.load(self._row, data)

    def _stored_state(self) -> bytes | None:
        self.ahead.states_asked += 1
        if not self._known:
            return None
        states = self.ahead.states
        return self._copy.get(self._row, b"") if states is None else states.get(self._row)

    def read(self, cell: bytes) -> bytes | None:
        """See `Context.read`."""
        if cell in self._cells:
            return self._cells[cell]
        if not self._known:
            return None
        self.ahead.cells_asked += 1
        return self._copy.get(self._row, cell) if self._few is None else self._few.get(cell)

    def write(self, cell: bytes, data: bytes | None) -> None:
        """See `Context.write`."""
        if not 0 < len(cell) <= LONGEST_NAME:
            raise ValueError(f"cell name {cell!r:.80} has {len(cell)} bytes; use 1 to {LONGEST_NAME}")
        self._cells[cell] = data

    def scan(self, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """See `Context.scan`."""
        stored = self._scanned(prefix) if self._known else iter(())
        changed = sorted([change for change in self._cells.items() if change[0].startswith(prefix)])
        return overlaid(stored, changed) if changed else (entry for entry in stored if entry[0])

    def erase(self, prefix: bytes) -> None:
        """See `Context.erase`."""
        cells = self._cells
        if self._known:
            names = self._few if self._few is not None else [name for name, _ in self._copy.scan(self._row, prefix)]
            self.ahead.cells_asked += 1
            cells.update([(name, None) for name in names if name and name.startswith(prefix)])
        for name in cells:
            if name and name.startswith(prefix):
                cells[name] = None

    def _scanned(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        self.ahead.cells_asked += 1
        if self._few is None:
            return self._copy.scan(self._row, prefix)
        return iter(sorted([entry for entry in self._few.items() if entry[0].startswith(prefix)]))

    # Timers and holds

    def is_late(self, record: Record) -> bool:
        """See `Context.is_late`."""
        return record.timestamp < self.watermark

    def set_timer(
        self, tag: str, timestamp: int, domain: TimeDomain = TimeDomain.LOW_WATERMARK, hold: int | None = None
    ) -> None:
        """See `Context.set_timer`."""
        if domain is _LOW_WATERMARK:
            number, limit = 0, self._after
        else:
            number, limit = int(domain), self.wall_time
        mark = (self._row, number, tag)
        if hold is not None:
            self.hold(hold, _hold_tag(domain, tag))
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
        self._marks[self._row, int(domain), tag] = None
        if self._may_hold:
            self._release_of(domain, tag)

    def timer(self, tag: str, domain: TimeDomain = TimeDomain.LOW_WATERMARK) -> int | None:
        """See `Context.timer`."""
        return self.mark(domain, tag)

    def timers(self, domain: TimeDomain = TimeDomain.LOW_WATERMARK) -> Iterator[tuple[str, int]]:
        """See `Context.timers`."""
        stored = self._copy.marks(self._row) if self._known else ()
        found: dict[str, int | None] = {tag: timestamp for its, tag, timestamp in stored if its == domain}
        found.update((tag, timestamp) for (_, its, tag), timestamp in self._marks.items() if its == domain)
        return ((tag, timestamp) for tag, timestamp in found.items() if timestamp is not None)

    def mark(self, domain: int, tag: str) -> int | None:
        """A mark of the key as it is now."""
        if (self._row, domain, tag) in self._marks:
            return self._marks[self._row, domain, tag]
        return self._copy.mark(self._row, domain, tag) if self._known else None

    def hold(self, timestamp: int, tag: str = "") -> None:
        """See `Context.hold`."""
        self._may_hold = True
        self._marks[self._row, HOLD, tag] = timestamp

    def release(self, tag: str = "") -> None:
        """See `Context.release`."""
        self._marks[self._row, HOLD, tag] = None

    def _release_of(self, domain: TimeDomain, tag: str) -> int | None:
        """End the hold that belongs to a timer, if it has one; where it was."""
        held = self.mark(HOLD, _hold_tag(domain, tag))
        if held is not None:
            self.release(_hold_tag(domain, tag))
        return held

    def advance(self) -> None:
        """Records are done: what follows runs at the new watermark, but wall-time timers go first at the old one."""
        if not self.due or not self.due[0][0]:  # A timer on the watermark begins with nought.
            self.watermark = self._after

    def pop_due(self) -> Timer | None:
        """The next timer to fire, taken away; None when nothing is due."""
        due, marks, row = self.due, self._marks, self._row
        while due:
            negative, timestamp, tag = heappop(due)
            mark = (row, -negative, tag)
            # What is not among the changes came from the committed marks.
            if marks.get(mark, timestamp) != timestamp:
                continue
            marks[mark] = None
            domain = _LOW_WATERMARK
            if negative:
                domain = _DOMAINS[-negative]
            else:
                self.watermark = self._after
            held = self._release_of(domain, tag) if self._may_hold else None
            return new_tuple(Timer, (tag, timestamp, domain, held))
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
            f"computation {self._place.name!r} produces to stream {stream!r}, which it does not declare "
            f"(outputs: {declared}); add the stream to its outputs in the topology"
        )

    def count(self, counter: str, n: int = 1) -> None:
        """See `Context.count`."""
        self.counters[counter] = self.counters.get(counter, 0) + n

    def drop_late(self, n: int = 1) -> None:
        """See `Context.drop_late`."""
        self.count("dropped_late", n)

    def journal_id(self, record_id: bytes, forget_at: int) -> bool:
        """Remember an id; False if it is known, so the record is a duplicate."""
        if record_id in self.delta.ids:
            return False
        if self._copy.may_know_id(record_id):
            self.count(IDS_ASKED)
            if self._copy.knows_id(record_id):
                return False
        self.delta.ids[record_id] = forget_at
        return True

    # Going back

    def savepoint(self) -> Savepoint:
        """What the key's processing has come to, to be restored if a record turns out to be poison."""
        held = self._held.get("state", _UNREAD)
        state = None if held is _UNREAD or held is None else self._encode(held)
        metrics = collector()
        return Savepoint(
            dict(self._cells),
            dict(self._marks),
            list(self.due),
            held is not _UNREAD,
            state,
            {stream: len(values) for stream, (values, _) in self._produced.items()},
            dict(self.counters),
            {} if metrics is None else metrics.saved(),
        )

    def restore(self, saved: Savepoint) -> None:
        """Forget everything since the savepoint; the key must not have ended."""
        self._cells, self._marks, self.due = dict(saved.cells), dict(saved.marks), list(saved.due)
        self._held.pop("state", None)
        if saved.is_read:
            self.state = None if saved.state is None else self._coder.decode(saved.state)
        for stream, count in saved.produced.items():
            values, timestamps = self._produced[stream]
            del values[count:], timestamps[count:]
        self.counters.clear()
        self.counters.update(saved.counters)
        if (metrics := collector()) is not None:
            metrics.restore(saved.metrics)

    # Ends

    def end(self) -> None:
        """Close the key: its changes join the bundle's delta."""
        state = self._held.get("state", _UNREAD)
        if state is not _UNREAD:
            self._end_state(state)
        if self._cells or self._marks:
            self.delta.take(self._row, self._encoded, self._cells, self._marks, self._known, self._few)
        for values, _ in self._produced.values():
            if len(values) >= _FLUSH_AT:
                self.flush()
                return

    def _end_state(self, state: object) -> None:
        data = None if state is None else self._encode(state)
        if self._loaded is _UNREAD:
            self._loaded = self._stored_state()
        if data != self._loaded:
            self._cells[b""] = data
        if self._states is not None and data is not None and len(data) >= SMALLEST:
            known = self._states.due_of(self._row)
            stored: Iterable[tuple[int, str, int]] = ()
            if known is None or known <= self._after:
                known, stored = MAX_TIMESTAMP, self._copy.marks(self._row) if self._known else ()
            due = due_at(known, stored, self._row, self._marks, self._after - self.wall_time)
            self._states.keep(self._row, data, state, due)

    def _encode(self, state: object) -> bytes:
        try:
            return self._coder.encode(state)
        except Exception as error:
            raise StepError(
                self._place.name,
                self.key,
                state,
                f"this is its state, which cannot be stored ({type(error).__name__}: {error}); "
                "keep what it is made of instead, or give the computation a state_coder",
            ) from error

    def flush(self) -> None:
        """Send what was produced so far on its way."""
        for stream, (values, timestamps) in self._produced.items():
            if values:
                check_format(self._place, stream, values)
                self._produced[stream] = ([], [])
                report(_RECORDS_OUT, len(values))
                self._emit(stream, Batch(values, timestamps))


def _hold_tag(domain: int, tag: str) -> str:
    """The tag of the hold that belongs to a timer; no user tag begins with NUL."""
    return f"\0{int(domain)}{tag}"
