"""Dicts made by generated code against those made row by row."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.lowlevel.columnar.arrow_to_python import dicts_of

NAMES = st.lists(st.text(), min_size=1, max_size=5, unique=True)


@given(NAMES, st.integers(0, 3))
def test_generated_dicts_are_those_of_zip(names: list[str], rows: int) -> None:
    columns = [[(name, row) for row in range(rows)] for name in names]
    made = dicts_of(tuple(names), columns)
    assert made == [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
    assert all(list(each) == names for each in made)


def test_columns_of_different_length_are_refused() -> None:
    with pytest.raises(ValueError, match="shorter"):
        dicts_of(("a", "b"), [[1, 2], [1]])
