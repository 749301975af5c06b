"""What: several combiners at once, on the same values or on the items of tuples."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from typing import cast

from headrace.sdk.transforms.combinefn import AnyCombineFn, CombineFn, Combining, curried


class SingleInputTupleCombineFn(CombineFn[object, tuple[object, ...], tuple[object, ...]]):
    """Several combiners on the same values; the result is the tuple of their results.

    >>> SingleInputTupleCombineFn(min, max).apply([3, 7, 5])
    (3, 7)
    """

    def __init__(self, *combiners: Combining) -> None:
        self._combiners = list(map(curried, combiners))

    def with_arguments(self, args: tuple[object, ...], kwargs: dict[str, object]) -> AnyCombineFn:
        """The same with further arguments, which go to all of them."""
        return cast(AnyCombineFn, type(self)(*(part.with_arguments(args, kwargs) for part in self._combiners)))

    @property
    def combiners(self) -> list[AnyCombineFn]:
        """The single ones."""
        return self._combiners

    def setup(self) -> None:
        """See `CombineFn`. If one fails, those before it are torn down."""
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
        return tuple(combiner.add_input(part, value) for combiner, part, value in parts)

    def remove_input(self, accumulator: tuple[object, ...], element: object) -> tuple[object, ...]:
        """See `CombineFn`."""
        parts = zip(self._combiners, accumulator, self._elements(element), strict=True)
        return tuple(combiner.remove_input(part, value) for combiner, part, value in parts)

    def is_invertible(self) -> bool:
        """Whether all of them are."""
        return all(combiner.is_invertible() for combiner in self._combiners)

    def merge_accumulators(self, accumulators: Iterable[tuple[object, ...]]) -> tuple[object, ...]:
        """See `CombineFn`."""
        columns = zip(*accumulators, strict=True)
        return tuple(
            combiner.merge_accumulators(column) for combiner, column in zip(self._combiners, columns, strict=True)
        )

    def compact(self, accumulator: tuple[object, ...]) -> tuple[object, ...]:
        """See `CombineFn`."""
        return tuple(combiner.compact(part) for combiner, part in zip(self._combiners, accumulator, strict=True))

    def extract_output(self, accumulator: tuple[object, ...]) -> tuple[object, ...]:
        """See `CombineFn`."""
        return tuple(combiner.extract_output(part) for combiner, part in zip(self._combiners, accumulator, strict=True))

    def teardown(self) -> None:
        """See `CombineFn`. All of them are torn down, even if one fails."""
        with ExitStack() as ending:
            for combiner in self._combiners:
                ending.callback(combiner.teardown)

    def has_teardown(self) -> bool:
        """Whether that of one of them does anything."""
        return any(combiner.has_teardown() for combiner in self._combiners)


class TupleCombineFn(SingleInputTupleCombineFn):
    """A combiner for each item of tuples; the result is the tuple of their results.

    >>> TupleCombineFn(sum, max).apply([(1, "a"), (2, "c"), (3, "b")])
    (6, 'c')
    """

    def _elements(self, element: object) -> Iterable[object]:
        return cast(tuple[object, ...], element)

    def with_common_input(self) -> SingleInputTupleCombineFn:
        """The same combiners, all on the whole value."""
        return SingleInputTupleCombineFn(*self._combiners)
