"""What: a set of values for each key and window (`SetStateSpec`).

Each value has a cell, so that adding a value reads no other value.
"""

from __future__ import annotations

from hashlib import blake2b

from headrace.lowlevel.coders.coder import encode_key
from headrace.lowlevel.errors import KeyEncodingError
from headrace.lowlevel.stored_names import named
from headrace.sdk.userstate.state_spec import Cells, StateSpec


class SetState:
    """A set of values, which are distinct by Python's `==` and `hash`.

    >>> import headrace as beam
    >>> from headrace.transforms.userstate import SetStateSpec
    >>> class Remember(beam.DoFn):
    ...     STATE = SetStateSpec("seen")
    ...
    ...     def process(self, pair, state=beam.DoFn.StateParam(STATE)):
    ...         state.add(pair[1])
    ...         yield len(state.read())
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     _ = pipeline | beam.Create([("tea", 3), ("tea", 3)]) | beam.ParDo(Remember()) | beam.Map(print)
    1
    1
    """

    __slots__ = ("_added", "_cells", "_cleared", "_spec", "_stored")

    def __init__(self, spec: SetStateSpec, cells: Cells) -> None:
        self._spec = spec
        self._cells = cells
        self._stored: set[object] | None = None
        self._added: set[object] = set()
        self._cleared = False

    def read(self) -> set[object]:
        """All values, as a new set."""
        if self._stored is None:
            decode = self._spec.coder.decode
            self._stored = {decode(data) for _, data in self._cells.scan(self._spec.cell)}
        return self._stored | self._added

    def add(self, value: object) -> None:
        """Add a value, which must be hashable."""
        self._added.add(value)

    def clear(self) -> None:
        """Remove all values."""
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
        """Name of the cell of a value. Equal values with different cells become one value when they are read."""
        try:
            code = encode_key(value)
        except KeyEncodingError:
            code = self._spec.encode(value)
        return self._spec.cell + blake2b(code, digest_size=16).digest()


@named("SetStateSpec")
class SetStateSpec(StateSpec[SetState]):
    """Declares a set of values for each key and window: see `StateSpec`; the coder encodes one value.

    >>> SetStateSpec("seen")
    SetStateSpec('seen')
    """

    kind = b"s"

    def open(self, cells: Cells) -> SetState:
        """See `StateSpec`."""
        return SetState(self, cells)
