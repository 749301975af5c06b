"""Which values are columns for which combiners, so that none falls back to single elements without anyone noticing."""

from __future__ import annotations

from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from headrace.lowlevel.records.column_batch import ColumnBatch, Single, pair
from headrace.lowlevel.records.record import Batch
from headrace.lowlevel.time import Timestamp
from headrace.sdk.combinefns.collecting import CountDistinctCombineFn, ToListCombineFn, TopCombineFn, ToSetCombineFn
from headrace.sdk.combinefns.composite import SingleInputTupleCombineFn
from headrace.sdk.combinefns.numeric import AnyFn, CountCombineFn, CountNonNullCombineFn, MaxFn, MeanCombineFn, SumFn
from headrace.sdk.combinefns.quantile_sketch import ApproximateQuantilesCombineFn
from headrace.sdk.combinefns.unique_sketch import ApproximateUniqueCombineFn
from headrace.sdk.combinefns.variance import VarianceFn
from headrace.sdk.operators.combining.aggregates import reducers_of
from headrace.sdk.operators.combining.combine_buffer import addends_of
from headrace.sdk.operators.combining.value_columns import columns_of
from tests.properties.groupings.test_column_types import TYPES

NUMBERS = [kind for kind in TYPES if pa.types.is_integer(kind) or pa.types.is_floating(kind)]
ADDED = [*NUMBERS, pa.bool_(), pa.decimal128(12, 2)]
BOTH = SingleInputTupleCombineFn(SumFn(), MaxFn())
CASES = [
    *((combine, kind) for combine in (SumFn(), MeanCombineFn(), BOTH) for kind in ADDED),
    *((combine, kind) for combine in (MaxFn(), TopCombineFn(2), ToListCombineFn(), ToSetCombineFn()) for kind in TYPES),
    *((CountCombineFn(), kind) for kind in [*TYPES, pa.list_(pa.int64())]),
    (AnyFn(), pa.bool_()),
    *((ApproximateQuantilesCombineFn(3), kind) for kind in TYPES),
    *((combine, kind) for combine in (CountDistinctCombineFn(), ApproximateUniqueCombineFn(16)) for kind in TYPES),
    *((VarianceFn(), kind) for kind in [*NUMBERS, pa.bool_()]),
    *((CountNonNullCombineFn(), kind) for kind in [*TYPES, pa.list_(pa.int64())]),
]


def is_taken(combine: Any, batch: Batch) -> bool:
    reducers = reducers_of(combine)
    return reducers is not None and addends_of(batch, reducers) is not None


def batch_of(keys: pa.Array, values: pa.Array) -> ColumnBatch:
    return ColumnBatch(pa.record_batch([keys, values], ["key", "value"]), np.array([0]), pair(Single(0), Single(1)))


# The text of a combiner has its address, which differs from process to process.
@pytest.mark.parametrize(
    ("combine", "kind"), CASES, ids=[f"{type(combine).__name__} {kind}" for combine, kind in CASES]
)
def test_columns_that_a_combiner_takes(combine: Any, kind: pa.DataType) -> None:
    # Nobody looks at what is counted.
    counts = isinstance(combine, (CountCombineFn, CountNonNullCombineFn))
    value = pa.nulls(1, kind) if counts else pa.array([sample(kind)], kind)
    assert is_taken(combine, batch_of(pa.array(["a"]), value))


def sample(kind: pa.DataType) -> object:
    """A value of a type."""
    if pa.types.is_binary(kind):
        return b"1"
    is_text = pa.types.is_dictionary(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind)
    return "1" if is_text else pa.types.is_boolean(kind) or 1


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_columns_that_are_keys(kind: pa.DataType) -> None:
    assert is_taken(SumFn(), batch_of(pa.nulls(1, kind), pa.array([1])))


@pytest.mark.parametrize("value", [1, 1.5, True, "a", b"a", Decimal("1.50"), date(2026, 1, 1), timedelta(1)], ids=str)
def test_python_values_of_one_type_are_columns(value: object) -> None:
    assert is_taken(MaxFn(), Batch([("a", value), (None, value)], [0, 0]))
    found = columns_of([(value, None, Timestamp(1))])
    assert found is not None
    assert found.shape.values(pa.record_batch(list(found.columns), ["a", "b", "c"])) == [(value, None, Timestamp(1))]


@pytest.mark.parametrize("values", [[1, 1.5], [1 << 63], ["\ud800"], [Decimal("1.0"), Decimal("1.00")], [1j]])
def test_values_that_would_not_be_the_same_again_are_no_columns(values: list[object]) -> None:
    assert columns_of(values) is None
