"""Variances are those of exact arithmetic, rounded once, in any order and parts."""

from __future__ import annotations

import math
import statistics
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.sdk.combinefns.variance import StandardDeviationFn, VarianceFn, squares_of_floats

FINITE = st.floats(allow_nan=False, allow_infinity=False)
NUMBERS = st.lists(
    st.one_of(
        FINITE,
        st.floats(-1, 1),
        st.integers(-(10**9), 10**9),
        st.integers(-(10**400), 10**400),
        st.booleans(),
        st.decimals(-(10**9), 10**9, allow_nan=False, allow_infinity=False),
        st.fractions(max_denominator=99),
    ),
    min_size=1,
    max_size=6,
)


def exact(values: list[Any], fewer: int) -> float:
    """The variance by its definition, rounded to the nearest float."""
    numbers = list(map(Fraction, values))
    if len(numbers) <= fewer:
        return math.nan
    mean = sum(numbers) / len(numbers)
    found = sum((number - mean) ** 2 for number in numbers) / (len(numbers) - fewer)
    try:
        return found.numerator / found.denominator
    except OverflowError:
        return math.inf


def same(one: float, other: float) -> bool:
    return one == other or (math.isnan(one) and math.isnan(other))


@given(NUMBERS, st.booleans(), st.data())
def test_variances_are_those_of_exact_arithmetic(values: list[Any], population: bool, data: st.DataObject) -> None:
    combine = VarianceFn(population)
    expected = exact(values, 0 if population else 1)
    assert same(combine.apply(values), expected)
    shuffled = data.draw(st.permutations(values))
    cut = data.draw(st.integers(0, len(values)))
    parts = [combine.add_inputs(combine.create_accumulator(), part) for part in (shuffled[:cut], shuffled[cut:])]
    merged = combine.merge_accumulators(parts)
    assert same(combine.extract_output(merged), expected)
    assert same(StandardDeviationFn(population).extract_output(merged), math.sqrt(expected))
    for value in shuffled[cut:]:
        merged = combine.remove_input(merged, value)
    assert same(combine.extract_output(merged), combine.apply(shuffled[:cut]))


@given(st.floats(2.0**-480, 2.0**480, exclude_min=True, exclude_max=True))
def test_the_square_of_a_float_is_two_floats(value: float) -> None:
    square, rest = squares_of_floats(value)
    assert square == value * value
    assert Fraction(square) + Fraction(rest) == Fraction(value) ** 2
    assert [array.tolist() for array in squares_of_floats(np.array([value, -value]))] == [[square] * 2, [rest] * 2]


def test_digits_are_not_lost_where_the_mean_is_large() -> None:
    values = [1e9 + 0.1 * number for number in range(1000)]
    assert VarianceFn().apply(values) == pytest.approx(statistics.variance(values), rel=1e-15)
    assert VarianceFn(population=True).apply([1e200, -1e200, 1e200]) == math.inf
    assert VarianceFn().apply([1e200] * 3) == 0.0
    assert VarianceFn().apply([Decimal("0.1")] * 2) == 0.0


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf, Decimal("nan"), Decimal("inf")])
def test_values_that_are_no_numbers_make_nan(odd: Any) -> None:
    for combine in (VarianceFn(), StandardDeviationFn(population=True)):
        assert math.isnan(combine.apply([1.0, odd, 2]))
        assert math.isnan(combine.apply([]))


@pytest.mark.parametrize("wrong", [None, "1", 1j, b"1"])
def test_values_that_are_not_real_are_refused(wrong: object) -> None:
    with pytest.raises(TypeError, match=f"not of {type(wrong).__name__} values; give numbers"):
        VarianceFn().apply([1, wrong])
