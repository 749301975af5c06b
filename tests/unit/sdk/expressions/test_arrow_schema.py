"""Rows that are read as columns are the rows that they always were, with the same times and the same errors."""

import datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headrace as beam
from headrace.lowlevel.records.column_batch import ColumnBatch
from headrace.lowlevel.time import MIN_TIMESTAMP
from headrace.runners.spark.dataframe.staged_rows import batch_of_rows
from headrace.sdk.expressions.element_schema import shape_of_rows, times_of
from headrace.sdk.io.columns.tables import to_dicts, to_rows
from headrace.sdk.io.timestamps import BadTimestamp, timestamps_of

UTC = datetime.UTC
PLAIN = {
    "int8": pa.array([1, None, -3], pa.int8()),
    "uint64": pa.array([2**64 - 1, 0, None], pa.uint64()),
    "float": pa.array([0.1, float("nan"), None], pa.float32()),
    "text": pa.array(["a", "ß\U0001f600", None]),
    "large": pa.array(["a", "", None], pa.large_string()),
    "bytes": pa.array([b"a", b"\xff", None]),
    "coded": pa.array(["a", "b", "a"]).dictionary_encode(),
    "decimal": pa.array([Decimal("1.50"), None, Decimal(0)], pa.decimal128(10, 2)),
    "day": pa.array([datetime.date(2020, 2, 29), None, datetime.date(1600, 1, 1)]),
    "instant": pa.array([0, 1, 10**15], pa.timestamp("us", "Europe/Berlin")),
    "local": pa.array([0, None, 10**12], pa.timestamp("ms")),
    "nanos": pa.array([0, 1, 10**15], pa.timestamp("ns")),
    "flag": pa.array([True, False, None]),
    "nothing": pa.nulls(3),
    "list": pa.array([[1], None, [None, 2]]),
    "struct": pa.array([{"a": 1, "b": [b"x"]}, None, {"a": None, "b": None}]),
    "map": pa.array([[("a", 1)], None, []], pa.map_(pa.string(), pa.int64())),
    "clock": pa.array([0, None, 86_399], pa.time32("s")),
    "duration": pa.array([-1, None, 10**9], pa.duration("s")),
}
NOT_PLAIN = {
    "beyond the calendar": pa.array([2**62], pa.timestamp("us", "UTC")),
    "day beyond the calendar": pa.array([2**30], pa.int32()).cast(pa.date32()),
    "broken text": pa.Array.from_buffers(pa.string(), 1, [None, *pa.array([b"\xff"]).buffers()[1:]]),
    "no zone": pa.array([0], pa.timestamp("us", "Europe/Nowhere")),
    "list beyond the calendar": pa.array([[2**62]], pa.list_(pa.timestamp("us", "UTC"))),
    "struct with broken text": pa.StructArray.from_arrays(
        [pa.Array.from_buffers(pa.string(), 1, [None, *pa.array([b"\xff"]).buffers()[1:]])], ["a"]
    ),
    "struct with two fields of one name": pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], ["a", "a"]),
    "map beyond the calendar": pa.array([[("a", 2**30)]], pa.map_(pa.string(), pa.date32())),
    "list with a dictionary": pa.array([["a"]], pa.list_(pa.dictionary(pa.int8(), pa.string()))),
    "time of no day": pa.array([86_400], pa.int32()).cast(pa.time32("s")),
    "time with nanoseconds": pa.array([1], pa.time64("ns")),
    "duration beyond Python": pa.array([2**62], pa.duration("s")),
    "decimal of 256 bits": pa.array([Decimal(1)], pa.decimal256(40, 0)),
}


@pytest.mark.parametrize("as_rows", [False, True])
def test_rows_are_what_they_were(as_rows):
    table = pa.RecordBatch.from_pydict(PLAIN).slice(1)
    shape = shape_of_rows(table, as_rows)
    assert repr(shape.values(table)) == repr((to_rows if as_rows else to_dicts)(table))


@pytest.mark.parametrize("name", NOT_PLAIN)
def test_what_may_fail_later_is_read_at_once(name):
    assert shape_of_rows(pa.RecordBatch.from_pydict({"x": NOT_PLAIN[name]}), as_rows=False) is None


