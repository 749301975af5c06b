"""What: the mark, an element without a value that makes an empty global window emit a result."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from headrace.lowlevel.stored_names import named, stored_as
from headrace.sdk.combinefns.combine_fn import AnyCombineFn, CurriedCombineFn


@stored_as("DefaultMark")
class GlobalWindowMark(Enum):
    """The mark in the global window; it is not a value."""

    MARK = 0


@named("SkippingMarks")
class SkippingMarks(CurriedCombineFn):
    """A CombineFn that passes all elements except marks to another CombineFn.

    >>> from headrace.sdk.combinefns.numeric import SumFn
    >>> SkippingMarks(SumFn()).add_inputs(1, [2, GlobalWindowMark.MARK])
    3
    """

    def __init__(self, combine_fn: AnyCombineFn) -> None:
        super().__init__(combine_fn, (), {})

    def add_input(self, accumulator: object, element: object) -> object:
        """See `CombineFn`."""
        return accumulator if element is GlobalWindowMark.MARK else self.inner.add_input(accumulator, element)

    def add_inputs(self, accumulator: object, elements: Iterable[object]) -> object:
        """See `CombineFn`."""
        return self.inner.add_inputs(
            accumulator, [element for element in elements if element is not GlobalWindowMark.MARK]
        )

    def remove_input(self, accumulator: object, element: object) -> object:
        """See `CombineFn`."""
        return accumulator if element is GlobalWindowMark.MARK else self.inner.remove_input(accumulator, element)
