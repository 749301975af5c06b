"""What: a set of values for each key and window (`SetStateSpec`).

Each value has a cell of its own, so that to add one needs no other.
"""

from __future__ import annotations

from hashlib import blake2b

from headrace.lowlevel.coder import encode_key
from headrace.lowlevel.errors import KeyEncodingError
from headrace.sdk.stateful.cells import Cells
from headrace.sdk.stateful.spec import StateSpec


class SetState:
    """Different values, as Python's `==` and `hash` tell them apart."""

    __slots__ = ("_added", "_cells", "_cleared", "_spec", "_stored")

    def __init__(self, spec: SetStateSpec, cells: Cells) -> None:
        self._spec = spec
        self._cells = cells
        self._stored: set[object] | None = None
        self._added: set[object] = set()
        self._cleared = False

    def read(self) -> set[object]:
        """All values, in a set of its own."""
        if self._stored is None:
            decode = self._spec.coder.decode
            self._stored = {decode(data) for _, data in self._cells.scan(self._spec.cell)}
        return self._stored | self._added

    def add(self, value: object) -> None:
        """Put a value in; it must be hashable."""
        self._added.add(value)

    def clear(self) -> None:
        """Take all values out."""
        self._stored, self._added = set(), set()
        self._cleared = True

    def store(self) -> None:
        """See `State`."""
        if self._cleared:
            self._cells.erase_all(self._spec.cell)
        for value in self._added:
            cell = self._cell(value)
            if self._cells.read(cell) is None:
                self._cells.write(cell, self._spec.encode(value))

    def _cell(self, value: object) -> bytes:
        """The cell of a value. Equal values that get different ones are made one when they are read."""
        try:
            code = encode_key(value)
        except KeyEncodingError:
            code = self._spec.encode(value)
        return self._spec.cell + blake2b(code, digest_size=16).digest()


class SetStateSpec(StateSpec[SetState]):
    """Declares a set of values for each key and window: see `StateSpec`; the coder is that of a value.

    >>> SetStateSpec("seen")
    SetStateSpec('seen')
    """

    kind = b"s"

    def open(self, cells: Cells) -> SetState:
        """See `StateSpec`."""
        return SetState(self, cells)
