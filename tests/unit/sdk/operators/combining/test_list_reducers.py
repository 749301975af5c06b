"""The greatest and the least of many rows, beside sorting."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.lowlevel.columnar.arrow_arrays import lists_of_one
from headrace.sdk.operators.combining.list_reducers import TopReducer

FEW = st.sampled_from([float("nan"), float("-inf"), -1.5, -0.0, 0.0, 2.0, float("inf")])
ENDS = st.sampled_from([-(2**63), -1, 0, 2**63 - 1])


@given(st.lists(st.tuples(st.integers(0, 1), FEW), min_size=1, max_size=90), st.integers(1, 3), st.booleans())
def test_floats(rows: list[tuple[int, float]], number: int, least: bool) -> None:
    groups, values = zip(*rows, strict=True)
    _check(groups, pa.array(values, pa.float64()), number, least)


@given(st.lists(st.tuples(st.integers(0, 1), ENDS), min_size=1, max_size=90), st.integers(1, 9), st.booleans())
def test_numbers_at_the_ends_of_64_bits(rows: list[tuple[int, int]], number: int, least: bool) -> None:
    groups, values = zip(*rows, strict=True)
    _check(groups, pa.array(values, pa.int64()), number, least)


@pytest.mark.parametrize("number", [1, 3, 8, 9])
def test_many(number: int) -> None:
    random = np.random.default_rng(5)
    _check(random.integers(0, 30, 5_000).tolist(), pa.array(random.normal(size=5_000).round(1)), number, False)


def _check(groups: list[int] | tuple[int, ...], values: pa.Array, number: int, least: bool) -> None:
    present = sorted(set(groups))
    found = TopReducer(number, least).reduced(
        np.array([present.index(group) for group in groups]), len(present), lists_of_one(values)
    )
    wanted = []
    for group in present:
        own = [value for owner, value in zip(groups, values.to_pylist(), strict=True) if owner == group]
        # NaN is above all, and 0.0 above -0.0.
        own.sort(key=lambda value: (value != value, value, str(value)[0] != "-"), reverse=not least)
        wanted.append(own[:number])
    assert list(map(str, found.to_pylist())) == list(map(str, wanted))
