"""Values of columns have the order of Python's."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.lowlevel.columnar.arrow_arrays import without_dictionary
from headrace.sdk.operators.combining.ordered_columns import is_ordered, of_unscaled, order_codes, unscaled
from headrace.sdk.operators.combining.value_columns import widest
from tests.properties.groupings.test_column_types import TYPES


@pytest.mark.parametrize("kind", TYPES, ids=str)
@given(st.data())
def test_they_are_sorted_as_python_sorts_them(kind: pa.DataType, data: st.DataObject) -> None:
    values = pa.array(data.draw(st.lists(TYPES[kind], min_size=1, max_size=6)), kind)
    column = widest(without_dictionary(values))
    assert is_ordered(column.type)
    assert column.to_pylist() == values.to_pylist() or pa.types.is_floating(kind)
    for nan_is_greatest in (True, False):

        def place(value: Any, nan: float = math.inf if nan_is_greatest else -math.inf) -> Any:
            is_float = isinstance(value, float)
            return (nan if value != value else value, value != value, math.copysign(1, value)) if is_float else value

        found = column.take(pa.array(np.argsort(order_codes(column, nan_is_greatest), kind="stable")))
        if nan_is_greatest or not any(value != value for value in column.to_pylist()):
            assert repr(found.to_pylist()) == repr(sorted(column.to_pylist(), key=place))
        else:
            assert math.isnan(found[0].as_py())


@given(st.lists(st.integers(-(1 << 63), (1 << 63) - 1)))
def test_decimals_are_multiples_of_their_last_place(numbers: list[int]) -> None:
    column = of_unscaled(np.array(numbers, np.int64), pa.decimal128(38, 2))
    assert [int(value.scaleb(2)) for value in column.to_pylist()] == numbers
    again = unscaled(column[1:])
    assert again is not None and again.tolist() == numbers[1:]
    assert unscaled(pa.array([1 << 63], pa.decimal128(38, 0))) is None
