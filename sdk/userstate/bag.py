"""What: a bag of values for each key and window, cheap to add to (`BagStateSpec`).

The newest values are in the bag's first cell, behind the number of full cells; a first cell that has grown is moved to
a full cell of its own. So to add costs what is added, however much there is, and there are few cells.
"""

from __future__ import annotations

from headrace.sdk.stateful.cells import Cells
from headrace.sdk.stateful.chunks import chunk, values_of
from headrace.sdk.stateful.spec import StateSpec

_NUMBER = 8
_NONE_FULL = bytes(_NUMBER)
_FULL = 4096
"""Bytes beyond which the first cell is not added to any more."""


class BagState:
    """Values in the order in which they were added; none is read from storage before `read` is called."""

    __slots__ = ("_added", "_cells", "_cleared", "_spec", "_stored")

    def __init__(self, spec: BagStateSpec, cells: Cells) -> None:
        self._spec = spec
        self._cells = cells
        self._stored: list[object] | None = None
        self._added: list[object] = []
        self._cleared = False

    def read(self) -> list[object]:
        """All values, in a list of its own."""
        if self._stored is None:
            self._stored = self._load()
        return self._stored + self._added

    def add(self, value: object) -> None:
        """Put a value in."""
        self._added.append(value)

    def clear(self) -> None:
        """Take all values out."""
        self._stored, self._added = [], []
        self._cleared = True

    def store(self) -> None:
        """See `State`."""
        if not self._cleared and not self._added:
            return
        first = self._spec.cell
        data = self._cells.read(first) or _NONE_FULL
        full = int.from_bytes(data[:_NUMBER], "big")
        if self._cleared:
            for number in range(full):
                self._cells.erase(self._full_cell(number))
            full, data = 0, _NONE_FULL
        if not self._added:
            self._cells.erase(first)
            return
        data += chunk(self._spec, self._added)
        if len(data) > _FULL:
            self._cells.write(self._full_cell(full), data[_NUMBER:])
            data = (full + 1).to_bytes(_NUMBER, "big")
        self._cells.write(first, data)

    def _load(self) -> list[object]:
        first = self._cells.read(self._spec.cell)
        if first is None:
            return []
        if first.startswith(_NONE_FULL):
            return values_of(self._spec, first[_NUMBER:])
        parts = []
        for number in range(int.from_bytes(first[:_NUMBER], "big")):
            part = self._cells.read(self._full_cell(number))
            assert part is not None, f"bag {self._spec.name!r} has a cell {number}"
            parts.append(part)
        return values_of(self._spec, b"".join([*parts, first[_NUMBER:]]))

    def _full_cell(self, number: int) -> bytes:
        return self._spec.cell + number.to_bytes(_NUMBER, "big")


class BagStateSpec(StateSpec[BagState]):
    """Declares a bag of values for each key and window: see `StateSpec`; the coder is that of a value.

    >>> BagStateSpec("waiting")
    BagStateSpec('waiting')
    """

    kind = b"b"

    def open(self, cells: Cells) -> BagState:
        """See `StateSpec`."""
        return BagState(self, cells)
