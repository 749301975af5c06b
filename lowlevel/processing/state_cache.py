"""Soft state: decoded state of keys, kept by a process from bundle to bundle (MillWheel paper §6.2, §8.3, figure 16).

The committed bytes of a key's state are always read: from a copy on the same host that takes a microsecond. What is
spared is decoding them: if they are the very bytes that a kept object was encoded to, the object stands for them. So
nothing has to be told to a cache for it to be right. What other processes committed, what an attempt left here that was
given up, what moved to other key intervals: all of it shows in the bytes.

An object is taken out while user code has it and put back once it is encoded, so an attempt that fails leaves nothing.
What would not show is that code changed an object which it could still reach after it was encoded. Therefore only
computations take part that promise to keep their state to themselves (`Computation.private_state`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from headrace.lowlevel.computation import Computation
from headrace.lowlevel.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from headrace.lowlevel.timer import HOLD, TimeDomain

SMALLEST = 2_000
"""Bytes of encoded state from which keeping the object pays; smaller ones are decoded in the time of looking it up and
of noting when it is needed next (`benchmarks/cache.py`)."""
_EXPANSION = 10
"""Bytes that an object takes for each byte of its encoding, from above: numbers and short strings need eight to ten."""
_ENTRY_BYTES = 500
_SWEEP_AFTER = 8
"""Objects that have to give way, for each one kept, until those are looked through for what is of no use any more."""


@dataclass(slots=True, eq=False)
class _Entry:
    data: bytes
    """What the object was encoded to."""
    value: object
    due: int
    """When its key is needed next as far as timers tell, microseconds of event time."""
    number: int
    """In the order in which keys came."""
    size: int
    used: int
    """Number of the sweep before which it was last put back."""


class StateCache:
    """Decoded state of one process, bounded by `limit` bytes (an estimate from above).

    When it is full, the key goes that is needed last, and among keys of which that is not known the one that came last:
    a window's buffer is read again when the watermark passes its end, so what was just written is often needed
    latest of all (paper §8.3). Keys that nobody asks for any more are swept out now and then.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        """Bytes taken up now."""
        self.asked = 0
        """States read that are large enough to be kept."""
        self.hits = 0
        """Those of them that were there."""
        self._count = 0
        self._newest = 0
        self._gave_way = 0
        self._sweeps = 0
        self._computations: dict[str, KeyStates] = {}
        self._order: list[tuple[int, int, KeyStates, bytes]] = []
        """A heap: (-due, -number, ...), what goes first at its top; entries that do not hold any more among them."""

    def __len__(self) -> int:
        return self._count

    def of(self, name: str, computation: Computation, watermark_before: int) -> KeyStates | None:
        """The states of one computation; None if nothing is to be kept of it.

        `watermark_before` is where its input low watermark was at the end of the last epoch.
        """
        if not (self.limit and computation.private_state):
            return None
        if (states := self._computations.get(name)) is None:
            states = self._computations[name] = KeyStates(self, computation)
        states.begin(watermark_before)
        return states

    def _add(self, states: KeyStates, row: bytes, entry: _Entry, placed: bool) -> None:
        states.entries[row] = entry
        self._count += 1
        self.used += entry.size
        if not placed:
            heappush(self._order, (-entry.due, -entry.number, states, row))
        if self.used > self.limit:
            self._make_room()
        if len(self._order) > 2 * self._count + 64:
            self._sort()

    def _remove(self, states: KeyStates, row: bytes) -> _Entry | None:
        entry = states.entries.pop(row, None)
        if entry is not None:
            self._count -= 1
            self.used -= entry.size
        return entry

    def _make_room(self) -> None:
        while self.used > self.limit:
            due, number, states, row = heappop(self._order)
            entry = states.entries.get(row)
            if entry is not None and (entry.due, entry.number) == (-due, -number):
                self._remove(states, row)
                self._gave_way += 1
        if self._gave_way > _SWEEP_AFTER * self._count:
            self._sweep()

    def _sweep(self) -> None:
        """Let go of what has not been used since the last sweep, and of timers that fired elsewhere."""
        for states in self._computations.values():
            for row, entry in list(states.entries.items()):
                if entry.used < self._sweeps or entry.due <= states.passed:
                    self._remove(states, row)
        self._sweeps += 1
        self._gave_way = 0

    def _sort(self) -> None:
        self._order = [
            (-entry.due, -entry.number, states, row)
            for states in self._computations.values()
            for row, entry in states.entries.items()
        ]
        heapify(self._order)


