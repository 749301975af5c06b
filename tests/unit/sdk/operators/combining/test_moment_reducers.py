"""Variances of many groups are those of each group, whatever parts they are combined from."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.lowlevel.records.column_batch import Single
from headrace.sdk.combinefns.variance import StandardDeviationFn, VarianceFn
from headrace.sdk.operators.combining.aggregates import reducers_of
from headrace.sdk.operators.combining.value_columns import ElementColumns

FLOATS = st.floats(-1e6, 1e6).filter(lambda value: not value or abs(value) > 1e-140)


def numbers(of: st.SearchStrategy[float]) -> st.SearchStrategy[list[tuple[int, float]]]:
    return st.lists(st.tuples(st.integers(0, 3), of), min_size=1, max_size=30)


@given(numbers(FLOATS | st.sampled_from([np.inf, np.nan])) | numbers(st.integers(-(2**53), 2**53)), st.integers(0, 30))
def test_variances_by_group(pairs: list[tuple[int, float]], cut: int) -> None:
    groups = np.array([group for group, _ in pairs])
    values = [value for _, value in pairs]
    for combine in (VarianceFn(), StandardDeviationFn(population=True)):
        reducers = reducers_of(combine)
        assert reducers is not None
        lifted = reducers.parts[0].lifted(ElementColumns(Single(0), [pa.array(values)]))
        assert lifted is not None
        parts = [reducers.parts[0].reduced(groups[:cut], 4, lifted[:cut]), lifted[cut:]]
        present = np.isin(np.arange(4), groups[:cut])
        joined = pa.concat_arrays([parts[0].filter(pa.array(present)), parts[1]])
        owners = np.concatenate([np.flatnonzero(present), groups[cut:]])
        counts = np.bincount(groups, minlength=4)
        kept = reducers.parts[0].reduced(owners, 4, joined)
        found = reducers.parts[0].results(kept, counts).to_pylist()
        expected = [combine.apply([value for owner, value in pairs if owner == group]) for group in range(4)]
        assert repr(found) == repr(expected)


@pytest.mark.parametrize("value", [2**53 + 1, 1e-150, 1e150])
def test_values_whose_squares_are_not_two_floats_are_no_columns(value: float) -> None:
    reducers = reducers_of(VarianceFn())
    assert reducers is not None
    assert reducers.parts[0].lifted(ElementColumns(Single(0), [pa.array([value])])) is None
