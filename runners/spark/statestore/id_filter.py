"""Duplicates: a process's Bloom filter of the ids in a host's copy, to which other processes add (paper §6.1.1)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from headrace.lowlevel.idfilter import IdFilter
from headrace.lowlevel.state import Delta


class CopyFilter:
    """Follows the copy from position to position, when it is asked: most computations have no ids.

    What was committed since the filter was last asked is read from the checkpoint, the newest of it from memory; only
    a filter that cannot follow, as after a snapshot, is made again from all ids.
    """

    def __init__(self) -> None:
        self.current: IdFilter | None = None
        """The filter, if it is that of the view that reads have now."""
        self.chain: Sequence[str] = ()
        self.read: Callable[[str], Iterable[Delta]] | None = None
        self._filter = IdFilter()
        self._position: str | None = None

    def view_ends(self) -> None:
        """The next view may be of a newer state."""
        self.current = None

    def bring_to(self, position: str, all_ids: Callable[[], Iterable[tuple[bytes, int]]]) -> IdFilter:
        """The filter of the ids that the copy has at a position."""
        if self._position != position:
            if not self._follow(position):
                self._begin(all_ids())
            self._position = position
        self.current = self._filter
        return self._filter

    def _follow(self, position: str) -> bool:
        """Add what came since the filter's position; False if that is not known."""
        chain, read = list(self.chain), self.read
        if read is None or self._position not in chain or position not in chain:
            return False
        for name in chain[chain.index(self._position) + 1 : chain.index(position) + 1]:
            for delta in read(name):
                self._filter.add(delta.ids.items())
                if delta.forget_ids_before is not None:
                    self._filter.forget_before(delta.forget_ids_before)
        return True

    def _begin(self, ids: Iterable[tuple[bytes, int]]) -> None:
        self._filter = IdFilter()
        self._filter.add(ids)
