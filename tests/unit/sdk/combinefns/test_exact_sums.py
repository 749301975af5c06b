"""Sums of floats are exact: whatever the order, the parts and the number of groups."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headrace.lowlevel.class_lookup import dumps, loads
from headrace.sdk.combinefns.exact_sums import ExactSum, exact_sum, exact_sums, parts_of, rounded, rounded_sums
from headrace.sdk.combinefns.numeric import MaxFn, MeanCombineFn, MinFn, SumFn

NAN, INF = math.nan, math.inf
FINITE = st.floats(allow_nan=False, allow_infinity=False)
NEAR = st.sampled_from([1e16, 1.0, -1e16, 0.5, 2.0**-53, -(2.0**-53), 3.0, 2.0**-120, 0.1, -0.0, 12.34])
"""Values with which rounding after each addition goes wrong."""
GROUPED = st.lists(st.tuples(st.integers(0, 2), FINITE | NEAR | st.sampled_from([1.7e308, -1.7e308, 5e-324])))


def nearest(exact: Fraction) -> float:
    """The sum, rounded once."""
    try:
        return float(exact)
    except OverflowError:
        return INF if exact > 0 else -INF


@given(GROUPED)
@example([(0, 1.0), (0, 2.0**-53), (0, 2.0**-120)])
@example([(0, 1.0), (0, 2.0**-53), (0, -(2.0**-120))])
def test_of_many_groups(values: list[tuple[int, float]]) -> None:
    groups = np.array([group for group, _ in values], np.int64)
    found = exact_sums(groups, 3, np.array([value for _, value in values], np.float64))
    for group, parts in enumerate(found.to_pylist()):
        own = [Fraction(value) for its, value in values if its == group]
        if not own:
            assert parts is None
            continue
        assert sum(map(Fraction, parts)) == sum(own)
        assert rounded(parts) == nearest(sum(own, Fraction(0)))
    sums = rounded_sums(found.drop_null()).tolist()
    assert sums == [rounded(parts) for parts in found.to_pylist() if parts is not None]


@given(st.lists(FINITE | NEAR), st.lists(NEAR))
def test_of_one_group(first: list[float], second: list[float]) -> None:
    exact = sum(map(Fraction, first + second), Fraction(0))
    total = exact_sum(exact_sum(0.0, first), second)
    assert float(total) == nearest(exact) == rounded(parts_of([*first, *second]))
    one_by_one = SumFn().create_accumulator()
    for value in [*first, *second]:
        one_by_one = SumFn().add_input(one_by_one, value)
    if first or second:
        assert repr(SumFn().extract_output(one_by_one)) == repr(float(total))
    stored = loads(dumps(total))
    assert (type(stored), stored, parts_of([0.0])) == (type(total), total, (0.0,))
    if isinstance(total, ExactSum):
        assert stored.parts == total.parts
        assert sum(map(Fraction, total.parts)) == exact


@pytest.mark.parametrize(
    ("values", "total"),
    [([INF, 1.0], INF), ([INF, -INF], NAN), ([NAN, 1.0], NAN), ([-INF, 1e308, 1e308], -INF), ([1.7e308] * 2, INF)],
)
def test_what_is_not_finite(values: list[float], total: float) -> None:
    [found] = rounded_sums(exact_sums(np.zeros(len(values), np.int64), 1, np.array(values)))
    assert repr(float(found)) == repr(SumFn().apply(values)) == repr(total)


def test_a_sum_that_is_too_large_on_the_way_only() -> None:
    sums = SumFn()
    assert sums.apply([1.7e308, 1.7e308, -1.7e308]) == 1.7e308
    assert sums.remove_input(sums.add_inputs(0, [1.7e308, 1.7e308]), 1.7e308) == 1.7e308


def test_whole_numbers_among_floats_are_exact_and_other_numbers_as_they_are() -> None:
    sums = SumFn()
    assert repr(sums.apply([1 << 70, 0.5, -(1 << 70)])) == "0.5"
    assert repr(sums.apply([1, True])) == "2"
    assert repr(sums.apply([0.5, Fraction(1, 3)])) == repr(0.5 + Fraction(1, 3))
    assert MeanCombineFn().apply([0.1] * 10) == 0.1
    with pytest.raises(OverflowError):
        sums.apply([0.5, 10**400])


@pytest.mark.parametrize("order", [1, -1])
def test_extremes_of_nan_and_of_both_zeros(order: int) -> None:
    assert repr(MaxFn().apply([-0.0, 0.0][::order])) == "0.0"
    assert repr(MinFn().apply([-0.0, 0.0][::order])) == "-0.0"
    for combine in (MaxFn(), MinFn()):
        assert repr(combine.apply([1.0, NAN, 2.0][::order])) == "nan"
        assert repr(combine.add_input(combine.add_inputs(combine.create_accumulator(), [NAN]), 3.0)) == "nan"
