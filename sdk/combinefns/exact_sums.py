"""What: exact sums of floats, of one group or of many, which no order or bundling of the addition changes.

A sum is kept as its *parts*: floats whose sum is exact, of which the first is the sum rounded once, as `math.fsum`
gives it, and each following one is what the parts before it leave. Most sums have one part or two. Sums of many groups
are taken in two steps. First each value is cut at multiples of 32 binary places; pieces of one place add up in 53 bits
without rounding (Demmel and Nguyen, "Fast Reproducible Floating-Point Summation", 2013). Then the sums of the
places of each group are renormalised (Shewchuk, "Adaptive Precision Floating-Point Arithmetic", 1997).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Collection, Iterable, Sequence
from fractions import Fraction
from itertools import chain
from typing import cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headrace.lowlevel.columnar.arrow_arrays import numbers_in, of_numbers, to_list
from headrace.lowlevel.columnar.key_columns import Flags, Numbers
from headrace.lowlevel.stored_names import stored_as

Floats = NDArray[np.float64]
Parts = tuple[float, ...]
PARTS = pa.large_list(pa.float64())
"""Type of columns with the parts of sums."""
_PLACE = 32
"""Binary places from one cut to the next."""
_MOST = 1 << 20
"""Number of pieces of up to 33 bits whose sum has at most 53 bits."""
_SMALLEST, _LARGEST = 2.0**-900, 2.0**900
"""Absolute values between which cuts neither overflow nor underflow; others are added one by one."""


def parts_of(values: Iterable[float]) -> Parts:
    """The parts of the sum of these values, or of the parts of several sums.

    An infinite or NaN sum has one part. Infinities of both signs give NaN.

    >>> parts_of([0.1] * 10), parts_of([1e16, 1.0, -1e16]), parts_of([])
    ((1.0, 5.551115123125783e-17), (1.0,), (0.0,))
    """
    given = list(values)
    left, found = [*given], list[float]()
    try:
        while (part := math.fsum(left)) or not found:
            found.append(part)
            left.append(-part)
            if not math.isfinite(part):
                return (part,)
    except (OverflowError, ValueError):
        # The sum, or one on the way to it, is greater than the largest float; or there are infinities of both signs.
        return _large_parts(given)
    return tuple(found) if len(found) == 1 or found[-1] else tuple(found[:-1])


def _large_parts(values: Sequence[float]) -> Parts:
    special = [value for value in values if not math.isfinite(value)]
    if special:
        return (sum(special),)
    total, found = sum(map(Fraction, values), Fraction(0)), list[float]()
    while total or not found:
        found.append(_nearest(total))
        total -= Fraction(found[-1])
    return tuple(found)


def _nearest(total: Fraction) -> float:
    """The nearest float that is finite."""
    try:
        return float(total)
    except OverflowError:
        return sys.float_info.max if total > 0 else -sys.float_info.max


def rounded(parts: Sequence[float]) -> float:
    """The sum, rounded to the nearest float; infinite if it is beyond all floats.

    >>> rounded((1.0, 5.551115123125783e-17)), rounded(parts_of([1.7e308, 1.7e308]))
    (1.0, inf)
    """
    if len(parts) == 1 or abs(parts[0]) < _LARGEST:
        return parts[0]
    try:
        return float(sum(map(Fraction, parts)))
    except OverflowError:
        return math.copysign(math.inf, parts[0])


@stored_as("ExactSum", parts=lambda total: (total.parts,))
class ExactSum(float):
    """A sum of floats that has several parts; its value is the sum, rounded.

    >>> ExactSum((1.0, 5.551115123125783e-17))
    1.0
    """

    __slots__ = ("parts",)
    parts: Parts

    def __new__(cls, parts: Sequence[float]) -> ExactSum:
        """A sum with these parts, two or more."""
        made = super().__new__(cls, rounded(parts))
        made.parts = (*parts,)
        return made


def exact_sum(start: float, values: Collection[float]) -> float:
    """Add values to a sum that is a float or an `ExactSum`; the values may be such sums.

    Whole numbers are added exactly, too. Raises OverflowError for one that is beyond all floats.

    >>> exact_sum(exact_sum(1e16, [1.0]), [-1e16])
    1.0
    """
    terms: Iterable[float] = values
    if set(map(type, values)) != {float}:
        terms = chain.from_iterable(map(_parts_in, values))
    return sum_of_parts(parts_of((*_parts_in(start), *terms)))


def exact_sum_with(total: float, value: float) -> float:
    """As `exact_sum` with one value, which is a float; nearly always three additions are enough.

    >>> exact_sum_with(exact_sum_with(1e16, 1.0), -1e16)
    1.0
    """
    first, *others = total.parts if isinstance(total, ExactSum) else (total,)
    if len(others) <= 1:
        high, low = _two_sum(first, value)
        low, rest = _two_sum(low, others[0] if others else 0.0)
        high, low = _two_sum(high, low)
        if rest == 0 and abs(high) < _LARGEST:
            # The sum of zeros is 0.0, whatever their signs.
            return ExactSum((high, low)) if low else high + 0.0
    return exact_sum(total, (value,))


def _two_sum(one: float, other: float) -> tuple[float, float]:
    """The rounded sum, and what that leaves (Knuth)."""
    total = one + other
    added = total - one
    return total, (one - (total - added)) + (other - added)


def sum_of_parts(parts: Sequence[float]) -> float:
    """The sum with these parts: a float, or an `ExactSum`."""
    return parts[0] if len(parts) == 1 else ExactSum(parts)


def sums_in(sums: pa.Array) -> list[float | None]:
    """The sums of a column of parts (of type `PARTS`), each as `sum_of_parts` gives it; None for a null.

    >>> sums_in(pa.array([[1.0, 5.551115123125783e-17], None], PARTS))
    [1.0, None]
    """
    return [None if parts is None else sum_of_parts(cast("list[float]", parts)) for parts in to_list(sums)]


def _parts_in(value: float) -> Sequence[float]:
    if type(value) is float:
        return (value,)
    if isinstance(value, ExactSum):
        return value.parts
    part, found = value, list[float]()
    while part or not found:
        found.append(float(part))
        part -= int(found[-1])
    return found


def rounded_sums(sums: pa.Array) -> Floats:
    """The sums of a column of parts (of type `PARTS`, without nulls), each as `rounded` gives it."""
    if not len(sums):
        return np.empty(0)
    offsets = numbers_in(sums.offsets)
    first = cast(Floats, numbers_in(sums.values)[offsets[:-1]])
    large = np.flatnonzero((np.abs(first) >= _LARGEST) & (np.diff(offsets) > 1))
    for index in large.tolist():
        first[index] = rounded(sums[index].as_py())
    return first


def exact_sums(groups: Numbers, count: int, values: Floats) -> pa.Array:
    """Sum by group.

    Args:
        groups: Group of each value, from 0 to below `count`.
        count: Number of groups.
        values: The values, or parts of sums, in any order.

    Returns:
        The parts of each sum: of type `PARTS`, null for a group without values.

    >>> exact_sums(np.array([0, 1, 0]), 3, np.array([1e16, 3.0, 1.0])).to_pylist()
    [[1e+16, 1.0], [3.0], None]
    """
    present = np.zeros(count, np.bool_)
    present[groups] = True
    sizes = np.abs(values)
    plain = (sizes < _LARGEST) & ((sizes > _SMALLEST) | (values == 0))
    odd = np.zeros(count, np.bool_)
    if not plain.all():
        odd[groups[~plain]] = True
        chosen = ~odd[groups]
        by_group = _one_by_one(groups[~chosen], values[~chosen])
        groups, values = groups[chosen], values[chosen]
    terms = [
        term
        for start in range(0, len(values), _MOST)
        for term in _places(groups[start : start + _MOST], count, values[start : start + _MOST])
    ]
    columns = _renormalised(terms or [np.zeros(count)])
    if odd.any():
        width = max(map(len, by_group.values()))
        columns += [np.zeros(count) for _ in range(width - len(columns))]
        for group, parts in by_group.items():
            for column, part in zip(columns, parts, strict=False):
                column[group] = part
    return _lists(columns, present)


def _one_by_one(groups: Numbers, values: Floats) -> dict[int, Parts]:
    by_group: dict[int, list[float]] = {}
    for group, value in zip(groups.tolist(), values.tolist(), strict=True):
        by_group.setdefault(group, []).append(value)
    return {group: parts_of(each) for group, each in by_group.items()}


def _places(groups: Numbers, count: int, values: Floats) -> Iterable[Floats]:
    """The sums, by group, of what the values have at each place, the greatest first; together they are exact."""
    left = values
    while len(left) and (largest := max(float(left.max()), -float(left.min()))):
        place = (math.frexp(largest)[1] - 1) // _PLACE * _PLACE
        cut = math.ldexp(1.5, place + 52)
        pieces = (left + cut) - cut
        left = left - pieces
        sums: Floats = np.bincount(groups, pieces, count).astype(np.float64, copy=False)
        yield sums


def _renormalised(terms: list[Floats]) -> list[Floats]:
    """The parts of the sums of the terms, as columns: those that a sum lacks are 0. `terms` is changed."""
    changes = len(terms) > 1
    while changes:
        changes = False
        for upper, lower in zip(range(len(terms) - 2, -1, -1), range(len(terms) - 1, 0, -1), strict=True):
            total = terms[upper] + terms[lower]
            added = total - terms[upper]
            error = (terms[upper] - (total - added)) + (terms[lower] - added)
            changes = changes or not (np.array_equal(total, terms[upper]) and np.array_equal(error, terms[lower]))
            terms[upper], terms[lower] = total, error
    if len(terms) > 2:
        _break_ties(*terms[:3])
    return terms


def _break_ties(first: Floats, second: Floats, third: Floats) -> None:
    """Where the second part is just half a unit in the last place of the first, the third says how to round."""
    doubled = 2 * second
    upper = first + doubled
    wrong = (np.sign(second) * np.sign(third) > 0) & (upper - first == doubled)
    first[wrong], second[wrong] = upper[wrong], -second[wrong]


def _lists(columns: list[Floats], present: Flags) -> pa.Array:
    """Lists of the numbers of each row that are not 0, at least the first; null where not present."""
    table = np.stack(columns, 1)
    holds = table != 0
    holds[:, 0] = True
    holds &= present[:, None]
    offsets = np.concatenate([[0], np.cumsum(holds.sum(1))])
    mask = None if present.all() else of_numbers(~present)
    return pa.LargeListArray.from_arrays(of_numbers(offsets), of_numbers(table[holds]), mask=mask)
