"""Soft state: decoded state of keys, kept by a process from bundle to bundle (MillWheel paper §6.2, §8.3, figure 16).

The committed bytes of a key's state are always read, which takes a microsecond from a store on the same host, as the
bytes of the next keys are read together (§4.4). The cache saves only their decoding: an object is used if it was
encoded to exactly these bytes. So the cache needs no invalidation: commits of other processes, attempts that were given
up and changed key intervals all show in the bytes.

Values that user code cannot change are kept for every program, wherever they are in state (`DecodedValues`). They give
way to the state of computations that promise to keep no reference to it (`Computation.private_state`), which may be
large and is changed in place: such an object leaves the cache while user code has it and returns once it is encoded, so
a failed attempt leaves nothing behind. A change of the object after its encoding would not show, hence the promise.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from headrace.lowlevel.coders.decoded_values import DecodedValues
from headrace.lowlevel.state.state_store import StateStore
from headrace.lowlevel.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from headrace.lowlevel.topology.computation import Computation
from headrace.lowlevel.topology.timer import HOLD, TimeDomain

SMALLEST = 2_000
"""Least size of an encoded state that is kept, in bytes. Decoding a smaller one takes no longer than looking it up and
computing when it is needed next (`benchmarks/cache.py`)."""
_EXPANSION = 10
"""Upper estimate of an object's bytes for each byte of its encoding: numbers and short strings need eight to ten."""
_ENTRY_BYTES = 500
"""Upper estimate of the bytes of an entry without its object."""
_SWEEP_AFTER = 8
"""Number of evictions per entry after which a sweep looks for entries that are of no use any more."""


@dataclass(slots=True, eq=False)
class _Entry:
    data: bytes
    """The encoding of the object."""
    value: object
    due: int
    """When the key is needed next as far as its timers tell, microseconds of event time."""
    number: int
    """Ascending in the order in which keys first entered."""
    size: int
    """Upper estimate of the bytes that the entry takes."""
    used: int
    """Number of sweeps before the entry was last put back."""


