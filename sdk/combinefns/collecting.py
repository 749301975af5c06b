"""What: combiners that collect values, all or a selection."""

from __future__ import annotations

import heapq
import random
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from itertools import chain, islice
from math import copysign
from operator import itemgetter
from typing import TypeVar, cast

from headrace.lowlevel.coders.coder import encode_key
from headrace.lowlevel.coders.key_classes import identity_of
from headrace.lowlevel.stored_names import named
from headrace.lowlevel.time import Timestamp
from headrace.sdk.combinefns.combine_fn import AbsentValueError, CombineFn
from headrace.sdk.typehints.consistency import is_whole

T = TypeVar("T")
H = TypeVar("H", bound=Hashable)
K = TypeVar("K", bound=Hashable)
R = TypeVar("R")


class _ListCombineFn(CombineFn[T, list[T], list[T]]):
    """Base class of combiners whose accumulator is the list of values that they give; they define `add_inputs`."""

    def create_accumulator(self) -> list[T]:
        """See `CombineFn`."""
        return []

    def add_input(self, accumulator: list[T], element: T) -> list[T]:
        """See `CombineFn`."""
        return self.add_inputs(accumulator, (element,))

    def merge_accumulators(self, accumulators: Iterable[list[T]]) -> list[T]:
        """See `CombineFn`."""
        return self.add_inputs([], chain.from_iterable(accumulators))

    def extract_output(self, accumulator: list[T]) -> list[T]:
        """See `CombineFn`."""
        return accumulator


@named("ToListCombineFn")
class ToListCombineFn(_ListCombineFn[T]):
    """Collects all values in a list, in no particular order.

    >>> sorted(ToListCombineFn().apply([3, 1]))
    [1, 3]
    """

    def add_inputs(self, accumulator: list[T], elements: Iterable[T]) -> list[T]:
        """See `CombineFn`."""
        accumulator.extend(elements)
        return accumulator

    def remove_input(self, accumulator: list[T], element: T) -> list[T]:
        """See `CombineFn`. The time is linear in the number of values. Raises `AbsentValueError`."""
        try:
            accumulator.remove(element)
        except ValueError as error:
            raise AbsentValueError(f"{element!r:.200} is not in the list") from error
        return accumulator


class _CountingCombineFn(CombineFn[T, Counter[H], R]):
    """Base class of combiners that count how often each value was added, so that values can be retracted."""

    def create_accumulator(self) -> Counter[H]:
        """See `CombineFn`."""
        return Counter()

    def is_signed(self) -> bool:
        """See `CombineFn`."""
        return True

    def merge_accumulators(self, accumulators: Iterable[Counter[H]]) -> Counter[H]:
        """See `CombineFn`."""
        merged = Counter[H]()
        for accumulator in accumulators:
            merged.update(accumulator)
        return merged

    @staticmethod
    def _without(accumulator: Counter[H], counted: H) -> Counter[H]:
        accumulator[counted] -= 1
        if not accumulator[counted]:
            del accumulator[counted]
        return accumulator


@named("ToSetCombineFn")
class ToSetCombineFn(_CountingCombineFn[H, H, set[H]]):
    """Collects the distinct values in a set; values are counted, so that they can be retracted.

    >>> to_set = ToSetCombineFn()
    >>> to_set.extract_output(to_set.remove_input(to_set.add_inputs(to_set.create_accumulator(), "aab"), "b"))
    {'a'}
    """

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
        return self._without(accumulator, element)

    def extract_output(self, accumulator: Counter[H]) -> set[H]:
        """See `CombineFn`."""
        # A value that was removed before it came has a count below 0, and then 0.
        return {value for value, count in accumulator.items() if count > 0}


@named("CountDistinctCombineFn")
class CountDistinctCombineFn(_CountingCombineFn[object, bytes, int]):
    """Counts the distinct values exactly; None is a value.

    Values are compared as keys are, and must be of types that can be keys: 1 and True are two values, NaN is one. The
    accumulator counts each value, so that values can be retracted. Where there may be very many distinct values,
    `ApproximateUnique` keeps less.

    >>> CountDistinctCombineFn().apply(["tea", "jam", "tea"]), CountDistinctCombineFn().apply([1, True, None])
    (2, 3)
    """

    def add_input(self, accumulator: Counter[bytes], element: object) -> Counter[bytes]:
        """See `CombineFn`. Raises KeyEncodingError for a value that cannot be a key."""
        accumulator[identity_of(encode_key(element))] += 1
        return accumulator

    def remove_input(self, accumulator: Counter[bytes], element: object) -> Counter[bytes]:
        """See `CombineFn`."""
        return self._without(accumulator, identity_of(encode_key(element)))

    def extract_output(self, accumulator: Counter[bytes]) -> int:
        """See `CombineFn`."""
        return sum(count > 0 for count in accumulator.values())


@named("ToDictCombineFn")
class ToDictCombineFn(CombineFn[tuple[K, T], dict[K, T], dict[K, T]]):
    """Collects pairs (key, value) in a dict; one of several values of a key is kept.

    >>> ToDictCombineFn().apply([("tea", 3)])
    {'tea': 3}
    """

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