def test_of_two_columns_of_one_name_a_dict_has_the_last():
    table = pa.RecordBatch.from_arrays([pa.array([1]), pa.array([2])], ["x", "x"])
    assert shape_of_rows(table, as_rows=False) is None


@pytest.mark.parametrize("column", [pa.array([1, 2**40, -5]), pa.array([1.5, -0.1234567, 1e12])], ids=str)
def test_seconds_are_what_they_were(column):
    assert times_of(column).tolist() == timestamps_of(column.to_pylist(), lambda value: value)


@pytest.mark.parametrize(("unit", "micros"), [("s", [10**6, -(10**6)]), ("us", [1, -1]), ("ns", [0, -1])])
def test_instants_of_all_units(unit, micros):
    assert times_of(pa.array([1, -1], pa.timestamp(unit, "UTC"))).tolist() == micros


@pytest.mark.parametrize(
    "column",
    [pa.array([1, None]), pa.array([float("nan")]), pa.array([1e30]), pa.array([2**62]), pa.array(["1970-01-01"])],
    ids=str,
)
def test_times_that_need_a_look(column):
    assert times_of(column) is None


def batches(folder, table, **options):
    path = str(folder / "a.parquet")
    pq.write_table(table, path)
    injector = beam.io.ReadFromParquet(path, **options).injector()
    return [batch for split in injector.plan(injector.start(), 10**6, 1).splits for batch in split.read()]


def test_a_file_is_read_as_columns(tmp_path):
    table = pa.table({"carrier": ["UA", "AA"], "at": pa.array([5, 6], pa.timestamp("us", "UTC"))})
    (batch,) = batches(tmp_path, table, columns=["carrier"], timestamp="at")
    assert isinstance(batch, ColumnBatch)
    assert (batch.times.tolist(), batch.values) == ([5, 6], [{"carrier": "UA"}, {"carrier": "AA"}])


def test_times_by_a_function_leave_columns(tmp_path):
    (batch,) = batches(tmp_path, pa.table({"at": [5, 6]}), timestamp=lambda row: row["at"] + 1)
    assert isinstance(batch, ColumnBatch)
    assert batch.times.tolist() == [6_000_000, 7_000_000]


@pytest.mark.parametrize("bad", [1e30, None, float("inf")])
def test_a_bad_time_names_file_and_row(tmp_path, bad):
    with pytest.raises(ValueError, match=r"a\.parquet, row 1: timestamp of \{'at': ") as caught:
        batches(tmp_path, pa.table({"at": [5.0, bad]}), timestamp="at")
    assert isinstance(caught.value.__cause__, BadTimestamp)


def test_wide_rows_come_in_smaller_batches(tmp_path):
    narrow = batches(tmp_path, pa.table({"a": np.arange(60_000)}))
    wide = batches(tmp_path, pa.table({f"a{i}": np.arange(60_000) for i in range(50)}))
    assert [len(batch) for batch in narrow] == [50_000, 10_000]
    assert {len(batch) for batch in wide} == {10_000}


INSTANTS = pa.array([5, 6], pa.timestamp("us", "America/New_York"))


@pytest.mark.parametrize("timestamp", [None, "at", lambda row: row.at])
def test_rows_of_a_dataframe_come_as_columns(timestamp):
    table = pa.RecordBatch.from_pydict({"carrier": ["UA", "AA"], "at": INSTANTS})
    batch = batch_of_rows(table, timestamp)
    assert isinstance(batch, ColumnBatch)
    assert batch.values == to_rows(table)
    assert batch.times.tolist() == ([MIN_TIMESTAMP, MIN_TIMESTAMP] if timestamp is None else [5, 6])


def test_rows_that_may_fail_later_are_made_at_once():
    both = pa.array([[1], [2]], pa.list_(pa.time64("ns")))
    batch = batch_of_rows(pa.RecordBatch.from_pydict({"both": both, "at": INSTANTS}), "at")
    assert not isinstance(batch, ColumnBatch)
    assert batch.timestamps == [5, 6]
