"""What: combiners that are made of others: tuples of them, and one that passes over marks of empty windows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from copy import copy
from enum import Enum
from typing import cast

from headrace.lowlevel.stored_names import named, stored_as
from headrace.sdk.combinefns.combine_fn import AnyCombineFn, CombineFn, Combining, CurriedCombineFn, curried


@named("SingleInputTupleCombineFn")
class SingleInputTupleCombineFn(CombineFn[object, tuple[object, ...], tuple[object, ...]]):
    """Applies several combiners to the same values; the result is the tuple of their results.

    >>> SingleInputTupleCombineFn(min, max).apply([3, 7, 5])
    (3, 7)
    """

    _names: Sequence[str] = ()
    """What the combiners are called in errors."""

    def __init__(self, *combiners: Combining) -> None:
        self._combiners = list(map(curried, combiners))

    def with_arguments(self, args: tuple[object, ...], kwargs: dict[str, object]) -> AnyCombineFn:
        """The same combiners with further arguments for all of them."""
        return cast(AnyCombineFn, type(self)(*(part.with_arguments(args, kwargs) for part in self._combiners)))

    @property
    def combiners(self) -> list[AnyCombineFn]:
        """The combiners, in order."""
        return self._combiners

    def setup(self) -> None:
        """See `CombineFn`. If a combiner fails, the combiners before it are torn down."""
        with ExitStack() as ending:
            for combiner in self._combiners:
                combiner.setup()
                ending.callback(combiner.teardown)
            ending.pop_all()

    def create_accumulator(self) -> tuple[object, ...]:
        """See `CombineFn`."""
        return tuple(combiner.create_accumulator() for combiner in self._combiners)

    def _elements(self, element: object) -> Iterable[object]:
        return [element] * len(self._combiners)

    def add_input(self, accumulator: tuple[object, ...], element: object) -> tuple[object, ...]:
        """See `CombineFn`."""
        parts = zip(self._combiners, accumulator, self._elements(element), strict=True)
        return self._each(combiner.add_input(part, value) for combiner, part, value in parts)

    def remove_input(self, accumulator: tuple[object, ...], element: object) -> tuple[object, ...]:
        """See `CombineFn`."""
        parts = zip(self._combiners, accumulator, self._elements(element), strict=True)
        return self._each(combiner.remove_input(part, value) for combiner, part, value in parts)

    def is_invertible(self) -> bool:
        """Whether all combiners have an inverse."""
        return all(combiner.is_invertible() for combiner in self._combiners)

    def is_signed(self) -> bool:
        """Whether all combiners take values back before they come."""
        return all(combiner.is_signed() for combiner in self._combiners)

    def merge_accumulators(self, accumulators: Iterable[tuple[object, ...]]) -> tuple[object, ...]:
        """See `CombineFn`."""
        columns = zip(*accumulators, strict=True)
        parts = zip(self._combiners, columns, strict=True)
        return self._each(combiner.merge_accumulators(column) for combiner, column in parts)

    def compact(self, accumulator: tuple[object, ...]) -> tuple[object, ...]:
        """See `CombineFn`."""
        parts = zip(self._combiners, accumulator, strict=True)
        return self._each(combiner.compact(part) for combiner, part in parts)

    def extract_output(self, accumulator: tuple[object, ...]) -> tuple[object, ...]:
        """See `CombineFn`."""
        parts = zip(self._combiners, accumulator, strict=True)
        return self._each(combiner.extract_output(part) for combiner, part in parts)

    def _each(self, results: Iterable[object]) -> tuple[object, ...]:
        """The results of the combiners, in order. An error gets a note that says whose it is."""
        found: list[object] = []
        try:
            found.extend(results)
        except Exception as error:
            if len(found) < len(self._names):
                remedy = "; leave nulls out before, or give them another value" if "NoneType" in str(error) else ""
                error.add_note(f"while {self._names[len(found)]} was combined{remedy}")
            raise
        return tuple(found)

    def teardown(self) -> None:
        """See `CombineFn`. All combiners are torn down, even if one fails."""
        with ExitStack() as ending:
            for combiner in self._combiners:
                ending.callback(combiner.teardown)

    def has_teardown(self) -> bool:
        """Whether any combiner has a `teardown`."""
        return any(combiner.has_teardown() for combiner in self._combiners)


@named("TupleCombineFn")
class TupleCombineFn(SingleInputTupleCombineFn):
    """Applies one combiner to each item of tuples; the result is the tuple of their results.

    >>> TupleCombineFn(sum, max).apply([(1, "a"), (2, "c"), (3, "b")])
    (6, 'c')
    """

    def _elements(self, element: object) -> Iterable[object]:
        return cast(tuple[object, ...], element)

    def with_common_input(self) -> SingleInputTupleCombineFn:
        """The same combiners, each applied to the whole value."""
        return SingleInputTupleCombineFn(*self._combiners)


def with_names(combine: TupleCombineFn, names: Sequence[str]) -> TupleCombineFn:
    """The same combiners with names for errors, such as the fields that they combine."""
    copied = copy(combine)
    copied._names = tuple(names)
    return copied


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
