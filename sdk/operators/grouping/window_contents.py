"""How: what a window holds until it fires: values, or an accumulator of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Protocol, cast

from headrace.lowlevel.class_lookup import dumps, loads
from headrace.lowlevel.coders.coder import encode_key
from headrace.lowlevel.errors import KeyEncodingError
from headrace.lowlevel.topology.computation import Context
from headrace.sdk.combinefns.combine_fn import AbsentValueError, AnyCombineFn
from headrace.sdk.functions.changelog import retracts
from headrace.sdk.operators.grouping.window_state import EMPTY, WindowState

_VALUES = b"v"
"""First byte of the names of cells with values; the code of the window in which they arrived and a number follow."""


class Contents(Protocol):
    """The way in which windows hold their content, without state: the content itself is `WindowState.content`."""

    kind: str
    """What the content is, in words; two implementations with equal kinds can read each other's content."""
    is_signed: bool
    """Whether an item can be removed before it is added, so that the number of items may be negative meanwhile."""

    def add(self, state: WindowState, items: list[object]) -> None:
        """Add items to a window; the list must not be used afterwards."""

    def remove(self, state: WindowState, items: list[object], context: Context) -> list[object]:
        """Remove items; returns those that the window does not hold."""

    def merge(self, target: WindowState, parts: Sequence[WindowState]) -> None:
        """Move the content of the parts to `target`, which may be one of them."""

    def result(self, state: WindowState, context: Context) -> object:
        """The value of a pane with all content of the window."""

    def discard(self, state: WindowState, context: Context) -> None:
        """Empty the window and delete its stored content."""

    def pack(self, state: WindowState, context: Context) -> object:
        """The content as part of the window's record; values are written to cells of their own."""

    def unpack(self, packed: object) -> object:
        """The content from what `pack` returned."""


class Reduction:
    """Holds one accumulator."""

    kind = "an accumulator"

    def __init__(self, combine: AnyCombineFn) -> None:
        self._combine, self.is_signed = combine, combine.is_signed()

    def add(self, state: WindowState, items: list[object]) -> None:
        """See `Contents`."""
        content = self._combine.create_accumulator() if state.content is EMPTY else state.own_content()
        if len(items) == 1:
            state.hold_content(self._combine.add_input(content, items[0]))
        else:
            state.hold_content(self._combine.add_inputs(content, items))

    def remove(self, state: WindowState, items: list[object], context: Context) -> list[object]:
        """See `Contents`."""
        content = self._combine.create_accumulator() if state.content is EMPTY else state.own_content()
        missing: list[object] = []
        removable = len(items) if self.is_signed else max(0, state.live)
        for item in items:
            if not removable:
                missing.append(item)
                continue
            try:
                content = self._combine.remove_input(content, item)
                removable -= 1
            except AbsentValueError:
                missing.append(item)
        state.hold_content(content)
        return missing

    def merge(self, target: WindowState, parts: Sequence[WindowState]) -> None:
        """See `Contents`."""
        accumulators = [part.own_content() for part in parts if part.content is not EMPTY]
        if len(accumulators) > 1:
            target.hold_content(self._combine.merge_accumulators(accumulators))
        else:
            target.hold_content(accumulators[0] if accumulators else EMPTY)

    def result(self, state: WindowState, context: Context) -> object:
        """See `Contents`."""
        if state.content is EMPTY:
            return self._combine.extract_output(self._combine.create_accumulator())
        return self._combine.extract_output(state.share_content())

    def discard(self, state: WindowState, context: Context) -> None:
        """See `Contents`."""
        state.empty()

    def pack(self, state: WindowState, context: Context) -> object:
        """See `Contents`."""
        return self.packed(state)

    def packed(self, state: WindowState) -> object:
        """`pack` without a context: the record holds the whole content."""
        return None if state.content is EMPTY else (self._combine.compact(state.own_content()),)

    def unpack(self, packed: object) -> object:
        """See `Contents`."""
        return packed[0] if isinstance(packed, tuple) else EMPTY


class LiftedReduction(Reduction):
    """Holds one accumulator; the items are accumulators too, which several windows may share."""

    def add(self, state: WindowState, items: list[object]) -> None:
        """See `Contents`."""
        if state.content is EMPTY and len(items) == 1:
            state.hold_content(items[0])
            state.share_content()
        else:
            items.insert(0, self._combine.create_accumulator() if state.content is EMPTY else state.own_content())
            state.hold_content(self._combine.merge_accumulators(items))


class Chunks:
    """Values in the order of arrival: those stored earlier, and those of this bundle."""

    __slots__ = ("pending", "stored")

    def __init__(self, stored: list[tuple[bytes, int, int]], pending: list[object]) -> None:
        self.stored = stored
        """Ranges of cells: code of the window in which the values arrived, first number, number after the last."""
        self.pending = pending

    def cells(self) -> Iterator[bytes]:
        """Names of the cells with values."""
        for code, first, stop in self.stored:
            for number in range(first, stop):
                yield _cell(code, number)


