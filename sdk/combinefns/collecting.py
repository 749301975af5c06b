"""What: combiners that keep some of the values, or all of them."""

from __future__ import annotations

import heapq
import random
from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from itertools import chain, islice
from typing import TypeVar, cast

from headrace.lowlevel.time import Timestamp
from headrace.sdk.transforms.combinefn import CombineFn
from headrace.sdk.transforms.numbers import is_whole

T = TypeVar("T")
H = TypeVar("H", bound=Hashable)
K = TypeVar("K", bound=Hashable)


class ToListCombineFn(CombineFn[T, list[T], list[T]]):
    """All values, in no particular order."""

    def create_accumulator(self) -> list[T]:
        """See `CombineFn`."""
        return []

    def add_input(self, accumulator: list[T], element: T) -> list[T]:
        """See `CombineFn`."""
        accumulator.append(element)
        return accumulator

    def add_inputs(self, accumulator: list[T], elements: Iterable[T]) -> list[T]:
        """See `CombineFn`."""
        accumulator.extend(elements)
        return accumulator

    def remove_input(self, accumulator: list[T], element: T) -> list[T]:
        """See `CombineFn`. It looks through the values for one that is equal."""
        accumulator.remove(element)
        return accumulator

    def merge_accumulators(self, accumulators: Iterable[list[T]]) -> list[T]:
        """See `CombineFn`."""
        return [value for accumulator in accumulators for value in accumulator]

    def extract_output(self, accumulator: list[T]) -> list[T]:
        """See `CombineFn`."""
        return accumulator


class ToSetCombineFn(CombineFn[H, Counter[H], set[H]]):
    """Each different value once; how often each came is kept, so that values can be taken back.

    >>> to_set = ToSetCombineFn()
    >>> to_set.extract_output(to_set.remove_input(to_set.add_inputs(to_set.create_accumulator(), "aab"), "b"))
    {'a'}
    """

    def create_accumulator(self) -> Counter[H]:
        """See `CombineFn`."""
        return Counter()

    def add_input(self, accumulator: Counter[H], element: H) -> Counter[H]:
        """See `CombineFn`."""
        accumulator[element] += 1
        return accumulator

    def add_inputs(self, accumulator: Counter[H], elements: Iterable[H]) -> Counter[H]:
        """See `CombineFn`."""
        accumulator.update(elements)
        return accumulator

    def remove_input(self, accumulator: Counter[H], element: H) -> Counter[H]:
        """See `CombineFn`."""
        accumulator[element] -= 1
        if not accumulator[element]:
            del accumulator[element]
        return accumulator

    def merge_accumulators(self, accumulators: Iterable[Counter[H]]) -> Counter[H]:
        """See `CombineFn`."""
        merged = Counter[H]()
        for accumulator in accumulators:
            merged.update(accumulator)
        return merged

    def extract_output(self, accumulator: Counter[H]) -> set[H]:
        """See `CombineFn`."""
        return set(accumulator)


class ToDictCombineFn(CombineFn[tuple[K, T], dict[K, T], dict[K, T]]):
    """Pairs as a dict; of several values of a key, one."""

    def create_accumulator(self) -> dict[K, T]:
        """See `CombineFn`."""
        return {}

    def add_input(self, accumulator: dict[K, T], element: tuple[K, T]) -> dict[K, T]:
        """See `CombineFn`."""
        key, value = element
        accumulator[key] = value
        return accumulator

    def merge_accumulators(self, accumulators: Iterable[dict[K, T]]) -> dict[K, T]:
        """See `CombineFn`."""
        merged: dict[K, T] = {}
        for accumulator in accumulators:
            merged.update(accumulator)
        return merged

    def extract_output(self, accumulator: dict[K, T]) -> dict[K, T]:
        """See `CombineFn`."""
        return accumulator


class TopCombineFn(CombineFn[T, list[T], list[T]]):
    """The n greatest values, the greatest first; with `reverse` the n least, the least first.

    Args:
        n: How many.
        key: From a value to what is compared instead of it.
        reverse: Whether the least are wanted.

    >>> TopCombineFn(2).apply([3, 7, 5]), TopCombineFn(2, key=len, reverse=True).apply(["abc", "d", "ef"])
    ([7, 5], ['d', 'ef'])
    """

    def __init__(self, n: int, key: Callable[[T], object] | None = None, reverse: bool = False) -> None:
        _require_number(n)
        self._n, self._key, self._reverse = n, key, reverse

    def create_accumulator(self) -> list[T]:
        """See `CombineFn`."""
        return []

    def add_input(self, accumulator: list[T], element: T) -> list[T]:
        """See `CombineFn`."""
        return self.add_inputs(accumulator, (element,))

    def add_inputs(self, accumulator: list[T], elements: Iterable[T]) -> list[T]:
        """See `CombineFn`."""
        # What is compared has no common type that says so.
        key = cast(Callable[[T], int], self._key or _itself)
        choose = heapq.nsmallest if self._reverse else heapq.nlargest
        return choose(self._n, [*accumulator, *elements], key)

    def merge_accumulators(self, accumulators: Iterable[list[T]]) -> list[T]:
        """See `CombineFn`."""
        return self.add_inputs([], (value for accumulator in accumulators for value in accumulator))

    def extract_output(self, accumulator: list[T]) -> list[T]:
        """See `CombineFn`."""
        return accumulator


