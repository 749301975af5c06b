"""What is stored of the keys that come next, read together: in an ordered store neighbours cost little (paper §4.4)."""

from __future__ import annotations

from collections.abc import Container, Sequence

from headrace.lowlevel.state import Copy


class LookAhead:
    """Reads what the keys before were asked for, most of them: their states, their other cells."""

    __slots__ = ("_copy", "_rows", "cells", "cells_asked", "keys", "states", "states_asked")

    def __init__(self, copy: Copy) -> None:
        self._copy = copy
        self._rows = 0
        self.keys: dict[bytes, bytes] = {}
        """Row -> encoded key, of the keys ahead that the copy knows; without those of which the state says so."""
        self.states: dict[bytes, bytes] | None = None
        """Row -> state; None if states are better read one by one."""
        self.cells: dict[bytes, dict[bytes, bytes]] = {}
        """Row -> all its cells, of keys that have few of them; empty if cells are better read one by one."""
        self.states_asked = 0
        """Of the keys ahead, how many states were looked at."""
        self.cells_asked = 0
        """And how often a cell, or several."""

    def turn_to(self, rows: Sequence[bytes], named: Container[bytes]) -> None:
        """Read what these keys have. Of those of `named` the keys themselves are known."""
        half = self._rows / 2
        # The tables are read in order.
        ordered = sorted(rows)
        self.states = states = self._copy.states_of(ordered) if self.states_asked > half else None
        if states is not None:
            # One that has state is known to the copy.
            ordered = [row for row in ordered if row not in states or row not in named]
        self.keys = self._copy.keys_of(ordered)
        stored = [*self.keys, *(states or ())]
        # Where most keys have too many cells they would be read in vain.
        pays = self.cells_asked > half and (not self.cells or 2 * len(self.cells) > half)
        self.cells = self._copy.cells_of(stored) if pays else {}
        self._rows, self.states_asked, self.cells_asked = len(rows), 0, 0