class ValueBuffer:
    """Holds the values; each bundle appends a cell, so that adding never reads or rewrites earlier values.

    When windows merge, their cells stay as they are.
    """

    kind = "values"
    is_signed = False

    def __init__(self, merging: bool) -> None:
        self._merging = merging

    def add(self, state: WindowState, items: list[object]) -> None:
        """See `Contents`."""
        if isinstance(state.content, Chunks):
            state.content.pending.extend(items)
        else:
            state.hold_content(Chunks([], items))

    def remove(self, state: WindowState, items: list[object], context: Context) -> list[object]:
        """See `Contents`. Reads all values of the window, and writes the remaining ones again if any was found."""
        values = self.values(state, context)
        left, missing = matched(values, items)
        if len(left) < len(values):
            self._delete_cells(state, context)
            state.hold_content(Chunks([], [values[at] for at in left]))
        return missing

    def merge(self, target: WindowState, parts: Sequence[WindowState]) -> None:
        """See `Contents`."""
        chunks = [part.content for part in parts if isinstance(part.content, Chunks)]
        stored = [cells for each in chunks for cells in each.stored]
        target.hold_content(Chunks(stored, [value for each in chunks for value in each.pending]))

    def result(self, state: WindowState, context: Context) -> object:
        """See `Contents`."""
        return self.values(state, context)

    def values(self, state: WindowState, context: Context) -> list[object]:
        """All values of a window, read from its cells."""
        values: list[object] = []
        if isinstance(state.content, Chunks):
            for cell in state.content.cells():
                data = context.read(cell)
                assert data is not None, f"values of window {state.namespace.window} are stored in {cell!r}"
                values.extend(loads(data))
            values.extend(state.content.pending)
        return values

    def discard(self, state: WindowState, context: Context) -> None:
        """See `Contents`."""
        self._delete_cells(state, context)
        state.empty()

    def pack(self, state: WindowState, context: Context) -> object:
        """See `Contents`."""
        if not isinstance(state.content, Chunks):
            return None
        stored, pending = state.content.stored, state.content.pending
        if pending:
            self._append(state.namespace.code, stored, pending, context)
            state.hold_content(Chunks(stored, []))
        return stored

    def unpack(self, packed: object) -> object:
        """See `Contents`."""
        return Chunks(packed, []) if isinstance(packed, list) else EMPTY

    def _delete_cells(self, state: WindowState, context: Context) -> None:
        if isinstance(state.content, Chunks):
            for cell in state.content.cells():
                context.write(cell, None)

    def _append(
        self, code: bytes, stored: list[tuple[bytes, int, int]], pending: list[object], context: Context
    ) -> None:
        number = max((stop for own, _, stop in stored if own == code), default=0)
        # Another window owns the cells with the next numbers if an earlier window with these bounds merged into it.
        while self._merging and context.read(_cell(code, number)) is not None:
            number += 1
        context.write(_cell(code, number), dumps(pending))
        if stored and stored[-1][0] == code and stored[-1][2] == number:
            stored[-1] = (code, stored[-1][1], number + 1)
        else:
            stored.append((code, number, number + 1))


Member = tuple[object, bytes]
"""A value and the code of the window in which it arrived."""


class RetractableContents(ValueBuffer):
    """Keeps the values; if windows merge, each with its own window, as a session may split when a value is removed.

    A `CombineFn` is applied to all values again for each pane.
    """

    def __init__(self, merging: bool, combine: AnyCombineFn | None) -> None:
        super().__init__(merging)
        self._combine = combine
        if merging:
            self.kind = "values with their windows"

    def result(self, state: WindowState, context: Context) -> object:
        """See `Contents`."""
        values = self.values(state, context)
        if self._merging:
            values = [value for value, _ in cast("list[Member]", values)]
        if self._combine is None:
            return values
        combine = self._combine
        return combine.extract_output(combine.add_inputs(combine.create_accumulator(), values))

    def members(self, state: WindowState, context: Context) -> list[Member]:
        """The values of a window, each with the window in which it arrived."""
        return cast("list[Member]", self.values(state, context))


def stored_values(code: bytes, values: list[object]) -> tuple[object, dict[bytes, bytes]]:
    """The content of a window that holds values, as `ValueBuffer.pack` returns it, and its cells by name."""
    return [(code, 0, 1)], {_cell(code, 0): dumps(values)}


def _cell(code: bytes, number: int) -> bytes:
    return _VALUES + code + number.to_bytes(4, "big")


def matched(values: Sequence[object], removed: Sequence[object]) -> tuple[list[int], list[object]]:
    """The indices of the values that stay, and the removed values that are not there.

    Each removed value takes away at most one equal value.

    >>> matched([1, 2, 2, 3], [2, 7])
    ([0, 2, 3], [7])
    >>> matched([[1], [2]], [[1]])
    ([1], [])
    """
    try:
        to_remove = Counter(removed)
        stay = [at for at, value in enumerate(values) if not _remove(to_remove, value)]
        return stay, list(to_remove.elements())
    except TypeError:
        # Some values are not hashable.
        return _matched_unhashable(values, removed)


def _matched_unhashable(values: Sequence[object], removed: Sequence[object]) -> tuple[list[int], list[object]]:
    """Do what `matched` does: by codes, which equal values mostly have in common, then one by one."""
    at_code: dict[bytes, list[int]] = {}
    for at, value in enumerate(values):
        if (code := _code(value)) is not None:
            at_code.setdefault(code, []).append(at)
    gone, rest, missing = set[int](), list[object](), list[object]()
    for target in removed:
        if (code := _code(target)) is not None and (found := at_code.get(code)):
            gone.add(found.pop(0))
        else:
            rest.append(target)
    for target in rest:
        index = next((at for at, value in enumerate(values) if at not in gone and retracts(target, value)), None)
        if index is None:
            missing.append(target)
        else:
            gone.add(index)
    return [at for at in range(len(values)) if at not in gone], missing


def _code(value: object) -> bytes | None:
    try:
        return encode_key(value)
    except KeyEncodingError:
        return None


def _remove(to_remove: Counter[object], value: object) -> bool:
    """Whether a value is to be removed; if so, the counter decreases by one."""
    if not to_remove.get(value):
        return False
    to_remove[value] -= 1
    return True
