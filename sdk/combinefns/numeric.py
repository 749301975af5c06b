"""What: sums, counts, means and extremes, with accumulators of one or two numbers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from enum import Enum
from typing import Any, Protocol, TypeVar

from headrace.sdk.transforms.combinefn import CombineFn
from headrace.sdk.typehints import with_input_types, with_output_types

Number = int | float
"""In fact anything that can be added, and divided for the mean."""
T = TypeVar("T")


class _Nothing(Enum):
    """The accumulator of no values where no value can stand for it; an enum, so that a copy is still the same."""

    NOTHING = 0


_NOTHING = _Nothing.NOTHING


class _Ordered(Protocol):
    def __lt__(self, other: object, /) -> bool: ...
    def __gt__(self, other: object, /) -> bool: ...


OrderedT = TypeVar("OrderedT", bound=_Ordered)


@with_input_types(T)
@with_output_types(T)
class SumFn(CombineFn[Number, Number, Number]):
    """The sum; what the function `sum` means as a combiner.

    >>> SumFn().apply([1, 2, 3])
    6
    """

    def default_label(self) -> str:
        """The function's name."""
        return "sum"

    def create_accumulator(self) -> Number:
        """See `CombineFn`."""
        return 0

    def add_input(self, accumulator: Number, element: Number) -> Number:
        """See `CombineFn`."""
        return accumulator + element

    def add_inputs(self, accumulator: Number, elements: Iterable[Number]) -> Number:
        """See `CombineFn`."""
        return sum(elements, accumulator)

    def remove_input(self, accumulator: Number, element: Number) -> Number:
        """See `CombineFn`. Exact for whole numbers; floats leave what rounding leaves."""
        return accumulator - element

    def merge_accumulators(self, accumulators: Iterable[Number]) -> Number:
        """See `CombineFn`."""
        return sum(accumulators)

    def extract_output(self, accumulator: Number) -> Number:
        """See `CombineFn`."""
        return accumulator


class CountCombineFn(CombineFn[object, int, int]):
    """How many values there are.

    >>> CountCombineFn().apply("abc")
    3
    """

    def create_accumulator(self) -> int:
        """See `CombineFn`."""
        return 0

    def add_input(self, accumulator: int, element: object) -> int:
        """See `CombineFn`."""
        return accumulator + 1

    def add_inputs(self, accumulator: int, elements: Iterable[object]) -> int:
        """See `CombineFn`."""
        return accumulator + (len(elements) if isinstance(elements, Collection) else sum(1 for _ in elements))

    def remove_input(self, accumulator: int, element: object) -> int:
        """See `CombineFn`."""
        return accumulator - 1

    def merge_accumulators(self, accumulators: Iterable[int]) -> int:
        """See `CombineFn`."""
        return sum(accumulators)

    def extract_output(self, accumulator: int) -> int:
        """See `CombineFn`."""
        return accumulator


@with_input_types(Any)
@with_output_types(Any)
class MeanCombineFn(CombineFn[Number, tuple[Number, int], float]):
    """The arithmetic mean; not a number where there are no values.

    >>> MeanCombineFn().apply([1, 2, 6])
    3.0
    """

    def create_accumulator(self) -> tuple[Number, int]:
        """See `CombineFn`."""
        return (0, 0)

    def add_input(self, accumulator: tuple[Number, int], element: Number) -> tuple[Number, int]:
        """See `CombineFn`."""
        total, count = accumulator
        return total + element, count + 1

    def add_inputs(self, accumulator: tuple[Number, int], elements: Iterable[Number]) -> tuple[Number, int]:
        """See `CombineFn`."""
        values = list(elements)
        return sum(values, accumulator[0]), accumulator[1] + len(values)

    def remove_input(self, accumulator: tuple[Number, int], element: Number) -> tuple[Number, int]:
        """See `CombineFn`. As exact as that of `SumFn`."""
        total, count = accumulator
        return total - element, count - 1

    def merge_accumulators(self, accumulators: Iterable[tuple[Number, int]]) -> tuple[Number, int]:
        """See `CombineFn`."""
        totals, counts = zip(*accumulators, strict=True)
        return sum(totals), sum(counts)

    def extract_output(self, accumulator: tuple[Number, int]) -> float:
        """See `CombineFn`."""
        total, count = accumulator
        return total / count if count else float("nan")


