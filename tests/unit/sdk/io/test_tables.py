"""Elements as Arrow tables: the same ones whether they come as columns or one by one."""

import datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headrace as beam
from headrace import col
from headrace.lowlevel.records.column_batch import ColumnBatch
from headrace.lowlevel.records.record import Batch
from headrace.lowlevel.sinks.staged_rows import Collected
from headrace.sdk.expressions.element_schema import Fields, FieldsKind, Instant, Single, shape_of_rows
from headrace.sdk.io.columns.tables import table_of
from headrace.transforms import window
from headrace.utils.timestamp import Timestamp

COLUMNS = pa.RecordBatch.from_pydict(
    {
        "int8": pa.array([1, None], pa.int8()),
        "float": pa.array([0.5, None], pa.float32()),
        "text": pa.array(["a", None], pa.large_string()),
        "coded": pa.array(["a", "b"]).dictionary_encode(),
        "day": pa.array([datetime.date(2020, 1, 1), None]),
        "local": pa.array([1, None], pa.timestamp("us")),
        "instant": pa.array([1, 2], pa.timestamp("us", "UTC")),
        "flag": pa.array([True, None]),
        "nothing": pa.nulls(2),
        "price": pa.array([Decimal("1.50"), None], pa.decimal128(9, 2)),
        "whole": pa.array([Decimal(7), Decimal(10**20)], pa.decimal128(21, 0)),
        "seconds": pa.array([1, None], pa.timestamp("s")),
        "milliseconds": pa.array([1, 2], pa.timestamp("ms", "UTC")),
        "bytes": pa.array([b"a", None], pa.large_binary()),
    }
)
OTHERS = {
    kind: pa.array([0, 86_400_000, None], pa.int64() if kind.bit_width == 64 else pa.int32()).view(kind)
    for kind in (
        pa.date64(),
        *map(pa.duration, ("s", "ms", "us")),
        *(pa.timestamp(unit, "UTC") for unit in ("s", "ms")),
    )
} | {pa.time32("s"): pa.array([7, None], pa.int32()).view(pa.time32("s"))}
"""Columns that are not those of rows, by type."""


def columns(table=COLUMNS, as_rows=False):
    return ColumnBatch(table, np.zeros(table.num_rows, np.int64), shape_of_rows(table, as_rows))


def plain(batch):
    return Batch(batch.values, batch.timestamps)


@pytest.mark.parametrize("as_rows", [False, True])
def test_columns_make_the_table_that_their_values_make(as_rows):
    assert table_of(columns(as_rows=as_rows)).equals(table_of(plain(columns(as_rows=as_rows))))


def test_no_value_is_made_of_columns():
    class Unreadable(ColumnBatch):
        @property
        def values(self):
            raise AssertionError("a value was made of the columns")

    batch = columns()
    assert table_of(Unreadable(batch.table, batch.times, batch.shape)).equals(table_of(batch))


def test_timestamps_become_instants():
    table = pa.RecordBatch.from_pydict({"at": [1_500_000]})
    batch = ColumnBatch(table, np.zeros(1, np.int64), Fields(("at",), (Instant(0),), FieldsKind.ROW))
    assert table_of(batch).equals(table_of(plain(batch)))
    assert table_of(batch).to_pylist() == [{"at": datetime.datetime(1970, 1, 1, 0, 0, 1, 500_000, datetime.UTC)}]


@pytest.mark.parametrize(
    "column",
    [
        pa.array([5], pa.uint64()),
        pa.array([[1]]),
        pa.array([1], pa.timestamp("s")),
        pa.array([Decimal(100)], pa.decimal128(4, -2)),
        pa.array([[1, None], None, []], pa.list_(pa.uint8())),
        pa.array([[Decimal("1.50")], [None, Decimal(0)]], pa.large_list(pa.decimal128(9, 2))),
        pa.array([["a"], ["b", None]], pa.list_(pa.large_string())),
        pa.array([["a"], ["b", None]], pa.list_(pa.string()))[1:],
        pa.array([[], None], pa.list_(pa.int64())),
        pa.array([[None]], pa.list_(pa.int64())),
        pa.array([[[1], []], []], pa.list_(pa.list_(pa.int8()))),
        pa.array([[{"x": 1}]]),
        *OTHERS.values(),
    ],
    ids=str,
)
def test_other_columns_are_those_of_their_values(column):
    table = pa.RecordBatch.from_pydict({"x": column})
    batch = ColumnBatch(table, np.zeros(len(column), np.int64), Fields(("x",), (Single(0),), FieldsKind.DICT))
    assert table_of(batch).equals(table_of(plain(batch)))


