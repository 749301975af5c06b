"""Prefetching: stored state of the next keys is read together; an ordered store reads neighbours fast (paper §4.4)."""

from __future__ import annotations

from collections.abc import Container, Sequence

from headrace.lowlevel.state.state_store import StateStore


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
