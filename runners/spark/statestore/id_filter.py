"""Duplicates: a Bloom filter of the record ids in a state store that several processes change (paper §6.1.1)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from headrace.lowlevel.state.id_filter import IdFilter
from headrace.lowlevel.state.state_store import Delta


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
