"""What a window holds until its pane is fired: the values themselves, or an accumulator of them."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from headrace.lowlevel.computation import Context
from headrace.sdk.multiset import without
from headrace.sdk.windowstate import EMPTY, WindowState

_VALUES = b"v"
"""First byte of the names of cells with values; the code of the window they came to and a number follow."""
_UNCHANGING = frozenset([int, float, bool, str, bytes, type(None)])


class Combiner(Protocol):
    """The part of a `CombineFn` that a grouping calls."""

    def setup(self) -> None:
        """Called before anything is combined."""

    def teardown(self) -> None:
        """Called after the last."""

    def has_teardown(self) -> bool:
        """Whether `teardown` does anything."""

    def create_accumulator(self) -> object:
        """The accumulator of nothing."""

    def add_input(self, accumulator: object, element: object, /) -> object:
        """The accumulator with an element more."""

    def add_inputs(self, accumulator: object, elements: Iterable[object], /) -> object:
        """The accumulator with many elements more."""

    def merge_accumulators(self, accumulators: Iterable[object], /) -> object:
        """One accumulator of several."""

    def compact(self, accumulator: object, /) -> object:
        """The accumulator in fewer bytes."""

    def extract_output(self, accumulator: object, /) -> object:
        """The result."""

    def remove_input(self, accumulator: object, element: object, /) -> object:
        """The accumulator without an element that was added; only where `has_inverse` says that it can."""


class Contents(Protocol):
    """How the content of windows is kept. Configuration only: the content itself is `WindowState.content`."""

    kind: str
    """What is kept, in a reader's words; equal where one can read what another has stored."""

    def add(self, state: WindowState, items: list[object]) -> None:
        """Put items in; the list is given away."""

    def remove(self, state: WindowState, items: list[object], context: Context) -> int:
        """Take out items that were put in; how many of them were there."""

    def merge(self, target: WindowState, parts: Sequence[WindowState]) -> None:
        """Give `target`, which may be one of the parts, what the parts hold."""

    def result(self, state: WindowState, context: Context) -> object:
        """The value of a pane with all that the window holds."""

    def discard(self, state: WindowState, context: Context) -> None:
        """Make the window empty and free what it takes up."""

    def pack(self, state: WindowState, context: Context) -> object:
        """The content for the record, its bulk written to cells of its own."""

    def unpack(self, packed: object) -> object:
        """The content that was packed."""


class Reduction:
    """Keeps one accumulator."""

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
        """The content for the record, which has all of it."""
        return None if state.content is EMPTY else (self._combine.compact(self._own(state)),)

    def unpack(self, packed: object) -> object:
        """See `Contents`."""
        return packed[0] if isinstance(packed, tuple) else EMPTY

    def _own(self, state: WindowState) -> object:
        """The accumulator, copied if a pane may hold the very same object."""
        if state.shared:
            state.content = private_copy(state.content)
        state.shared = False
        return state.content


class LiftedReduction(Reduction):
    """Keeps one accumulator; what comes in are accumulators too, which several windows may share."""

    def add(self, state: WindowState, items: list[object]) -> None:
        """See `Contents`."""
        if state.content is EMPTY and len(items) == 1:
            state.content = items[0]
            state.shared = True
        else:
            items.insert(0, self._combine.create_accumulator() if state.content is EMPTY else self._own(state))
            state.content = self._combine.merge_accumulators(items)


class Chunks:
    """Values in the order in which they came: those stored earlier, and those of this bundle."""

    __slots__ = ("pending", "stored")

    def __init__(self, stored: list[tuple[bytes, int, int]], pending: list[object]) -> None:
        self.stored = stored
        """Ranges of cells: code of the window they came to, first number, number after the last."""
        self.pending = pending

    def cells(self) -> Iterator[bytes]:
        """Names of the cells with values."""
        for code, first, stop in self.stored:
            for number in range(first, stop):
                yield _cell(code, number)


class ValueBuffer:
    """Keeps the values, those of each bundle in a cell of their own: to append costs what is appended.

    Windows that merge pass their cells on as they are.
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
        """See `Contents`. Costs reading all of them: those that are left are written anew."""
        values = self.values(state, context)
        left = without(values, items)
        self.discard(state, context)
        state.content = Chunks([], left)
        return len(values) - len(left)

    def merge(self, target: WindowState, parts: Sequence[WindowState]) -> None:
        """See `Contents`."""
        chunks = [part.content for part in parts if isinstance(part.content, Chunks)]
        stored = [stretch for each in chunks for stretch in each.stored]
        target.content = Chunks(stored, [value for each in chunks for value in each.pending])

    def result(self, state: WindowState, context: Context) -> object:
        """See `Contents`."""
        return self.values(state, context)

    def values(self, state: WindowState, context: Context) -> list[object]:
        """What the window holds."""
        values: list[object] = []
        if isinstance(state.content, Chunks):
            for cell in state.content.cells():
                data = context.read(cell)
                assert data is not None, f"values of window {state.frame.window} are stored in {cell!r}"
                values.extend(pickle.loads(data))
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
            self._append(state.frame.code, stored, pending, context)
            state.content = Chunks(stored, [])
        return stored

    def unpack(self, packed: object) -> object:
        """See `Contents`."""
        return Chunks(packed, []) if isinstance(packed, list) else EMPTY

    def _append(
        self, code: bytes, stored: list[tuple[bytes, int, int]], pending: list[object], context: Context
    ) -> None:
        number = max((stop for own, _, stop in stored if own == code), default=0)
        # A window of the same bounds may have merged into another, which then owns the cells with these numbers.
        while self._merging and context.read(_cell(code, number)) is not None:
            number += 1
        context.write(_cell(code, number), pickle.dumps(pending, pickle.HIGHEST_PROTOCOL))
        if stored and stored[-1][0] == code and stored[-1][2] == number:
            stored[-1] = (code, stored[-1][1], number + 1)
        else:
            stored.append((code, number, number + 1))


def _cell(code: bytes, number: int) -> bytes:
    return _VALUES + code + number.to_bytes(4, "big")


def private_copy(value: object) -> object:
    """A copy that nobody else holds; the value itself if it can never change."""
    if type(value) in _UNCHANGING:
        return value
    return pickle.loads(pickle.dumps(value, pickle.HIGHEST_PROTOCOL))
