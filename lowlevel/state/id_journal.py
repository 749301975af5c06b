"""The journal of record ids, by which redelivered records are recognised (MillWheel paper §6.1.1)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from hashlib import blake2b

from headrace.lowlevel.state.state_store import Delta, StateStore

DUPLICATES = "duplicates"
"""Counter of records that are dropped because their ids are known."""
IDS_ASKED = "ids_asked"
"""Counter of ids that are looked up in the store because the Bloom filter may contain them."""


class IdJournal:
    """The ids of processed records during one bundle, which adds the ids of its own records.

    >>> from headrace.lowlevel.state.memory_store import MemoryStateStore
    >>> delta, counters = Delta(), {}
    >>> journal = IdJournal(MemoryStateStore(), delta, {"in": 10}, counters)
    >>> journal.fresh("in", [b"1", b"2", b"1"], [5, 6, 7]), sorted(delta.ids.values()), counters
    ([0, 1], [15, 16], {'duplicates': 1})

    Args:
        store: Committed state, with the ids of earlier bundles.
        delta: The changes of the bundle, to which new ids are added.
        slacks: Stream -> microseconds for which an id is remembered after its record's timestamp; 0 if absent.
        counters: Counters of the computation in the bundle, to which the journal adds its own.
    """

    def __init__(self, store: StateStore, delta: Delta, slacks: Mapping[str, int], counters: dict[str, int]) -> None:
        self._store, self._delta, self._slacks, self._counters = store, delta, slacks, counters

    def fresh(self, stream: str, ids: Iterable[bytes], timestamps: Iterable[int]) -> list[int]:
        """The indices of records that were not processed before, ascending; their ids are added to the delta.

        Args:
            stream: Input stream of the records.
            ids: The id of each record.
            timestamps: Event time of each record, microseconds UTC; as many as ids, else ValueError is raised.
        """
        namespace, slack, journaled = _namespace(stream), self._slacks.get(stream, 0), self._delta.ids
        fresh: list[int] = []
        asked = count = 0
        for count, (record_id, timestamp) in enumerate(zip(ids, timestamps, strict=True), 1):
            name = namespace + record_id
            if name in journaled:
                continue
            if self._store.may_know_id(name):
                asked += 1
                if self._store.knows_id(name):
                    continue
            journaled[name] = timestamp + slack
            fresh.append(count - 1)
        for counter, number in ((IDS_ASKED, asked), (DUPLICATES, count - len(fresh))):
            if number:
                self._counters[counter] = self._counters.get(counter, 0) + number
        return fresh


@cache
def _namespace(stream: str) -> bytes:
    """The 8-byte prefix of a stream's ids, as injectors choose ids independently of each other."""
    return blake2b(stream.encode("utf-8", "surrogatepass"), digest_size=8).digest()
