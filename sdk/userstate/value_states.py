"""What: states of one value for each key and window: replaced (`ReadModifyWriteStateSpec`), or combined."""

from __future__ import annotations

from typing import cast

from headrace.lowlevel.coders.coder import Coder
from headrace.lowlevel.stored_names import named
from headrace.sdk.combinefns.combine_fn import (
    AnyCombineFn,
    Combining,
    combiner_kind,
    curried,
    private_copy,
    require_combiner,
)
from headrace.sdk.userstate.state_spec import Cells, StateSpec

_UNREAD = object()
_NOTHING = object()


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

    __slots__ = ("_cells", "_changed", "_data", "_spec", "_value")

    def __init__(self, spec: ReadModifyWriteStateSpec, cells: Cells) -> None:
        self._spec = spec
        self._cells = cells
        self._value: object = _UNREAD
        self._data: bytes | None = None
        """What the value was decoded from, if it was."""
        self._changed = False

    def read(self) -> object:
        """The value that was written last; None if there is none."""
        if self._value is _UNREAD:
            data = self._data = self._cells.read(self._spec.cell)
            self._value = None if data is None else self._cells.decode(self._spec.coder, data)
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
            if self._data is not None:
                self._cells.left_unchanged(self._spec.coder, self._data, self._value)
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


class CombiningValueState:
    """The combined value of all values that were added.

    >>> import headrace as beam
    >>> from headrace.transforms.userstate import CombiningValueStateSpec
    >>> class Remember(beam.DoFn):
    ...     STATE = CombiningValueStateSpec("total", sum)
    ...
    ...     def process(self, pair, state=beam.DoFn.StateParam(STATE)):
    ...         state.add(pair[1])
    ...         yield state.read()
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     _ = pipeline | beam.Create([("tea", 3), ("tea", 4)]) | beam.ParDo(Remember()) | beam.Map(print)
    3
    7
    """

    __slots__ = ("_accumulator", "_cells", "_changed", "_data", "_shared", "_spec")

    def __init__(self, spec: CombiningValueStateSpec, cells: Cells) -> None:
        self._spec = spec
        self._cells = cells
        self._accumulator: object = _UNREAD
        self._data: bytes | None = None
        """What the accumulator was decoded from, if it was."""
        self._changed = False
        self._shared = False

    def read(self) -> object:
        """The output of the `CombineFn` for all values, or for no values if there are none."""
        # The result may be the accumulator itself, or contain parts of it.
        self._shared = True
        return self._spec.combine_fn.extract_output(self._loaded())

    def add(self, value: object) -> None:
        """Combine a value with the values before."""
        accumulator = private_copy(self._loaded()) if self._shared else self._loaded()
        self._shared = False
        self._accumulator = self._spec.combine_fn.add_input(accumulator, value)
        self._changed = True

    def clear(self) -> None:
        """Remove all values."""
        self._accumulator = _NOTHING
        self._changed, self._shared = True, False

    def store(self) -> None:
        """See `State`."""
        if not self._changed:
            if self._data is not None:
                self._cells.left_unchanged(self._spec.coder, self._data, self._accumulator)
            return
        spec = self._spec
        if self._accumulator is _NOTHING:
            self._cells.erase(spec.cell)
        else:
            own = private_copy(self._accumulator) if self._shared else self._accumulator
            self._cells.write(spec.cell, spec.encode(spec.combine_fn.compact(own)))

    def _loaded(self) -> object:
        """The accumulator; an empty accumulator if there are no values."""
        if self._accumulator is _UNREAD:
            data = self._data = self._cells.read(self._spec.cell)
            self._accumulator = _NOTHING if data is None else self._cells.decode(self._spec.coder, data)
        return self._spec.combine_fn.create_accumulator() if self._accumulator is _NOTHING else self._accumulator


@named("CombiningValueStateSpec")
class CombiningValueStateSpec(StateSpec[CombiningValueState]):
    """Declares a state whose values are combined when they are added.

    Args:
        name: As for `StateSpec`.
        coder: Coder of the accumulator, as for `StateSpec`; may be left out: `CombiningValueStateSpec(name,
            combine_fn)`.
        combine_fn: A `CombineFn`, or a function of an iterable such as `sum`. Raises ValueError if it is missing.

    >>> CombiningValueStateSpec("total", sum).combine_fn.apply([1, 2])
    3
    """

    kind = b"c"

    def __init__(self, name: str, coder: Coder | Combining | None = None, combine_fn: Combining | None = None) -> None:
        its_coder, combine = (None, coder) if combine_fn is None else (coder, combine_fn)
        if combine is None:
            raise ValueError(f"CombiningValueStateSpec {name!r} takes a CombineFn or a function, such as sum")
        super().__init__(name, cast("Coder | None", its_coder))
        require_combiner(combine)
        self.combine_fn: AnyCombineFn = curried(cast(Combining, combine))

    def aspect(self) -> tuple[str, str]:
        """See `StateSpec`; the combiner is included."""
        name, kind = super().aspect()
        return name, f"{kind} of {combiner_kind(self.combine_fn)}"

    def open(self, cells: Cells) -> CombiningValueState:
        """See `StateSpec`."""
        return CombiningValueState(self, cells)
