"""Dicts made by generated code against those made row by row, and instants against those of pyarrow."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
import pytz
from hypothesis import given
from hypothesis import strategies as st

from headrace.lowlevel.columnar import arrow_arrays
from headrace.lowlevel.columnar.arrow_arrays import dicts_of, named_values, to_list

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


@pytest.mark.parametrize("zone", [pytz.timezone("Europe/Paris"), ZoneInfo("Europe/Paris")], ids=["pytz", "zoneinfo"])
def test_instants_of_early_years_in_zones(zone: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """Zones of a column are those of pytz with older releases of pyarrow, where pandas ended the process."""
    monkeypatch.setattr(arrow_arrays, "zone_of", lambda name: zone)
    instants = [datetime(1, 1, 2, tzinfo=UTC), datetime(2020, 7, 1, 12, tzinfo=UTC), datetime(9999, 12, 30, tzinfo=UTC)]
    told = to_list(pa.array(instants, pa.timestamp("us", "Europe/Paris")))
    assert told == instants
    assert [str(value)[:16] for value in told] == ["0001-01-02 00:09", "2020-07-01 14:00", "9999-12-30 01:00"]


YEAR_1, YEAR_10000 = -62_135_596_800, 253_402_300_800
"""Seconds since 1970 UTC."""


@pytest.mark.parametrize(
    ("kind", "seconds"),
    [
        (pa.timestamp("s", "America/New_York"), YEAR_1 + 3_600),
        (pa.timestamp("s", "Asia/Tokyo"), YEAR_10000 - 3_600),
        (pa.timestamp("s", "UTC"), YEAR_1 - 1),
        (pa.timestamp("s"), YEAR_10000),
    ],
    ids=["west", "east", "utc", "naive"],
)
@pytest.mark.parametrize("others", [[], [None]], ids=["alone", "with null"])
def test_times_that_no_datetime_expresses_are_named(kind: pa.DataType, seconds: int, others: list[None]) -> None:
    column = pa.array([seconds, *others], pa.int64()).cast(kind).cast(pa.timestamp("us", kind.tz))
    with pytest.raises(ValueError, match=re.escape(f"a column of type {column.type} has times from ")):
        to_list(column)


def test_times_of_day_with_nanoseconds_are_refused() -> None:
    """They were cut to microseconds."""
    whole = pa.array([1000, None], pa.time64("ns"))
    assert to_list(whole) == whole.to_pylist()
    with pytest.raises(ValueError, match=re.escape("a column of type time64[ns] has times of day with nanoseconds")):
        to_list(pa.array([None, 1001], pa.time64("ns")))


STRUCT = pa.struct([("id", pa.int64()), ("at", pa.timestamp("s", "UTC"))])
NOT_UTF_8 = pa.Array.from_buffers(
    pa.string(), 1, [None, pa.py_buffer(bytes([0, 0, 0, 0, 1, 0, 0, 0])), pa.py_buffer(b"\xff")]
)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pa.array([-(2**31)], pa.date32()), "does not have: -2147483648 days since 1970 (date32[day]); correct"),
        (
            pa.array([None, [0], [None, 2**62]], pa.list_(pa.timestamp("us"))),
            "a column of type list<item: timestamp[us]> has a value that Python does not have: 4611686018427387904 us "
            "since 1970 (timestamp[us]); correct it",
        ),
        (
            pa.array([{"id": 1, "at": None}, {"id": 2, "at": 2**60}], STRUCT),
            "does not have: 1152921504606846976 s since 1970 (timestamp[s, tz=UTC]); correct it",
        ),
        (
            pa.array([[("a", 1)], [("b", 2), ("c", -(2**60))]], pa.map_(pa.string(), pa.duration("ms"))),
            "does not have: -1152921504606846976 ms (duration[ms]); correct it",
        ),
        (pa.array([2**62], pa.duration("s")), "does not have: 4611686018427387904 s (duration[s]); correct it"),
        (pa.array([2**62]).view(pa.date64()), "not have: 4611686018427387904 ms since 1970 (date64[ms]); correct it"),
        (
            pa.array([[1]], pa.list_(pa.timestamp("us", "Nowhere/X"))),
            "has a time zone that is not known here; write the times in UTC",
        ),
        (pa.array([1], pa.timestamp("us", "Nowhere/X")), "has a time zone that is not known here; write the times"),
        (pa.array([1, None], pa.timestamp("us", "Nowhere/X")), "has a time zone that is not known here; write the"),
        (NOT_UTF_8, "a column of type string has text that is not UTF-8; write it as binary, or leave"),
    ],
    ids=["date", "list", "struct", "map", "duration", "ms", "nested zone", "zone", "zone with null", "text"],
)
def test_what_python_does_not_have_is_named_with_its_column(column: pa.Array, message: str) -> None:
    """The message was that of Python's constructor alone, such as `date value out of range`."""
    table = pa.RecordBatch.from_arrays([pa.array([1] * len(column)), column], names=["id", "at"])
    with pytest.raises(ValueError, match=re.escape(message)) as error:
        named_values(table, 1)
    assert str(error.value).startswith("column 'at': ")
