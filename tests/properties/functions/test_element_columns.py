"""Python values that become columns are the same values again, to the bit and the type."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from enum import IntEnum
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace import Row
from headrace.lowlevel.time import Timestamp
from headrace.sdk.operators.combining.value_columns import element_columns
from tests.depth import examples


class Colour(IntEnum):
    """A whole number of another type."""

    RED = 1


LEAVES: list[st.SearchStrategy[Any]] = [
    st.integers(-9, 9) | st.sampled_from([1 << 63, -(1 << 63), (1 << 63) - 1]),
    st.floats(),
    st.booleans(),
    st.sampled_from(["", "ß", "\ud800"]),
    st.binary(max_size=2),
    st.dates(),
    st.timedeltas(),
    st.sampled_from(list(map(Decimal, ("1.50", "-0.00", "2.25", "NaN", "1E+2")))),
    st.integers(-9, 9).map(Timestamp),
    st.sampled_from([Colour.RED, datetime(2024, 1, 1), datetime(2024, 1, 1, tzinfo=UTC), [1], {"a": 1}]),
]


@st.composite
def elements(draw: st.DrawFn) -> list[Any]:
    """Elements of one kind, of which one may be another."""
    fields = [draw(st.sampled_from(LEAVES)) for _ in range(draw(st.integers(1, 3)))]
    fields = [values | st.none() if draw(st.integers(0, 3)) == 0 else values for values in fields]
    names = "abc"[: len(fields)]
    record = st.fixed_dictionaries(dict(zip(names, fields, strict=True)))
    kinds = [record, record.map(Row.of), st.tuples(*fields), st.tuples(fields[0], record.map(Row.of)), fields[0]]
    kind = draw(st.sampled_from(kinds))
    made = draw(st.lists(kind, min_size=1, max_size=4))
    return made + ([draw(st.sampled_from(kinds).flatmap(lambda each: each))] if draw(st.integers(0, 5)) == 0 else [])


def again(values: list[Any]) -> list[object] | None:
    """The values made of the columns; None if they are no columns."""
    found = element_columns(values)
    if found is None:
        return None
    return found.shape.values(pa.RecordBatch.from_arrays(found.columns, list(map(str, range(len(found.columns))))))


@settings(max_examples=examples(200, 10_000))
@given(elements())
def test_values_of_columns_are_the_values(values: list[Any]) -> None:
    made = again(values)
    assert made is None or [(type(each), repr(each)) for each in made] == [(type(each), repr(each)) for each in values]


ROW = {"a": 1, "b": "x"}
COLUMNS: list[list[Any]] = [
    [ROW, {"a": 2, "b": "y"}],
    [Row(a=1), Row(a=2)],
    [("k", Row(a=1.5)), ("l", Row(a=None))],
    [(1, (2.5, Decimal("1.50")))],
    [1, None],
]
VALUES: list[list[Any]] = [
    [ROW, {"b": "y", "a": 2}],
    [ROW, {"a": 2}],
    [ROW, Row.of(ROW)],
    [{"a": 1}, {"a": 1.5}],
    [{1: 2}],
    [{}],
    [{"a": [1]}],
    [{"a": Colour.RED}],
    [(1, 2), (1,)],
]


@pytest.mark.parametrize("values", COLUMNS, ids=repr)
def test_what_becomes_columns(values: list[Any]) -> None:
    assert again(values) == values


@pytest.mark.parametrize("values", VALUES, ids=repr)
def test_what_stays_values(values: list[Any]) -> None:
    assert again(values) is None