class Largest(TopCombineFn[T]):
    """The n greatest values.

    >>> Largest(2).default_label(), Largest(2).apply([3, 7, 5])
    ('Largest(2)', [7, 5])
    """

    def default_label(self) -> str:
        """With the number."""
        return f"{type(self).__name__}({self._n})"


class Smallest(Largest[T]):
    """The n least values."""

    def __init__(self, n: int) -> None:
        super().__init__(n, reverse=True)


class SampleCombineFn(CombineFn[T, list[tuple[float, T]], list[T]]):
    """n values, each set of n as likely as any other: those for which the dice fell highest."""

    def __init__(self, n: int) -> None:
        _require_number(n)
        self._n = n

    def _highest(self, thrown: Iterable[tuple[float, T]]) -> list[tuple[float, T]]:
        return heapq.nlargest(self._n, thrown, key=_dice)

    def create_accumulator(self) -> list[tuple[float, T]]:
        """See `CombineFn`."""
        return []

    def add_input(self, accumulator: list[tuple[float, T]], element: T) -> list[tuple[float, T]]:
        """See `CombineFn`."""
        return self.add_inputs(accumulator, (element,))

    def add_inputs(self, accumulator: list[tuple[float, T]], elements: Iterable[T]) -> list[tuple[float, T]]:
        """See `CombineFn`."""
        return self._highest([*accumulator, *((random.random(), element) for element in elements)])

    def merge_accumulators(self, accumulators: Iterable[list[tuple[float, T]]]) -> list[tuple[float, T]]:
        """See `CombineFn`."""
        return self._highest(thrown for accumulator in accumulators for thrown in accumulator)

    def extract_output(self, accumulator: list[tuple[float, T]]) -> list[T]:
        """See `CombineFn`."""
        return [value for _, value in accumulator]


class AtMostCombineFn(CombineFn[T, list[T], list[T]]):
    """At most n values, whichever come first.

    >>> AtMostCombineFn(2).apply("a")
    ['a']
    """

    def __init__(self, n: int) -> None:
        _require_number(n)
        self._n = n

    def create_accumulator(self) -> list[T]:
        """See `CombineFn`."""
        return []

    def add_input(self, accumulator: list[T], element: T) -> list[T]:
        """See `CombineFn`."""
        return self.add_inputs(accumulator, (element,))

    def add_inputs(self, accumulator: list[T], elements: Iterable[T]) -> list[T]:
        """See `CombineFn`."""
        accumulator.extend(islice(elements, self._n - len(accumulator)))
        return accumulator

    def merge_accumulators(self, accumulators: Iterable[list[T]]) -> list[T]:
        """See `CombineFn`."""
        return list(islice(chain.from_iterable(accumulators), self._n))

    def extract_output(self, accumulator: list[T]) -> list[T]:
        """See `CombineFn`."""
        return accumulator


def _itself(value: object) -> object:
    return value


def _dice(thrown: tuple[float, object]) -> float:
    return thrown[0]


class LatestCombineFn(CombineFn[tuple[T, Timestamp], tuple[T | None, Timestamp | None], T | None]):
    """Of pairs (value, timestamp) the value with the latest timestamp; None of none."""

    def create_accumulator(self) -> tuple[T | None, Timestamp | None]:
        """See `CombineFn`."""
        return None, None

    def add_input(
        self, accumulator: tuple[T | None, Timestamp | None], element: tuple[T, Timestamp]
    ) -> tuple[T | None, Timestamp | None]:
        """See `CombineFn`."""
        return self.merge_accumulators((accumulator, element))

    def merge_accumulators(
        self, accumulators: Iterable[tuple[T | None, Timestamp | None]]
    ) -> tuple[T | None, Timestamp | None]:
        """See `CombineFn`."""
        latest: tuple[T | None, Timestamp | None] = (None, None)
        for value, timestamp in accumulators:
            if timestamp is not None and (latest[1] is None or timestamp > latest[1]):
                latest = (value, timestamp)
        return latest

    def extract_output(self, accumulator: tuple[T | None, Timestamp | None]) -> T | None:
        """See `CombineFn`."""
        return accumulator[0]


def _require_number(n: int) -> None:
    if not is_whole(n) or n < 0:
        raise ValueError(f"the number of values to keep is {n!r:.80}; give a whole number of at least 0")
