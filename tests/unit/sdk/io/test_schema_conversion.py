"""A schema is kept to by columns as by Python values: the same tables, the same errors, whatever the two types are."""

import datetime
import decimal
import io
import math

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.lowlevel.records.column_batch import ColumnBatch
from headrace.lowlevel.records.record import Batch
from headrace.sdk.expressions.element_schema import Fields, FieldsKind, Single
from headrace.sdk.io.columns import tables
from headrace.sdk.io.columns.tables import table_of

WHOLE = [[0, 1, -1, None], [5], [200], [40_000], [2**24 + 1], [2**31], [2**53 + 1], [2**63 - 1], [-(2**63)]]
SMALL = [[0, 1, None], [100]]
FLOATS = [
    *([0.0, 1.0, None], [0.5], [-0.0], [0.1], [math.nan], [math.inf], [-math.inf]),
    *([1e300], [1e-320], [3e9], [65_504.0], [2.0**63]),
]
TEXTS = [["a", "", None], ["1"], ["1.5"], ["2020-01-01"], ["2020-01-01 00:00:00"], ["true"], ["€"], ["12:00:00"]]
BYTES = [[b"a", b"", None], [b"\xff"], [b"ab"], [b"1"]]
DAYS = [[datetime.date(2020, 1, 1), None], [datetime.date(1, 1, 2)], [datetime.date(9999, 12, 30)]]
INSTANTS = [
    [datetime.datetime(2020, 1, 1, 1, 2, 3, 4), None],
    [datetime.datetime(2020, 1, 1)],
    [datetime.datetime(2020, 1, 1, 1, 2, 3)],
    [datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999)],
    [datetime.datetime(1, 1, 2)],
]
NUMBERS = [pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
SOURCES = {
    pa.int64(): WHOLE,
    **dict.fromkeys(NUMBERS, SMALL),
    pa.float64(): FLOATS,
    pa.float32(): FLOATS,
    pa.bool_(): [[True, False, None], [True]],
    pa.string(): TEXTS,
    pa.large_string(): TEXTS,
    pa.dictionary(pa.int32(), pa.string()): TEXTS,
    pa.dictionary(pa.int8(), pa.int64()): SMALL,
    pa.binary(): BYTES,
    pa.large_binary(): BYTES,
    pa.date32(): DAYS,
    **{pa.timestamp("us", zone): INSTANTS for zone in (None, "UTC", "Europe/Paris")},
    pa.timestamp("s"): INSTANTS[1:3],
    pa.timestamp("ms", "UTC"): INSTANTS[1:3],
    pa.timestamp("ns"): INSTANTS[:4],
    pa.null(): [[None]],
    pa.decimal128(10, 2): [[decimal.Decimal("1.25"), None]],
    pa.time64("us"): [[datetime.time(1, 2, 3), None]],
    pa.duration("us"): [[datetime.timedelta(1), None]],
    pa.list_(pa.int64()): [[[1], None]],
    pa.struct([("a", pa.int64())]): [[{"a": 1}, None]],
}
TARGETS = [
    *SOURCES,
    *(pa.float16(), pa.binary(2), pa.date64(), pa.time32("s")),
    # From pyarrow 16 on.
    *([pa.string_view(), pa.binary_view()] if hasattr(pa, "string_view") else []),
    *(pa.timestamp("ms"), pa.timestamp("ns", "UTC"), pa.timestamp("us", "+01:00"), pa.decimal128(38, 0)),
    *(pa.decimal256(40, 3), pa.large_list(pa.int64()), pa.map_(pa.string(), pa.int64()), pa.month_day_nano_interval()),
]


def columns_of(kind, values):
    """A part of a column, as an epoch's end cuts them, with as many rows before it and behind it."""
    column = pa.array(values * 3, kind.value_type).dictionary_encode().cast(kind) if is_coded(kind) else None
    column = pa.array(values * 3, kind) if column is None else column
    batch = pa.RecordBatch.from_pydict({"one": column}).slice(len(values), len(values))
    return ColumnBatch(batch, np.zeros(len(values), np.int64), Fields(("one",), (Single(0),), FieldsKind.DICT))


def is_coded(kind):
    return pa.types.is_dictionary(kind)


def outcome(batch, schema):
    try:
        table = table_of(batch, schema)
    except Exception as error:
        return type(error), str(error)
    table.validate()
    try:
        told = repr(table.to_pylist())
    except (OverflowError, ValueError):
        # Not every instant is a `datetime`.
        told = str(table.column(0))
    return table.schema, table.schema.metadata, told


def schema_of(kind):
    return pa.schema([pa.field("one", kind, metadata={"of": "field"}), ("more", pa.int64())], metadata={"of": "schema"})


@pytest.mark.parametrize("kind", SOURCES, ids=str)
def test_columns_are_converted_as_values_are(kind):
    for values in SOURCES[kind]:
        batch = columns_of(kind, values)
        for target in TARGETS:
            by_value = outcome(Batch(columns_of(kind, values).values, batch.timestamps), schema_of(target))
            assert outcome(batch, schema_of(target)) == by_value, (values, target)
        assert outcome(batch, None) == outcome(Batch(columns_of(kind, values).values, batch.timestamps), None), values


def test_what_is_usual_stays_columns(monkeypatch):
    pairs = [
        (pa.int64(), pa.int32()),
        (pa.int64(), pa.float64()),
        (pa.float64(), pa.float32()),
        (pa.large_string(), pa.large_string()),
        (pa.string(), pa.large_string()),
        (pa.binary(), pa.large_binary()),
        (pa.timestamp("us", "UTC"), pa.timestamp("ns", "UTC")),
        (pa.null(), pa.list_(pa.int64())),
    ]
    monkeypatch.setattr(tables, "_of_values", None)
    for kind, target in pairs:
        batch = columns_of(kind, SOURCES[kind][0])
        assert table_of(batch, schema_of(target)).schema == schema_of(target)


@pytest.mark.parametrize("kind", [kind for kind in SOURCES if kind != pa.timestamp("ns")], ids=str)
def test_parts_of_columns_are_written_as_they_are(kind):
    for values in SOURCES[kind]:
        file = io.BytesIO()
        pq.write_table(table_of(columns_of(kind, values)), file)
        read, given = pq.read_table(file).to_pylist(), columns_of(kind, values).values
        assert repr([zoned(row["one"]) for row in read]) == repr([zoned(row["one"]) for row in given])


def zoned(value):
    """An instant and the name of its zone: earlier releases of pyarrow take pytz where that is installed."""
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        return value.astimezone(datetime.UTC), str(value.tzinfo)
    return value
