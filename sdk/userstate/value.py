"""What: one value for each key and window (`ReadModifyWriteStateSpec`)."""

from __future__ import annotations

from headrace.lowlevel.stored_names import named
from headrace.sdk.userstate.state_spec import Cells, StateSpec

_UNREAD = object()


class ReadModifyWriteState:
    """A value that is read and replaced; it must not be changed in place without a call of `write`.

    >>> import headrace as beam
    >>> from headrace.transforms.userstate import ReadModifyWriteStateSpec
    >>> class Remember(beam.DoFn):
    ...     STATE = ReadModifyWriteStateSpec("last")
    ...
    ...     def process(self, pair, state=beam.DoFn.StateParam(STATE)):
    ...         yield state.read()
    ...         state.write(pair[1])
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     _ = pipeline | beam.Create([("tea", 3), ("tea", 4)]) | beam.ParDo(Remember()) | beam.Map(print)
    None
    3
    """

    __slots__ = ("_cells", "_changed", "_spec", "_value")

    def __init__(self, spec: ReadModifyWriteStateSpec, cells: Cells) -> None:
        self._spec = spec
        self._cells = cells
        self._value: object = _UNREAD
        self._changed = False

    def read(self) -> object:
        """The value that was written last; None if there is none."""
        if self._value is _UNREAD:
            data = self._cells.read(self._spec.cell)
            self._value = None if data is None else self._spec.coder.decode(data)
        return self._value

    def write(self, value: object) -> None:
        """Replace the value; None removes the value."""
        self._value = value
        self._changed = True

    def clear(self) -> None:
        """Remove the value."""
        self.write(None)

    def store(self) -> None:
        """See `State`."""
        if not self._changed:
            return
        if self._value is None:
            self._cells.erase(self._spec.cell)
        else:
            self._cells.write(self._spec.cell, self._spec.encode(self._value))


@named("ReadModifyWriteStateSpec")
class ReadModifyWriteStateSpec(StateSpec[ReadModifyWriteState]):
    """Declares one value for each key and window: see `StateSpec`.

    >>> ReadModifyWriteStateSpec("last")
    ReadModifyWriteStateSpec('last')
    """

    kind = b"v"

    def open(self, cells: Cells) -> ReadModifyWriteState:
        """See `StateSpec`."""
        return ReadModifyWriteState(self, cells)
