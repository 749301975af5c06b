"""How: contents of windows whose elements may be retracted: the elements themselves."""

from __future__ import annotations

from typing import cast

from headrace.lowlevel.topology.computation import Context
from headrace.sdk.combinefns.accumulators import Combiner
from headrace.sdk.operators.grouping.window_contents import ValueBuffer
from headrace.sdk.operators.grouping.window_state import WindowState

Member = tuple[object, bytes]
"""A value and the code of the window in which it arrived."""


class RetractableContents(ValueBuffer):
    """Keeps the values; if windows merge, each with its own window, as a session may split when a value is removed.

    A `CombineFn` is applied to all values again for each pane.
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
        """The values of a window, each with the window in which it arrived."""
        return cast("list[Member]", self.values(state, context))
