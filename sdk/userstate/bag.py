"""What: a bag of values for each key and window, with cheap additions (`BagStateSpec`).

The newest values are in the first cell of the bag, after the number of full cells. If the first cell has grown beyond
`_FULL` bytes, its values are moved to a full cell. The cost of adding values therefore depends on the added values
only, and the number of cells stays small.
"""

from __future__ import annotations

from headrace.lowlevel.stored_names import named
from headrace.sdk.userstate.list_encoding import chunk, values_of
from headrace.sdk.userstate.state_spec import Cells, StateSpec

_NUMBER = 8
_NONE_FULL = bytes(_NUMBER)
_FULL = 4096
"""Size of the first cell, in bytes, beyond which its values are moved to a full cell."""


class BagState:
    """A bag of values, in the order in which they were added; storage is not read before `read` is called.

    >>> import headrace as beam
    >>> from headrace.transforms.userstate import BagStateSpec
    >>> class Remember(beam.DoFn):
    ...     STATE = BagStateSpec("seen")
    ...
    ...     def process(self, pair, state=beam.DoFn.StateParam(STATE)):
    ...         state.add(pair[1])
    ...         yield state.read()
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     _ = pipeline | beam.Create([("tea", 3), ("tea", 4)]) | beam.ParDo(Remember()) | beam.Map(print)
    [3]
    [3, 4]
    """

    __slots__ = ("_added", "_cells", "_cleared", "_spec", "_stored")

    def __init__(self, spec: BagStateSpec, cells: Cells) -> None:
        self._spec = spec
        self._cells = cells
        self._stored: list[object] | None = None
        self._added: list[object] = []
        self._cleared = False

    def read(self) -> list[object]:
        """All values, as a new list."""
        if self._stored is None:
            self._stored = self._load()
        return self._stored + self._added

    def add(self, value: object) -> None:
        """Add a value."""
        self._added.append(value)

    def clear(self) -> None:
        """Remove all values."""
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


@named("BagStateSpec")
class BagStateSpec(StateSpec[BagState]):
    """Declares a bag of values for each key and window: see `StateSpec`; the coder encodes one value.

    >>> BagStateSpec("waiting")
    BagStateSpec('waiting')
    """

    kind = b"b"

    def open(self, cells: Cells) -> BagState:
        """See `StateSpec`."""
        return BagState(self, cells)
