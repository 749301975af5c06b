"""Lazy pairs: two columns. Code that needs only the second items, such as a grouping, makes no pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import overload

Pair = tuple[object, object]


class LazyPairs(Sequence[Pair]):
    """A sequence of pairs (key, payload), each made when it is read.

    Args:
        firsts: Makes the list of all first items; called at most once.
        seconds: The list of all second items.

    >>> pairs = LazyPairs(lambda: ["a", "a"], [1, 2])
    >>> list(pairs), pairs[1], list(pairs[1:]), pairs.seconds
    ([('a', 1), ('a', 2)], ('a', 2), [('a', 2)], [1, 2])
    """

    def __init__(self, firsts: Callable[[], list[object]], seconds: list[object]) -> None:
        self._make = firsts
        self.seconds = seconds

    @cached_property
    def firsts(self) -> list[object]:
        """The first items."""
        return self._make()

    def __len__(self) -> int:
        return len(self.seconds)

    def __iter__(self) -> Iterator[Pair]:
        return zip(self.firsts, self.seconds, strict=True)

    @overload
    def __getitem__(self, index: int) -> Pair: ...

    @overload
    def __getitem__(self, index: slice) -> LazyPairs: ...

    def __getitem__(self, index: int | slice) -> Pair | LazyPairs:
        if isinstance(index, slice):
            return LazyPairs(lambda: self.firsts[index], self.seconds[index])
        return self.firsts[index], self.seconds[index]

    def __reduce__(self) -> tuple[object, ...]:
        return list, (list(self),)
