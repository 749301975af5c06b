"""What: sums, counts, means and extremes, with accumulators of one or two numbers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from enum import Enum
from itertools import chain
from math import copysign
from typing import Any, Protocol, TypeVar, cast

from headrace.lowlevel.stored_names import named, stored_as
from headrace.sdk.combinefns.combine_fn import CombineFn, computes
from headrace.sdk.combinefns.exact_sums import ExactSum, exact_sum, exact_sum_with
from headrace.sdk.typehints.io_type_hints import with_input_types, with_output_types

Number = int | float
"""A number: any type with addition, and with division for the mean."""
T = TypeVar("T")


@stored_as("NoExtreme")
class _Nothing(Enum):
    """The accumulator of no values if no number can represent it; an enum, so that a copy is the same object."""

    NOTHING = 0


_NOTHING = _Nothing.NOTHING


_REAL = frozenset([float, ExactSum, int, bool])
"""Types of numbers whose sums with floats are exact here."""


def _total(start: Number, values: Sequence[Number]) -> Number:
    """Add values to a sum. If floats and whole numbers are added, the sum is exact; other types add as they define."""
    kinds = set(map(type, values)) | {type(start)}
    if kinds <= _REAL and not kinds.isdisjoint((float, ExactSum)):
        return exact_sum(start, values)
    return sum(values, start)


def _plus(total: Number, value: Number) -> Number:
    """Add one value to a sum."""
    if type(value) is int and type(total) is int:
        return total + value
    if type(value) is float and type(total) in (float, ExactSum):
        return exact_sum_with(total, value)
    return _total(total, (value,))


def _without(total: Number, value: Number) -> Number:
    kinds = {type(total), type(value)}
    return _total(total, (-value,)) if kinds <= _REAL else total - value


def _rounded(total: Number) -> Number:
    return float(total) if type(total) is ExactSum else total


class _Ordered(Protocol):
    def __lt__(self, other: object, /) -> bool: ...
    def __gt__(self, other: object, /) -> bool: ...


OrderedT = TypeVar("OrderedT", bound=_Ordered)


@computes(sum)
@named("SumFn")
@with_input_types(T)
@with_output_types(T)
class SumFn(CombineFn[Number, Number, Number]):
    """The sum; the combiner of the function `sum`.

    A sum of floats, or of floats and whole numbers, is the exact sum of the values rounded once, in whatever order and
    parts they are added or removed. The accumulator is a float whose class keeps what the rounding leaves.

    >>> SumFn().apply([1, 2, 3]), SumFn().apply([0.1] * 10)
    (6, 1.0)
    """

    def default_label(self) -> str:
        """The name of the built-in function."""
        return "sum"

    def create_accumulator(self) -> Number:
        """See `CombineFn`."""
        return 0

    def add_input(self, accumulator: Number, element: Number) -> Number:
        """See `CombineFn`."""
        return _plus(accumulator, element)

    def add_inputs(self, accumulator: Number, elements: Iterable[Number]) -> Number:
        """See `CombineFn`."""
        return _total(accumulator, list(elements))

    def remove_input(self, accumulator: Number, element: Number) -> Number:
        """See `CombineFn`. An infinite or NaN value cannot be removed: the sum is NaN then."""
        return _without(accumulator, element)

    def is_signed(self) -> bool:
        """See `CombineFn`."""
        return True

    def merge_accumulators(self, accumulators: Iterable[Number]) -> Number:
        """See `CombineFn`."""
        return _total(0, list(accumulators))

    def extract_output(self, accumulator: Number) -> Number:
        """See `CombineFn`."""
        return _rounded(accumulator)


@named("CountCombineFn")
class CountCombineFn(CombineFn[object, int, int]):
    """Counts the values.

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

    def is_signed(self) -> bool:
        """See `CombineFn`."""
        return True

    def merge_accumulators(self, accumulators: Iterable[int]) -> int:
        """See `CombineFn`."""
        return sum(accumulators)

    def extract_output(self, accumulator: int) -> int:
        """See `CombineFn`."""
        return accumulator


@named("CountNonNullCombineFn")
class CountNonNullCombineFn(CombineFn[object, int, int]):
    """Counts the values that are not None, as SQL's COUNT of a column does.

    >>> CountNonNullCombineFn().apply([3, None, 5])
    2
    """

    def create_accumulator(self) -> int:
        """See `CombineFn`."""
        return 0

    def add_input(self, accumulator: int, element: object) -> int:
        """See `CombineFn`."""
        return accumulator + (element is not None)

    def remove_input(self, accumulator: int, element: object) -> int:
        """See `CombineFn`."""
        return accumulator - (element is not None)

    def is_signed(self) -> bool:
        """See `CombineFn`."""
        return True

    def merge_accumulators(self, accumulators: Iterable[int]) -> int:
        """See `CombineFn`."""
        return sum(accumulators)

    def extract_output(self, accumulator: int) -> int:
        """See `CombineFn`."""
        return accumulator