class _ExtremeFn(CombineFn[OrderedT, OrderedT | _Nothing, OrderedT]):
    """The value that comes first in an order."""

    _name: str

    def _extreme(self, values: list[OrderedT]) -> OrderedT:
        raise TypeError("a subclass says which value comes first")

    def default_label(self) -> str:
        """The function's name."""
        return self._name

    def create_accumulator(self) -> OrderedT | _Nothing:
        """See `CombineFn`."""
        return _NOTHING

    def add_inputs(self, accumulator: OrderedT | _Nothing, elements: Iterable[OrderedT]) -> OrderedT | _Nothing:
        """See `CombineFn`."""
        values = list(elements)
        if not values:
            return accumulator
        return self.add_input(accumulator, self._extreme(values))

    def merge_accumulators(self, accumulators: Iterable[OrderedT | _Nothing]) -> OrderedT | _Nothing:
        """See `CombineFn`."""
        return self.add_inputs(_NOTHING, (value for value in accumulators if not isinstance(value, _Nothing)))

    def extract_output(self, accumulator: OrderedT | _Nothing) -> OrderedT:
        """See `CombineFn`."""
        if isinstance(accumulator, _Nothing):
            raise ValueError(f"{self._name} of no values; use without_defaults() where there may be none")
        return accumulator


class MaxFn(_ExtremeFn[OrderedT]):
    """The greatest value; what the function `max` means as a combiner.

    >>> MaxFn().apply([3, 7, 5])
    7
    """

    _name = "max"

    def _extreme(self, values: list[OrderedT]) -> OrderedT:
        return max(values)

    def add_input(self, accumulator: OrderedT | _Nothing, element: OrderedT) -> OrderedT | _Nothing:
        """See `CombineFn`."""
        return element if isinstance(accumulator, _Nothing) or element > accumulator else accumulator


class MinFn(_ExtremeFn[OrderedT]):
    """The least value; what the function `min` means as a combiner.

    >>> MinFn().apply([3, 7, 5])
    3
    """

    _name = "min"

    def _extreme(self, values: list[OrderedT]) -> OrderedT:
        return min(values)

    def add_input(self, accumulator: OrderedT | _Nothing, element: OrderedT) -> OrderedT | _Nothing:
        """See `CombineFn`."""
        return element if isinstance(accumulator, _Nothing) or element < accumulator else accumulator


class _VotesFn(CombineFn[object, int, bool]):
    """Counts the values that settle the question, so that they can be taken back."""

    _settles: bool

    def create_accumulator(self) -> int:
        """See `CombineFn`."""
        return 0

    def add_input(self, accumulator: int, element: object) -> int:
        """See `CombineFn`."""
        return accumulator + (bool(element) is self._settles)

    def remove_input(self, accumulator: int, element: object) -> int:
        """See `CombineFn`."""
        return accumulator - (bool(element) is self._settles)

    def merge_accumulators(self, accumulators: Iterable[int]) -> int:
        """See `CombineFn`."""
        return sum(accumulators)

    def extract_output(self, accumulator: int) -> bool:
        """See `CombineFn`."""
        return self._settles if accumulator else not self._settles


class AnyFn(_VotesFn):
    """Whether any value is true; what the function `any` means as a combiner.

    >>> AnyFn().apply([0, 1]), AnyFn().apply([])
    (True, False)
    """

    _settles = True

    def default_label(self) -> str:
        """The function's name."""
        return "any"


class AllFn(_VotesFn):
    """Whether all values are true; what the function `all` means as a combiner.

    >>> AllFn().apply([0, 1]), AllFn().apply([])
    (False, True)
    """

    _settles = False

    def default_label(self) -> str:
        """The function's name."""
        return "all"


KNOWN_CALLABLES: list[tuple[object, Callable[[], object]]] = [
    (sum, SumFn),
    (max, MaxFn),
    (min, MinFn),
    (any, AnyFn),
    (all, AllFn),
]
"""Built-in functions, each with the combiner that computes it."""