class KeyStates:
    """The part of a `StateCache` that belongs to one computation. One key is loaded and kept at a time.

    >>> class Model(Computation):
    ...     private_state = True
    >>> states = StateCache(limit=1_000_000).of("model", Model(), watermark_before=0)
    >>> state, data = [2, 4], Model.state_coder.encode([2, 4])
    >>> states.load(b"row", data) is state
    False
    >>> states.keep(b"row", data, state, due=60)
    >>> states.load(b"row", data) is state
    True
    >>> states.load(b"row", data) is state  # it was taken out, and not put back
    False
    """

    def __init__(self, cache: StateCache, computation: Computation) -> None:
        self.passed = MIN_TIMESTAMP
        """A watermark by which all timers up to it have fired."""
        self.entries: dict[bytes, _Entry] = {}
        self._decode = computation.state_coder.decode
        self._cache = cache
        self._taken: tuple[bytes, _Entry] | None = None
        """The key that was loaded last, if it was there."""

    def begin(self, watermark_before: int) -> None:
        """A bundle begins; what the one before did not put back stays away."""
        self.passed = watermark_before
        self._taken = None

    def load(self, row: bytes, data: bytes) -> object:
        """The state that `data` stands for; the caller may change it, and gives it back with `keep`."""
        cache = self._cache
        cache.asked += 1
        entry = cache._remove(self, row)
        if entry is None:
            self._taken = None
            return self._decode(data)
        self._taken = (row, entry)
        if entry.data != data:
            return self._decode(data)
        cache.hits += 1
        return entry.value

    def due_of(self, row: bytes) -> int | None:
        """When a key that was just loaded is needed next, by what was known when it was kept; None if it was not."""
        taken = self._taken_of(row)
        return None if taken is None else taken.due

    def keep(self, row: bytes, data: bytes, value: object, due: int = MAX_TIMESTAMP) -> None:
        """Keep the state that was just encoded to `data`, needed next at `due` (microseconds of event time)."""
        cache = self._cache
        # A state that an attempt left here and that was never committed may still be there, without having been asked.
        entry = self._taken_of(row) or cache._remove(self, row)
        self._taken = None
        size = _EXPANSION * len(data) + _ENTRY_BYTES
        if entry is None:
            cache._newest += 1
            cache._add(self, row, _Entry(data, value, due, cache._newest, size, cache._sweeps), placed=False)
            return
        placed = entry.due == due
        entry.data, entry.value, entry.due, entry.size, entry.used = data, value, due, size, cache._sweeps
        cache._add(self, row, entry, placed)

    def _taken_of(self, row: bytes) -> _Entry | None:
        return self._taken[1] if self._taken is not None and self._taken[0] == row else None


def due_at(
    known: int,
    stored: Iterable[tuple[int, str, int]],
    row: bytes,
    changed: Mapping[tuple[bytes, int, str], int | None],
    ahead: int,
) -> int:
    """When the next timer of a key is due, microseconds of event time.

    Args:
        known: No later than this.
        stored: Domain, tag and timestamp of the marks that are committed.
        row: The key's.
        changed: What was set and taken away since.
        ahead: By how much event time is ahead of the wall clock, microseconds.
    """
    marks: dict[tuple[bytes, int, str], int | None] = {(row, domain, tag): at for domain, tag, at in stored}
    marks.update(changed)
    for (_, domain, _), timestamp in marks.items():
        if timestamp is None or domain == HOLD:
            continue
        known = min(known, timestamp + ahead if domain == TimeDomain.WALL_TIME else timestamp)
    return known
