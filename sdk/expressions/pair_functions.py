"""Functions that make pairs of elements and elements of pairs, also for whole columns at once."""

from __future__ import annotations

from headrace.lowlevel.records.column_batch import ValueSchema
from headrace.sdk.expressions.batch_view import BatchView
from headrace.sdk.expressions.element_schema import pair

Pair = tuple[object, object]


class PairFunction:
    """A function of pairs, known by what it does with their columns."""

    def column_parts(self) -> tuple[()]:
        """See `ColumnFunction`."""
        return ()


class Second(PairFunction):
    """The value of a pair, as of key and value."""

    def __call__(self, both: Pair) -> object:
        """See the class."""
        return both[1]

    def on_columns(self, view: BatchView) -> ValueSchema:
        """See `ColumnFunction`."""
        return view.pair()[1]


class UnderNone(PairFunction):
    """Pairs of None and the element: all elements under one key."""

    def __call__(self, element: object) -> tuple[None, object]:
        """See the class."""
        return None, element

    def on_columns(self, view: BatchView) -> ValueSchema:
        """See `ColumnFunction`."""
        return pair(view.nothing(), view.shape)


class WithNothing(PairFunction):
    """Pairs of the element and None: only how often it comes is asked for."""

    def __call__(self, element: object) -> tuple[object, None]:
        """See the class."""
        return element, None

    def on_columns(self, view: BatchView) -> ValueSchema:
        """See `ColumnFunction`."""
        return pair(view.shape, view.nothing())
