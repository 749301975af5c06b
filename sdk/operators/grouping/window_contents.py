"""How: what a window holds until it fires: values, or an accumulator of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from headrace.lowlevel.class_lookup import dumps, loads
from headrace.lowlevel.topology.computation import Context
from headrace.sdk.combinefns.accumulators import Combiner, private_copy
from headrace.sdk.operators.grouping.multiset import without
from headrace.sdk.operators.grouping.window_state import EMPTY, WindowState

_VALUES = b"v"
"""First byte of the names of cells with values; the code of the window in which they arrived and a number follow."""


class Contents(Protocol):
    """The way in which windows hold their content, without state: the content itself is `WindowState.content`."""

    kind: str
    """What the content is, in words; two implementations with equal kinds can read each other's content."""

    def add(self, state: WindowState, items: list[object]) -> None:
        """Add items to a window; the list must not be used afterwards."""

    def remove(self, state: WindowState, items: list[object], context: Context) -> int:
        """Remove items; returns how many of them were found."""

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

    def __init__(self, combine: Combiner) -> None:
        self._combine = combine

    def add(self, state: WindowState, items: list[object]) -> None:
        """See `Contents`."""
        content = self._combine.create_accumulator() if state.content is EMPTY else self._own(state)
        if len(items) == 1:
            state.content = self._combine.add_input(content, items[0])
        else:
            state.content = self._combine.add_inputs(content, items)

    def remove(self, state: WindowState, items: list[object], context: Context) -> int:
        """See `Contents`."""
        found = items[: state.live]
        if found:
            content = self._own(state)
            for item in found:
                content = self._combine.remove_input(content, item)
            state.content = content
        return len(found)

    def merge(self, target: WindowState, parts: Sequence[WindowState]) -> None:
        """See `Contents`."""
        accumulators = [self._own(part) for part in parts if part.content is not EMPTY]
        if len(accumulators) > 1:
            target.content = self._combine.merge_accumulators(accumulators)
        else:
            target.content = accumulators[0] if accumulators else EMPTY

    def result(self, state: WindowState, context: Context) -> object:
        """See `Contents`."""
        if state.content is EMPTY:
            return self._combine.extract_output(self._combine.create_accumulator())
        state.shared = True
        return self._combine.extract_output(state.content)

    def discard(self, state: WindowState, context: Context) -> None:
        """See `Contents`."""
        state.content = EMPTY
        state.shared = False

    def pack(self, state: WindowState, context: Context) -> object:
        """See `Contents`."""
        return self.packed(state)

    def packed(self, state: WindowState) -> object:
        """`pack` without a context: the record holds the whole content."""
        return None if state.content is EMPTY else (self._combine.compact(self._own(state)),)

    def unpack(self, packed: object) -> object:
        """See `Contents`."""
        return packed[0] if isinstance(packed, tuple) else EMPTY

    def _own(self, state: WindowState) -> object:
        """The accumulator; a copy if a pane or another window may hold the same object."""
        if state.shared:
            state.content = private_copy(state.content)
        state.shared = False
        return state.content


class LiftedReduction(Reduction):
    """Holds one accumulator; the items are accumulators too, which several windows may share."""

    def add(self, state: WindowState, items: list[object]) -> None:
        """See `Contents`."""
        if state.content is EMPTY and len(items) == 1:
            state.content = items[0]
            state.shared = True
        else:
            items.insert(0, self._combine.create_accumulator() if state.content is EMPTY else self._own(state))
            state.content = self._combine.merge_accumulators(items)


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

    def __init__(self, merging: bool) -> None:
        self._merging = merging

    def add(self, state: WindowState, items: list[object]) -> None:
        """See `Contents`."""
        if isinstance(state.content, Chunks):
            state.content.pending.extend(items)
        else:
            state.content = Chunks([], items)

    def remove(self, state: WindowState, items: list[object], context: Context) -> int:
        """See `Contents`. Reads all values of the window, and writes the remaining ones again."""
        values = self.values(state, context)
        left = without(values, items)
        self.discard(state, context)
        state.content = Chunks([], left)
        return len(values) - len(left)

    def merge(self, target: WindowState, parts: Sequence[WindowState]) -> None:
        """See `Contents`."""
        chunks = [part.content for part in parts if isinstance(part.content, Chunks)]
        stored = [cells for each in chunks for cells in each.stored]
        target.content = Chunks(stored, [value for each in chunks for value in each.pending])

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
        if isinstance(state.content, Chunks):
            for cell in state.content.cells():
                context.write(cell, None)
        state.content = EMPTY

    def pack(self, state: WindowState, context: Context) -> object:
        """See `Contents`."""
        if not isinstance(state.content, Chunks):
            return None
        stored, pending = state.content.stored, state.content.pending
        if pending:
            self._append(state.namespace.code, stored, pending, context)
            state.content = Chunks(stored, [])
        return stored

    def unpack(self, packed: object) -> object:
        """See `Contents`."""
        return Chunks(packed, []) if isinstance(packed, list) else EMPTY

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


def stored_values(code: bytes, values: list[object]) -> tuple[object, dict[bytes, bytes]]:
    """The content of a window that holds values, as `ValueBuffer.pack` returns it, and its cells by name."""
    return [(code, 0, 1)], {_cell(code, 0): dumps(values)}


def _cell(code: bytes, number: int) -> bytes:
    return _VALUES + code + number.to_bytes(4, "big")
