"""How: the content of a window from which elements are taken back, where only the elements can tell the rest."""

from __future__ import annotations

from typing import cast

from headrace.lowlevel.computation import Context
from headrace.sdk.contents import Combiner, ValueBuffer
from headrace.sdk.windowstate import WindowState

Member = tuple[object, bytes]
"""A value, and the code of the window that it came with."""


class Ledger(ValueBuffer):
    """Keeps the values; if windows merge, each with the window it came with: without one a session may fall apart.

    A `CombineFn` without an inverse is applied to all of them for each pane.
    """

    def __init__(self, merging: bool, combine: Combiner | None) -> None:
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
        """What the window holds, each value with the window it came with."""
        return cast("list[Member]", self.values(state, context))