@named("TopCombineFn")
class TopCombineFn(_ListCombineFn[T]):
    """Collects the n greatest values, the greatest first; with `reverse` the n least, the least first.

    Of floats, NaN is the greatest.

    Args:
        n: Number of values.
        key: Function from a value to the sort key that is compared instead of the value.
        reverse: Whether the least values are wanted.

    Raises:
        ValueError: `n` is not a whole number of at least 0.

    >>> TopCombineFn(2).apply([3, 7, 5]), TopCombineFn(2, key=len, reverse=True).apply(["abc", "d", "ef"])
    ([7, 5], ['d', 'ef'])
    """

    def __init__(self, n: int, key: Callable[[T], object] | None = None, reverse: bool = False) -> None:
        _require_number(n)
        self._n, self._key, self._reverse = n, key, reverse

    def state_arguments(self) -> Mapping[str, object]:
        """See `CombineFn`: an accumulator holds the chosen values only."""
        return {"n": self._n, "key": self._key, "reverse": self._reverse}

    def add_inputs(self, accumulator: list[T], elements: Iterable[T]) -> list[T]:
        """See `CombineFn`."""
        # Sort keys have no common type that declares an order. Without a key, the values themselves are compared.
        key = cast(Callable[[T], int], self._key)
        choose, values = heapq.nsmallest if self._reverse else heapq.nlargest, [*accumulator, *elements]
        kinds: set[type] = set(map(type, values))
        if self._key is None and float in kinds:
            key = cast(Callable[[T], int], _total_order)
        return choose(self._n, values, key)


@named("Largest")
class Largest(TopCombineFn[T]):
    """Collects the n greatest values, the greatest first.

    >>> Largest(2).default_label(), Largest(2).apply([3, 7, 5])
    ('Largest(2)', [7, 5])
    """

    def default_label(self) -> str:
        """The name with the number `n`."""
        return f"{type(self).__name__}({self._n})"


@named("Smallest")
class Smallest(Largest[T]):
    """Collects the n least values, the least first.

    >>> import headrace as beam
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     _ = pipeline | beam.Create([5, 3, 9]) | beam.CombineGlobally(Smallest(2)) | beam.Map(print)
    [3, 5]
    """

    def __init__(self, n: int) -> None:
        super().__init__(n, reverse=True)


@named("SampleCombineFn")
class SampleCombineFn(CombineFn[T, list[tuple[float, T]], list[T]]):
    """Collects a uniform random sample of n values: those with the greatest of random numbers drawn for each value.

    >>> len(SampleCombineFn(2).apply([1, 2, 3]))
    2
    """

    def __init__(self, n: int) -> None:
        _require_number(n)
        self._n = n

    def state_arguments(self) -> Mapping[str, object]:
        """See `CombineFn`: an accumulator holds at most n values."""
        return {"n": self._n}

    def _highest(self, thrown: Iterable[tuple[float, T]]) -> list[tuple[float, T]]:
        return heapq.nlargest(self._n, thrown, key=itemgetter(0))

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


@named("AtMostCombineFn")
class AtMostCombineFn(_ListCombineFn[T]):
    """Collects at most n arbitrary values.

    >>> AtMostCombineFn(2).apply("a")
    ['a']
    """

    def __init__(self, n: int) -> None:
        _require_number(n)
        self._n = n

    def state_arguments(self) -> Mapping[str, object]:
        """See `CombineFn`: an accumulator holds at most n values."""
        return {"n": self._n}

    def add_inputs(self, accumulator: list[T], elements: Iterable[T]) -> list[T]:
        """See `CombineFn`."""
        accumulator.extend(islice(elements, self._n - len(accumulator)))
        return accumulator


class _ByTimeCombineFn(CombineFn[tuple[T, Timestamp], tuple[T | None, Timestamp | None], T | None], ABC):
    """Base of the combiners that choose one of several pairs (value, timestamp) by its timestamp."""

    @abstractmethod
    def _is_chosen(self, timestamp: Timestamp, other: Timestamp) -> bool:
        """Whether the pair with the first timestamp is chosen of the two."""

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
        found: tuple[T | None, Timestamp | None] = (None, None)
        for value, timestamp in accumulators:
            if timestamp is not None and (found[1] is None or self._is_chosen(timestamp, found[1])):
                found = (value, timestamp)
        return found

    def extract_output(self, accumulator: tuple[T | None, Timestamp | None]) -> T | None:
        """See `CombineFn`."""
        return accumulator[0]


@named("LatestCombineFn")
class LatestCombineFn(_ByTimeCombineFn[T]):
    """Gives the value with the latest timestamp among pairs (value, timestamp); None if there are no pairs.

    >>> LatestCombineFn().apply([("new", Timestamp(20)), ("old", Timestamp(10))])
    'new'
    """

    def _is_chosen(self, timestamp: Timestamp, other: Timestamp) -> bool:
        return timestamp > other


@named("EarliestCombineFn")
class EarliestCombineFn(_ByTimeCombineFn[T]):
    """Gives the value with the earliest timestamp among pairs (value, timestamp); None if there are no pairs.

    >>> EarliestCombineFn().apply([("new", Timestamp(20)), ("old", Timestamp(10))])
    'old'
    """

    def _is_chosen(self, timestamp: Timestamp, other: Timestamp) -> bool:
        return timestamp < other


def _total_order(value: object) -> tuple[bool, object, float]:
    """A sort key by which NaN is greater than all other numbers, and 0.0 greater than -0.0."""
    return value != value, value, copysign(1, value) if isinstance(value, float) else 1


def _require_number(n: int) -> None:
    if not is_whole(n) or n < 0:
        raise ValueError(f"the number of values to keep is {n!r:.80}; give a whole number of at least 0")