SCHEMA = pa.schema([("missing", pa.string()), ("int8", pa.float64())])


def test_a_schema_is_kept_to():
    few = columns(COLUMNS.select(["int8"]))
    assert table_of(few, SCHEMA).equals(table_of(plain(few), SCHEMA))
    assert table_of(few, SCHEMA).schema == SCHEMA


@pytest.mark.parametrize(
    "batch", [columns(), plain(columns()), columns(as_rows=True)], ids=["columns", "dicts", "rows"]
)
def test_a_field_that_is_no_column_is_refused(batch):
    with pytest.raises(ValueError, match=r"it has a field 'float', but the columns are \['missing', 'int8'\]; leave"):
        table_of(batch, SCHEMA)


@pytest.mark.parametrize("batch", [columns(), plain(columns())], ids=["columns", "dicts"])
def test_an_open_schema_takes_further_fields(batch):
    table = table_of(batch, SCHEMA, is_open=True)
    assert table.schema.names == ["missing", *[name for name in ["int8", *COLUMNS.schema.names[1:]]]]
    assert table.schema.field("int8").type == pa.float64()
    assert table.column("text").to_pylist() == ["a", None]


def test_every_field_of_every_record_is_in_the_table():
    rows = [{"order": 1}, {"coupon": "X", "order": 2}, {"lines": [{"sku": 1}, {"n": [beam.Row(at=Timestamp(0))]}]}]
    table = table_of(Batch(rows, [0] * 3))
    zero = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    assert table.to_pylist() == [
        {"order": 1, "coupon": None, "lines": None},
        {"order": 2, "coupon": "X", "lines": None},
        {"order": None, "coupon": None, "lines": [{"sku": 1, "n": None}, {"sku": None, "n": [{"at": zero}]}]},
    ]


def test_what_does_not_fit_is_named():
    with pytest.raises(ValueError, match=r"element \{'int8': 1, .* does not fit the schema"):
        table_of(columns(), pa.schema([("text", pa.int64())]))
    with pytest.raises(ValueError, match="'x': 9223372036854775808} does not fit"):
        table_of(Batch([{"x": 1}, {"x": 2**63}], [0, 0]), pa.schema({"x": pa.int64()}))
    with pytest.raises(TypeError, match="has no named fields"):
        table_of(Batch([5], [0]))


LESS = datetime.datetime(2024, 1, 2, 3)


@pytest.mark.parametrize(
    ("kind", "fits", "does_not"),
    [
        (pa.int64(), 2.0, 1.5),
        (pa.uint8(), Decimal(2), Decimal("1.5")),
        (pa.int32(), np.float32(2), np.float32(1.5)),
        (pa.date32(), datetime.datetime(2024, 1, 2), LESS),
        (pa.date64(), datetime.date(2024, 1, 2), LESS),
        (pa.list_(pa.int8()), [1, None, 2.0], [1, 2.5]),
        (pa.list_(pa.date32(), 1), [LESS.date()], [LESS]),
        (pa.map_(pa.string(), pa.int8()), {"a": 1.0, "b": None}, {"a": 1.5}),
        (pa.map_(pa.int8(), pa.string()), [(1, "a")], [(1.5, "a")]),
        (pa.struct([("a", pa.int8()), ("b", pa.string())]), {"a": 1.0}, {"a": 1.5}),
        (pa.struct([("a", pa.int8())]), {"a": 1}, {"a": 1, "c": 2}),
        (pa.large_list(pa.struct([("a", pa.list_(pa.int8()))])), [{"a": [1]}, None], [{"a": [1.5]}]),
    ],
    ids=str,
)
def test_values_are_not_cut_to_fit(kind, fits, does_not):
    """Arrow takes the whole part of a number, the date of a datetime, and the fields of a struct that it knows."""
    schema = pa.schema([("at", pa.string()), ("it", kind)])
    assert table_of(Batch([{"it": fits}, {"it": None}], [0, 0]), schema).num_rows == 2
    with pytest.raises(ValueError, match=r"^element .* does not fit the schema: a part of .* in column 'it' of type "):
        table_of(Batch([{"it": fits}, {"it": does_not}], [0, 0]), schema)


