"""Values that Arrow does not take for a column: the error names step, column, value, type and remedy."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from decimal import Decimal

import pyarrow as pa
import pytest

import headrace as beam
from headrace.lowlevel import StepError
from headrace.lowlevel.records.record import Batch
from headrace.runners.local import LocalRunner
from headrace.sdk.io.columns.run_schema import with_schema
from headrace.sdk.io.columns.tables import table_of

MONEY = pa.decimal128(5, 2)
CASES = [
    (MONEY, Decimal("1.234"), "col", "3 digits behind the point, and the column has a scale of 2; round it before"),
    (MONEY, Decimal("12345.6"), "col", "5 digits before the point, and the column has room for 3 (precision 5"),
    (MONEY, 12345, "col", "5 digits before the point"),
    (MONEY, 1.5, "col", "decimal.Decimal(str(...))"),
    (MONEY, "1.5", "col", "it is text; make a value of the column's type of it before, with decimal.Decimal(...)"),
    (MONEY, Decimal("NaN"), "col", "no column of decimals has it; map it to None before"),
    (pa.int8(), 300, "col", "the column holds -128 to 127; give it a wider type"),
    (pa.int64(), 2**70, "col", "the column holds -9223372036854775808 to 9223372036854775807"),
    (pa.uint8(), -1, "col", "the column holds 0 to 255"),
    (pa.int32(), "7", "col", "it is text; make a value of the column's type of it before, with int(...)"),
    (pa.float64(), "7", "col", "with float(...)"),
    (pa.string(), 7, "col", "it is no text; make text of it before, with str(...)"),
    (pa.string(), "\ud800", "col", "it has characters that UTF-8 does not have; replace them before"),
    (pa.bool_(), 1, "col", "with bool(...)"),
    (pa.date32(), "2020-01-01", "col", "with datetime.date.fromisoformat(...)"),
    (pa.timestamp("us"), "now", "col", "with datetime.datetime.fromisoformat(...)"),
    (pa.timestamp("ns"), datetime(9999, 1, 1), "col", "give the column the unit 'us'"),
    (pa.duration("ns"), timedelta(999999999), "col", "give the column the unit 'us'"),
    (pa.binary(4), b"12345", "col", "give the column another type"),
    (pa.list_(pa.int8()), [1, 300], "col[1]", "the column holds -128 to 127"),
    (pa.struct([("a", MONEY)]), {"a": Decimal("1.234")}, "col.a", "3 digits behind the point"),
    (pa.map_(pa.string(), pa.int8()), {"x": 300}, "col['x']", "the column holds -128 to 127"),
]
MAP = pa.map_(pa.string(), pa.int8())


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (MAP, [None]),
        (MAP, [("a", 1), None]),
        (pa.list_(MAP), [[("a", 1)], [None]]),
        (pa.struct([("m", MAP)]), {"m": [None]}),
        (pa.map_(pa.string(), MAP), [("a", [None])]),
    ],
    ids=str,
)
def test_a_map_without_an_entry_is_named(kind, value):
    """Arrow itself would end the process."""
    with pytest.raises(ValueError, match="a map has None in place of a pair of key and value"):
        table_of(Batch([{"col": value}], [0]), pa.schema([("col", kind)]))


@pytest.mark.parametrize(("kind", "value", "path", "why"), CASES)
def test_the_value_is_named_with_its_column_type_and_remedy(kind, value, path, why):
    schema = pa.schema([("id", pa.int64()), ("col", kind)])
    with pytest.raises(ValueError, match="does not fit in column") as caught:
        table_of(Batch([{"id": 1, "col": None}, {"id": 2, "col": value}], [0, 0]), schema)
    message = str(caught.value)
    inner = next(iter(value.values())) if isinstance(value, dict) else value[1] if isinstance(value, list) else value
    assert message.startswith(f"element {{'id': 2, 'col': {value!r}}} does not fit the schema: {inner!r} ")
    assert f"column {path!r} of type " in message
    assert why in message


@pytest.mark.parametrize("kind", [pa.date32(), pa.timestamp("us"), pa.duration("s"), pa.time64("us")])
@pytest.mark.parametrize("value", [1.5, Decimal("1.5")])
def test_a_fraction_is_not_cut_to_whole_units_of_time(kind, value):
    with pytest.raises(ValueError, match="column 'col' of type"):
        table_of(Batch([{"col": value}], [0]), pa.schema([("col", kind)]))


@pytest.mark.parametrize(
    ("value", "remedy"),
    [(Decimal("NaN"), "map it to None before"), (2**70, "map it to text or to a float before, or state the columns")],
)
def test_a_value_without_a_type_has_a_remedy_that_helps(value, remedy):
    with pytest.raises(ValueError, match=rf"field 'col' has the value {re.escape(repr(value))}.*; {remedy}"):
        table_of(Batch([{"col": value}], [0]))


def test_a_part_that_does_not_fit_the_columns_of_the_run_names_the_value():
    table = pa.table({"col": pa.array([1, 300])})
    with pytest.raises(ValueError, match=r"300 \(int\) does not fit in column 'col' of type int8.*state the columns"):
        with_schema(table, pa.schema([("col", pa.int8())]))


def test_the_step_is_named(tmp_path):
    with pytest.raises(StepError, match=r"1\.234") as caught, beam.Pipeline(LocalRunner()) as pipeline:
        rows = pipeline | beam.Create([{"price": Decimal("1.234")}])
        rows | "Prices" >> beam.io.WriteToParquet(f"{tmp_path}/out", pa.schema([("price", MONEY)]))
    assert caught.value.step == "Prices"
