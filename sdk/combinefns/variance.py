"""What: variances and standard deviations, from exact sums of the values and of their squares.

With n values, their sum s and the sum q of their squares, the population variance is (n q - s²) / n², and the sample
variance (n q - s²) / (n (n - 1)). Rounded sums would lose all digits where n q and s² are nearly equal, so the
numerator is computed from exact sums, as a whole number: the quotient is rounded once, to the nearest float. Squares of
floats are exact as two floats (Dekker, "A floating-point technique for extending the available precision", 1971).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import chain
from numbers import Rational
from typing import Any, TypeAlias, TypeVar, cast

from headrace.lowlevel.stored_names import named
from headrace.sdk.combinefns.combine_fn import CombineFn
from headrace.sdk.combinefns.exact_sums import ExactSum, exact_sum
from headrace.sdk.typehints.io_type_hints import with_input_types, with_output_types

Exact: TypeAlias = int | float | Fraction
"""An exact number: a float may be an `ExactSum`. A NaN or infinite one is not a number."""
Moments: TypeAlias = tuple[int, Exact, Exact]
"""Number of values, their sum, and the sum of their squares."""
FloatsT = TypeVar("FloatsT")
"""A float, or an array of floats."""
SMALLEST_SQUARED, LARGEST_SQUARED = 2.0**-480, 2.0**480
"""Absolute values of floats between which both floats of a square are exact."""
_SPLITTER = 2.0**27 + 1


def squares_of_floats(values: FloatsT) -> tuple[FloatsT, FloatsT]:
    """The squares of floats as two floats: rounded, and what that leaves.

    Absolute values are between `SMALLEST_SQUARED` and `LARGEST_SQUARED`, or 0.

    >>> squares_of_floats(0.1)
    (0.010000000000000002, -8.326672684688674e-19)
    """
    value = cast(Any, values)
    scaled = value * _SPLITTER
    high = scaled - (scaled - value)
    low = value - high
    square = value * value
    return square, ((high * high - square) + 2 * high * low) + low * low


@with_input_types(Any)
@with_output_types(float)
class _DispersionFn(CombineFn[object, Moments, float]):
    """Base of the combiners of this module.

    Args:
        population: Whether the values are a whole population, so that the mean square deviation is divided by their
            number; by default they are a sample, and it is divided by their number minus 1.
    """

    def __init__(self, population: bool = False) -> None:
        self._fewer = 0 if population else 1

    @property
    def population(self) -> bool:
        """See the class."""
        return not self._fewer

    def create_accumulator(self) -> Moments:
        """See `CombineFn`."""
        return 0, 0, 0

    def add_input(self, accumulator: Moments, element: object) -> Moments:
        """See `CombineFn`."""
        return self.add_inputs(accumulator, (element,))

    def add_inputs(self, accumulator: Moments, elements: Iterable[object]) -> Moments:
        """See `CombineFn`. Raises TypeError for a value that is not a real number."""
        count, total, squares = accumulator
        values = list(map(_exact, elements))
        return count + len(values), _sum([total, *values]), _sum([squares, *chain.from_iterable(map(_squared, values))])

    def remove_input(self, accumulator: Moments, element: object) -> Moments:
        """See `CombineFn`. An infinite or NaN value cannot be removed: the result is NaN then."""
        count, total, squares = accumulator
        value = _exact(element)
        return count - 1, _sum([total, -value]), _sum([squares, *(-part for part in _squared(value))])

    def is_signed(self) -> bool:
        """See `CombineFn`."""
        return True

    def merge_accumulators(self, accumulators: Iterable[Moments]) -> Moments:
        """See `CombineFn`."""
        counts, totals, squares = zip(*accumulators, strict=True)
        return sum(counts), _sum(totals), _sum(squares)

    def extract_output(self, accumulator: Moments) -> float:
        """See `CombineFn`: the variance."""
        count, total, squares = accumulator
        if count <= self._fewer or not (_is_finite(total) and _is_finite(squares)):
            return math.nan
        (top, bottom), (square_top, square_bottom) = _ratio(total), _ratio(squares)
        above = count * square_top * bottom * bottom - top * top * square_bottom
        try:
            # Division of whole numbers is correctly rounded.
            return above / (count * (count - self._fewer) * square_bottom * bottom * bottom)
        except OverflowError:
            return math.inf


@named("VarianceFn")
class VarianceFn(_DispersionFn):
    """The variance, correctly rounded, in whatever order and parts values are added or removed.

    It is the exact variance of the values (whole numbers, floats, decimals, fractions, truth values), rounded once to
    the nearest float. It is NaN if a value is NaN or infinite, if there are no values, and for a sample of one value.

    Args:
        population: Whether the values are a whole population (SQL's VAR_POP, divided by their number); by default they
            are a sample (SQL's VAR_SAMP, divided by their number minus 1).

    >>> VarianceFn().apply([2, 4, 9]), VarianceFn(population=True).apply([1e9 + 0.25, 1e9 + 0.75])
    (13.0, 0.0625)
    """


@named("StandardDeviationFn")
class StandardDeviationFn(_DispersionFn):
    """The standard deviation: the square root, rounded once more, of what `VarianceFn` gives.

    Args:
        population: Whether the values are a whole population (SQL's STDDEV_POP); by default they are a sample
            (SQL's STDDEV_SAMP).

    >>> StandardDeviationFn().apply([1, 2, 3]), StandardDeviationFn(population=True).apply([2, 2, 4, 4])
    (1.0, 1.0)
    """

    def extract_output(self, accumulator: Moments) -> float:
        """See `CombineFn`."""
        variance = super().extract_output(accumulator)
        # Values that were removed before they came may leave a variance below 0 until they come.
        return math.nan if variance < 0 else math.sqrt(variance)


def _exact(value: object) -> Exact:
    """The same number. Raises TypeError for what is not a real number."""
    if type(value) is int or type(value) is float:
        return value
    if isinstance(value, float):
        return float(value)
    if isinstance(value, (Rational, Decimal)):
        try:
            found = Fraction(value)
        except (OverflowError, ValueError):
            # The decimal is infinite or NaN.
            return math.nan
        return found.numerator if found.denominator == 1 else found
    raise TypeError(
        f"a variance is of real numbers, not of {type(value).__name__} values; give numbers, or leave them out"
    )


def _squared(value: Exact) -> Sequence[Exact]:
    """Numbers whose sum is the square."""
    if isinstance(value, float):
        if not math.isfinite(value):
            return (math.nan,)
        if value and not SMALLEST_SQUARED < abs(value) < LARGEST_SQUARED:
            return (Fraction(value) ** 2,)
        return squares_of_floats(value)
    return (value * value,)


def _sum(terms: Sequence[Exact]) -> Exact:
    """The exact sum; NaN if a term is NaN or infinite."""
    kinds = set(map(type, terms))
    if kinds == {int}:
        return sum(terms)
    if Fraction not in kinds:
        try:
            return exact_sum(0.0, cast("Sequence[float]", terms))
        except OverflowError:
            # A whole number is beyond all floats.
            pass
    if not all(map(_is_finite, terms)):
        return math.nan
    return sum(Fraction(*_ratio(term)) for term in terms)


def _is_finite(value: Exact) -> bool:
    parts = value.parts if isinstance(value, ExactSum) else (value,)
    return not isinstance(value, float) or all(map(math.isfinite, parts))


def _ratio(value: Exact) -> tuple[int, int]:
    """Numerator and denominator."""
    if not isinstance(value, ExactSum):
        return value.as_integer_ratio()
    ratios = [part.as_integer_ratio() for part in value.parts]
    # All denominators are powers of two.
    bottom = max(below for _, below in ratios)
    return sum(above * (bottom // below) for above, below in ratios), bottom