class StateCache:
    """Decoded state of one process, bounded by `limit` bytes (an upper estimate).

    A full cache evicts the key that is needed last; of keys that are needed at the same time, or at a time that is not
    known, the one that entered last. A window's buffer is read again when the watermark passes the window's end, so a
    buffer that was just written is often needed last (paper §8.3). A sweep now and then removes keys that are not used.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.values = DecodedValues(limit)
        """Immutable values, which have what is left of the limit."""
        self.used = 0
        """Upper estimate of the bytes in use, without those of the immutable values."""
        self.asked = 0
        """Number of lookups: states read that are large enough to be kept."""
        self.hits = 0
        """Number of lookups that found the object."""
        self._count = 0
        self._last_number = 0
        self._evictions = 0
        """Number of entries evicted since the last sweep."""
        self._sweeps = 0
        self._computations: dict[str, KeyStates] = {}
        self._order: list[tuple[int, int, KeyStates, bytes]] = []
        """A heap of (-due, -number, ...) with the next key to evict at its top; some items are outdated."""

    def __len__(self) -> int:
        return self._count

    def of(self, name: str, computation: Computation, watermark_before: int) -> KeyStates | None:
        """The states of one computation; None if none are kept.

        `watermark_before` is the computation's input low watermark at the end of the last epoch.
        """
        if not (self.limit and computation.private_state):
            return None
        if (states := self._computations.get(name)) is None:
            states = self._computations[name] = KeyStates(self, computation)
        states.begin(watermark_before)
        return states

    def _add(self, states: KeyStates, key_hash: bytes, entry: _Entry, placed: bool) -> None:
        states.entries[key_hash] = entry
        self._count += 1
        self.used += entry.size
        if not placed:
            heappush(self._order, (-entry.due, -entry.number, states, key_hash))
        if self.used > self.limit:
            self._evict()
        self.values.resize(self.limit - self.used)
        if len(self._order) > 2 * self._count + 64:
            self._sort()

    def _remove(self, states: KeyStates, key_hash: bytes) -> _Entry | None:
        entry = states.entries.pop(key_hash, None)
        if entry is not None:
            self._count -= 1
            self.used -= entry.size
        return entry

    def _evict(self) -> None:
        while self.used > self.limit:
            due, number, states, key_hash = heappop(self._order)
            entry = states.entries.get(key_hash)
            if entry is not None and (entry.due, entry.number) == (-due, -number):
                self._remove(states, key_hash)
                self._evictions += 1
        if self._evictions > _SWEEP_AFTER * self._count:
            self._sweep()

    def _sweep(self) -> None:
        """Remove entries that were not used since the last sweep, or whose timer has fired in another process."""
        for states in self._computations.values():
            for key_hash, entry in list(states.entries.items()):
                if entry.used < self._sweeps or entry.due <= states.passed:
                    self._remove(states, key_hash)
        self._sweeps += 1
        self._evictions = 0

    def _sort(self) -> None:
        self._order = [
            (-entry.due, -entry.number, states, key_hash)
            for states in self._computations.values()
            for key_hash, entry in states.entries.items()
        ]
        heapify(self._order)


class KeyStates:
    """The part of a `StateCache` that belongs to one computation. Only one key is out of the cache at a time.

    >>> class Model(Computation):
    ...     private_state = True
    >>> states = StateCache(limit=1_000_000).of("model", Model(), watermark_before=0)
    >>> state, data = [2, 4], Model.state_coder.encode([2, 4])
    >>> states.take(b"row", data) is state
    False
    >>> states.keep(b"row", data, state, due=60)
    >>> states.take(b"row", data) is state
    True
    >>> states.take(b"row", data) is state  # it was not put back
    False
    """

    def __init__(self, cache: StateCache, computation: Computation) -> None:
        self.passed = MIN_TIMESTAMP
        """A watermark: all timers up to it have fired."""
        self.entries: dict[bytes, _Entry] = {}
        self._decode = computation.state_coder.decode
        self._cache = cache
        self._current: tuple[bytes, _Entry] | None = None
        """Hash and entry of the key that is out of the cache."""

    def begin(self, watermark_before: int) -> None:
        """Begin a bundle; an entry that the last bundle did not put back is forgotten."""
        self.passed = watermark_before
        self._current = None

    def take(self, key_hash: bytes, data: bytes) -> object:
        """Take out or decode the state that `data` encodes. The caller may change it and puts it back with `keep`."""
        cache = self._cache
        cache.asked += 1
        entry = cache._remove(self, key_hash)
        if entry is None:
            self._current = None
            return self._decode(data)
        self._current = (key_hash, entry)
        if entry.data != data:
            return self._decode(data)
        cache.hits += 1
        return entry.value

    def due_of(self, key_hash: bytes) -> int | None:
        """When the key that is out of the cache is needed next, as `keep` was told; None for any other key."""
        entry = self._current_entry(key_hash)
        return None if entry is None else entry.due

    def keep(self, key_hash: bytes, data: bytes, value: object, due: int = MAX_TIMESTAMP) -> None:
        """Put in the state that was just encoded to `data` and is needed next at `due` (microseconds of event time)."""
        cache = self._cache
        # An attempt that was never committed may have left an entry that nothing has looked up.
        entry = self._current_entry(key_hash) or cache._remove(self, key_hash)
        self._current = None
        size = _EXPANSION * len(data) + _ENTRY_BYTES
        if entry is None:
            cache._last_number += 1
            cache._add(self, key_hash, _Entry(data, value, due, cache._last_number, size, cache._sweeps), placed=False)
            return
        placed = entry.due == due
        entry.data, entry.value, entry.due, entry.size, entry.used = data, value, due, size, cache._sweeps
        cache._add(self, key_hash, entry, placed)

    def _current_entry(self, key_hash: bytes) -> _Entry | None:
        return self._current[1] if self._current is not None and self._current[0] == key_hash else None


def due_at(
    latest: int,
    stored: Iterable[tuple[int, str, int]],
    key_hash: bytes,
    changed: Mapping[tuple[bytes, int, str], int | None],
    ahead: int,
) -> int:
    """When the next timer of a key is due, microseconds of event time.

    Args:
        latest: Upper bound of the result.
        stored: Domain, tag and timestamp of the key's committed marks.
        key_hash: The 16-byte hash of the key.
        changed: Marks that the bundle has set or deleted.
        ahead: Event time minus wall time, microseconds.
    """
    marks: dict[tuple[bytes, int, str], int | None] = {(key_hash, domain, tag): time for domain, tag, time in stored}
    marks.update(changed)
    for (_, domain, _), timestamp in marks.items():
        if timestamp is None or domain == HOLD:
            continue
        latest = min(latest, timestamp + ahead if domain == TimeDomain.WALL_TIME else timestamp)
    return latest


class Prefetch:
    """Reads the states, or the other cells, of the next keys if most of the keys before them needed theirs."""

    __slots__ = ("_key_count", "_store", "cell_reads", "cells", "keys", "state_reads", "states")

    def __init__(self, store: StateStore) -> None:
        self._store = store
        self._key_count = 0
        self.keys: dict[bytes, bytes] = {}
        """Hash -> encoded key of the next keys that are stored, except those found by their state alone."""
        self.states: dict[bytes, bytes] | None = None
        """Hash -> encoded state; None if states are read one by one."""
        self.cells: dict[bytes, dict[bytes, bytes]] = {}
        """Hash -> all cells, for keys that have few cells; empty if cells are read one by one."""
        self.state_reads = 0
        """Number of these keys whose state the computation read."""
        self.cell_reads = 0
        """Number of times that it read their cells."""

    def read(self, key_hashes: Sequence[bytes], encoded: Container[bytes]) -> None:
        """Read what is stored of the next keys.

        Args:
            key_hashes: 16-byte hashes of the keys, in order of processing.
            encoded: Hashes of the keys whose encoding the caller has.
        """
        half = self._key_count / 2
        # Tables are read fastest in order of the hashes.
        ordered = sorted(key_hashes)
        self.states = states = self._store.states_of(ordered) if self.state_reads > half else None
        if states is not None:
            # A key that has state needs no look at the table of keys, unless to find its encoding.
            ordered = [key_hash for key_hash in ordered if key_hash not in states or key_hash not in encoded]
        self.keys = self._store.keys_of(ordered)
        stored = [*self.keys, *(states or ())]
        # If most keys have too many cells, reading them together finds nothing.
        pays = self.cell_reads > half and (not self.cells or 2 * len(self.cells) > half)
        self.cells = self._store.cells_of(stored) if pays else {}
        self._key_count, self.state_reads, self.cell_reads = len(key_hashes), 0, 0
