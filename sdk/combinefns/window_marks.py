"""What: elements that are no values, which let the global window be there also if nothing else comes."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from headrace.sdk.transforms.combinefn import AnyCombineFn, CurriedCombineFn


class Mark(Enum):
    """An element that is no value."""

    MARK = 0


class SkippingMarks(CurriedCombineFn):
    """A CombineFn that does not see marks.

    >>> from headrace.sdk.transforms.numeric import SumFn
    >>> SkippingMarks(SumFn()).add_inputs(1, [2, Mark.MARK])
    3
    """

    def __init__(self, combine_fn: AnyCombineFn) -> None:
        super().__init__(combine_fn, (), {})

    def add_input(self, accumulator: object, element: object) -> object:
        """See `CombineFn`."""
        return accumulator if element is Mark.MARK else self.inner.add_input(accumulator, element)

    def add_inputs(self, accumulator: object, elements: Iterable[object]) -> object:
        """See `CombineFn`."""
        return self.inner.add_inputs(accumulator, [element for element in elements if element is not Mark.MARK])

    def remove_input(self, accumulator: object, element: object) -> object:
        """See `CombineFn`."""
        return accumulator if element is Mark.MARK else self.inner.remove_input(accumulator, element)