def test_columns_are_not_cut_to_fit():
    table = pa.RecordBatch.from_pydict({"it": [1.0, 1.5]})
    with pytest.raises(ValueError, match=r"element \{'it': 1.5\} does not fit the schema: a part of 1.5 would be lost"):
        table_of(columns(table), pa.schema([("it", pa.int64())]))
    assert table_of(columns(table.slice(0, 1)), pa.schema([("it", pa.int64())])).to_pylist() == [{"it": 1}]


def test_batches_of_both_kinds_go_together():
    collected = Collected()
    few = columns(COLUMNS.select(["int8"]))
    for batch in (few, Batch([{"int8": 7}], [0]), Batch([{"int8": 8}], [0]), few):
        collected.add(batch)
    assert table_of(collected).column("int8").to_pylist() == [1, None, 7, 8, 1, None]
    assert [len(part) for part in collected.parts()] == [2, 2, 2]
    assert collected.timestamps == [0] * 6


def rows(path):
    pq.write_table(pa.table({"carrier": ["UA", "AA", "UA"], "delay": [30, 5, 60]}), path)
    return beam.io.ReadFromParquet(str(path), timestamp=lambda row: row["delay"])


def test_a_function_gets_the_rows_of_an_epoch(tmp_path):
    got = []
    with beam.Pipeline("LocalRunner") as pipeline:
        late = pipeline | rows(tmp_path / "a.parquet") | beam.Filter(col.delay > 15)
        (
            late
            | beam.Select("carrier", at=beam.event_time())
            | beam.io.WriteToTables(lambda epoch, table: got.append(table))
        )
    assert pa.concat_tables(got).to_pydict() == {
        "carrier": ["UA", "UA"],
        "at": [Timestamp(30).to_utc_datetime(has_tz=True), Timestamp(60).to_utc_datetime(has_tz=True)],
    }


def test_results_of_groupings_are_rows_too(tmp_path):
    got = []
    with beam.Pipeline("LocalRunner") as pipeline:
        late = pipeline | rows(tmp_path / "a.parquet") | beam.WindowInto(window.FixedWindows(60))
        totals = late | beam.GroupBy("carrier").aggregate_field("delay", sum, "total")
        (
            totals
            | beam.Select("carrier", "total", start=beam.window_start().cast(int))
            | beam.io.WriteToTables(lambda epoch, table: got.extend(table.to_pylist()))
        )
    assert sorted(got, key=repr) == [
        {"carrier": "AA", "total": 5, "start": 0},
        {"carrier": "UA", "total": 30, "start": 0},
        {"carrier": "UA", "total": 60, "start": 60},
    ]


def test_parquet_is_written_from_columns(tmp_path):
    with beam.Pipeline("LocalRunner") as pipeline:
        late = pipeline | rows(tmp_path / "a.parquet") | beam.Filter(col.delay > 15)
        late | beam.io.WriteToParquet(str(tmp_path / "out" / "part"))
    assert pq.read_table(tmp_path / "out").to_pydict() == {"carrier": ["UA", "UA"], "delay": [30, 60]}


def test_schemas_that_clash_are_told():
    sink = beam.io.WriteToTables(print).sink()
    receipts = [sink.stage(Batch([{"x": x}], [0]), 7, 0, "t") for x in (1, "a")]
    with pytest.raises(ValueError, match=r"the rows of epoch 7 have no common schema.*state one with schema"):
        sink.deliver(7, receipts)
    assert sink.stage(Batch([], []), 7, 0, "t") is None
    sink.deliver(7, [])


@pytest.mark.parametrize(("arguments", "says"), [((5,), "takes a function"), ((print, "x"), "schema must be")])
def test_wrong_arguments_are_refused(arguments, says):
    with pytest.raises(TypeError, match=says):
        beam.io.WriteToTables(*arguments)
