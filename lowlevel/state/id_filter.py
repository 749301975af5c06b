"""Duplicates: which ids are certainly new, known without asking the store (MillWheel paper §6.1.1).

Nearly all records are delivered once. A Bloom filter of the ids journaled so far says of most ids that they are new;
only the others are looked up. The filter is soft state: it is made again from the ids whenever it is lost.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rbloom import Bloom

FALSE_POSITIVES = 0.01
"""Share of new ids that a full generation takes for known."""
SMALLEST = 50_000
"""Ids that a generation has room for at least: some 60 kB."""


@dataclass(slots=True)
class _Generation:
    """Ids that came one after the other."""

    bloom: Bloom
    room: int
    count: int = 0
    newest: int = 0
    """The latest `forget_at` of its ids: with that it can go as a whole."""


class IdFilter:
    """Bloom filters in generations: a full one is followed by one with room for as many as there are by then.

    Ids cannot be taken out of a Bloom filter; a generation goes when all its ids are forgotten, so that the filter's
    size follows that of the journal.

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
        """Take ids in, each with the time until which it is remembered, microseconds of event time."""
        for record_id, forget_at in ids:
            last = self._generations[-1] if self._generations else None
            if last is None or last.count >= last.room:
                last = self._begin()
            last.bloom.add(record_id)
            last.count += 1
            last.newest = forget_at if last.count == 1 else max(last.newest, forget_at)

    def _begin(self) -> _Generation:
        room = max(SMALLEST, sum(generation.count for generation in self._generations))
        generation = _Generation(Bloom(room, FALSE_POSITIVES), room)
        self._generations.append(generation)
        return generation

    def forget_before(self, limit: int) -> None:
        """Let go of generations all of whose ids are forgotten: those remembered until before `limit`."""
        self._generations = [generation for generation in self._generations if generation.newest >= limit]

    def __contains__(self, record_id: bytes) -> bool:
        """Whether the id may have come before; False is certain."""
        return any(record_id in generation.bloom for generation in self._generations)

    @property
    def size_bytes(self) -> int:
        """What the filters take up."""
        return sum(generation.bloom.size_in_bits for generation in self._generations) // 8
