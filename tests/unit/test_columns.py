"""The quick way from Arrow to Python gives what pyarrow's own gives."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.sdk.io.columns import to_list

UNITS = {"s": 1, "ms": 10**3, "us": 10**6}
# Years 1 to 9999, which a datetime can hold in every zone.
SECONDS = st.integers(-62_100_000_000, 253_300_000_000)


@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin", "America/New_York", "+02:30"])
@pytest.mark.parametrize("unit", UNITS)
@given(st.lists(st.tuples(SECONDS, st.integers(0, 999_999)) | st.none()))
def test_instants(unit: str, zone: str | None, times: list[tuple[int, int] | None]) -> None:
    values = [None if time is None else time[0] * UNITS[unit] + time[1] % UNITS[unit] for time in times]
    column = pa.array(values, pa.timestamp(unit, zone))
    found, expected = to_list(column), column.to_pylist()
    assert found == expected
    assert list(map(repr, found)) == list(map(repr, expected))


@pytest.mark.parametrize("values", [[1, None], ["a", "ä"], [[1], None], [{"a": 1}], [1.5], [b"x"], []])
def test_others(values: list[object]) -> None:
    assert to_list(pa.array(values)) == values


def test_a_slice() -> None:
    assert to_list(pa.array([0, 1, 2], pa.timestamp("us")).slice(1)) == pa.array([1, 2], pa.timestamp("us")).to_pylist()


def test_nanoseconds() -> None:
    column = pa.array([0, 1_000], pa.timestamp("ns", "UTC"))
    assert to_list(column) == column.to_pylist()