@named("MeanCombineFn")
@with_input_types(Any)
@with_output_types(Any)
class MeanCombineFn(CombineFn[Number, tuple[Number, int], float]):
    """The arithmetic mean; NaN if there are no values. The mean of floats is their sum, as `SumFn` gives it, by count.

    >>> MeanCombineFn().apply([1, 2, 6])
    3.0
    """

    def create_accumulator(self) -> tuple[Number, int]:
        """See `CombineFn`."""
        return (0, 0)

    def add_input(self, accumulator: tuple[Number, int], element: Number) -> tuple[Number, int]:
        """See `CombineFn`."""
        total, count = accumulator
        return _plus(total, element), count + 1

    def add_inputs(self, accumulator: tuple[Number, int], elements: Iterable[Number]) -> tuple[Number, int]:
        """See `CombineFn`."""
        values = list(elements)
        return _total(accumulator[0], values), accumulator[1] + len(values)

    def remove_input(self, accumulator: tuple[Number, int], element: Number) -> tuple[Number, int]:
        """See `CombineFn`. The result is as exact as that of `SumFn`."""
        total, count = accumulator
        return _without(total, element), count - 1

    def is_signed(self) -> bool:
        """See `CombineFn`."""
        return True

    def merge_accumulators(self, accumulators: Iterable[tuple[Number, int]]) -> tuple[Number, int]:
        """See `CombineFn`."""
        totals, counts = zip(*accumulators, strict=True)
        return _total(0, totals), sum(counts)

    def extract_output(self, accumulator: tuple[Number, int]) -> float:
        """See `CombineFn`."""
        total, count = accumulator
        return _rounded(total) / count if count else float("nan")


class _ExtremeFn(CombineFn[OrderedT, OrderedT | _Nothing, OrderedT]):
    """Base of the combiners that give the greatest or the least value. Raises `ValueError` if there are no values.

    As in IEEE 754-2019, the result is NaN if a value is NaN, and -0.0 is less than 0.0.
    """

    _name: str
    _sign_of_zero: int
    """The sign of the zero that comes first."""

    def _extreme(self, values: list[OrderedT]) -> OrderedT:
        """The first of the greatest or least values, by Python's comparison."""
        raise TypeError("a subclass says which value comes first")

    def _chosen(self, values: list[OrderedT]) -> OrderedT:
        if float not in set(map(type, values)):
            return self._extreme(values)
        found: object = self._extreme(values)
        floats = [value for value in cast("list[object]", values) if isinstance(value, float)]
        missing = [value for value in floats if value != value]
        if missing or (found == 0 and type(found) is float):
            zeros = [value for value in floats if value == 0 and copysign(1, value) == self._sign_of_zero]
            found = next(chain(missing, zeros), found)
        return cast(OrderedT, found)

    def add_input(self, accumulator: OrderedT | _Nothing, element: OrderedT) -> OrderedT | _Nothing:
        """See `CombineFn`."""
        return element if isinstance(accumulator, _Nothing) else self._chosen([accumulator, element])

    def default_label(self) -> str:
        """The name of the built-in function."""
        return self._name

    def create_accumulator(self) -> OrderedT | _Nothing:
        """See `CombineFn`."""
        return _NOTHING

    def add_inputs(self, accumulator: OrderedT | _Nothing, elements: Iterable[OrderedT]) -> OrderedT | _Nothing:
        """See `CombineFn`."""
        values = list(elements)
        if not values:
            return accumulator
        return self.add_input(accumulator, self._chosen(values))

    def merge_accumulators(self, accumulators: Iterable[OrderedT | _Nothing]) -> OrderedT | _Nothing:
        """See `CombineFn`."""
        return self.add_inputs(_NOTHING, (value for value in accumulators if not isinstance(value, _Nothing)))

    def extract_output(self, accumulator: OrderedT | _Nothing) -> OrderedT:
        """See `CombineFn`."""
        if isinstance(accumulator, _Nothing):
            raise ValueError(f"{self._name} of no values; use without_defaults() where there may be none")
        return accumulator


@computes(max)
@named("MaxFn")
class MaxFn(_ExtremeFn[OrderedT]):
    """The greatest value; the combiner of the function `max`.

    >>> MaxFn().apply([3, 7, 5])
    7
    """

    _name = "max"
    _sign_of_zero = 1

    def _extreme(self, values: list[OrderedT]) -> OrderedT:
        return max(values)


@computes(min)
@named("MinFn")
class MinFn(_ExtremeFn[OrderedT]):
    """The least value; the combiner of the function `min`.

    >>> MinFn().apply([3, 7, 5])
    3
    """

    _name = "min"
    _sign_of_zero = -1

    def _extreme(self, values: list[OrderedT]) -> OrderedT:
        return min(values)


class _VotesFn(CombineFn[object, int, bool]):
    """Base of `any` and `all`: counts the values that decide the result, so that values can be retracted."""

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

    def is_signed(self) -> bool:
        """See `CombineFn`."""
        return True

    def merge_accumulators(self, accumulators: Iterable[int]) -> int:
        """See `CombineFn`."""
        return sum(accumulators)

    def extract_output(self, accumulator: int) -> bool:
        """See `CombineFn`."""
        return self._settles if accumulator else not self._settles


@computes(any)
@named("AnyFn")
class AnyFn(_VotesFn):
    """Whether any value is true; the combiner of the function `any`.

    >>> AnyFn().apply([0, 1]), AnyFn().apply([])
    (True, False)
    """

    _settles = True

    def default_label(self) -> str:
        """The name of the built-in function."""
        return "any"


@computes(all)
@named("AllFn")
class AllFn(_VotesFn):
    """Whether all values are true; the combiner of the function `all`.

    >>> AllFn().apply([0, 1]), AllFn().apply([])
    (False, True)
    """

    _settles = False

    def default_label(self) -> str:
        """The name of the built-in function."""
        return "all"
