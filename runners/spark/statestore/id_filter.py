"""Duplicates: a Bloom filter of the record ids in a state store that several processes change (paper §6.1.1).

Nearly all records are delivered once. Only ids that the filter may contain are looked up in the store. The filter is
soft state: if it is lost, it is built again from the journaled ids.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from rbloom import Bloom

from headrace.lowlevel.state.state_store import Delta

FALSE_POSITIVES = 0.01
"""Fraction of new ids that a full generation reports as known."""
SMALLEST = 50_000
"""Least capacity of a generation, in ids; it takes some 60 kB."""


@dataclass(slots=True)
class _Generation:
    """A Bloom filter of consecutive ids."""

    bloom: Bloom
    room: int
    newest: int
    """The latest time until which one of its ids is remembered, microseconds of event time."""
    count: int = 0


class IdFilter:
    """A set of ids with false positives, made of generations of Bloom filters.

    The capacity of a new generation is the number of ids in the earlier ones. Ids cannot be removed from a Bloom
    filter, so a generation is deleted when all its ids are forgotten; the size of the filter follows the journal's.

    >>> ids = IdFilter()
    >>> ids.add([(b"one", 5)])
    >>> b"one" in ids, b"two" in ids
    (True, False)
    >>> ids.forget_before(6)
    >>> b"one" in ids
    False
    """

    def __init__(self) -> None:
        self._generations: list[_Generation] = []

    def add(self, ids: Iterable[tuple[bytes, int]]) -> None:
        """Add ids, each with the time until which it is remembered, microseconds of event time."""
        for record_id, forget_at in ids:
            last = self._generations[-1] if self._generations else None
            if last is None or last.count >= last.room:
                last = self._begin(forget_at)
            last.bloom.add(record_id)
            last.count += 1
            last.newest = max(last.newest, forget_at)

    def _begin(self, newest: int) -> _Generation:
        room = max(SMALLEST, sum(generation.count for generation in self._generations))
        generation = _Generation(Bloom(room, FALSE_POSITIVES), room, newest)
        self._generations.append(generation)
        return generation

    def forget_before(self, limit: int) -> None:
        """Delete generations of which all ids are only remembered until before `limit`, microseconds of event time."""
        self._generations = [generation for generation in self._generations if generation.newest >= limit]

    def __contains__(self, record_id: bytes) -> bool:
        """Whether the id may have been added; False is certain."""
        return any(record_id in generation.bloom for generation in self._generations)

    @property
    def size_bytes(self) -> int:
        """Size of the Bloom filters in memory."""
        return sum(generation.bloom.size_in_bits for generation in self._generations) // 8


class StoredIdFilter:
    """The `IdFilter` of a state store, brought to the position of the store only when it is used: most have no ids.

    Deltas that this process applies are added at once, if the filter is where the store is. Those of other processes
    are read from the checkpoint; if they cannot be, as after a snapshot, the filter is made again from all ids.
    """

    def __init__(self) -> None:
        self.current: IdFilter | None = None
        """The filter for the current view of the store; None if it must be brought there."""
        self.chain: Sequence[str] = ()
        self.read: Callable[[str], Iterable[Delta]] | None = None
        self._filter = IdFilter()
        self._position: str | None = None

    def view_ends(self) -> None:
        """Note the end of the store's view; the next view may be of a newer state."""
        self.current = None

    def applied(self, after: str, to: str, deltas: Iterable[Delta]) -> None:
        """Note that this process has brought the store from one position to the next by these deltas."""
        if self._position == after:
            self._add(deltas)
            self._position = to

    def bring_to(self, position: str, all_ids: Callable[[], Iterable[tuple[bytes, int]]]) -> IdFilter:
        """Return the filter of the ids in the store at a position. `all_ids` returns (id, timestamp) of each."""
        if self._position != position:
            if not self._follow(position):
                self._begin(all_ids())
            self._position = position
        self.current = self._filter
        return self._filter

    def _follow(self, position: str) -> bool:
        """Add ids since the position of the filter; False if the deltas between are not known."""
        chain, read = list(self.chain), self.read
        if read is None or self._position not in chain or position not in chain:
            return False
        for name in chain[chain.index(self._position) + 1 : chain.index(position) + 1]:
            self._add(read(name))
        return True

    def _add(self, deltas: Iterable[Delta]) -> None:
        for delta in deltas:
            self._filter.add(delta.ids.items())
            if delta.forget_ids_before is not None:
                self._filter.forget_before(delta.forget_ids_before)

    def _begin(self, ids: Iterable[tuple[bytes, int]]) -> None:
        self._filter = IdFilter()
        self._filter.add(ids)
