"""A value is written as it is, or refused with its column: Arrow would make another one of it without an error."""

from __future__ import annotations

import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headrace as beam
from headrace.lowlevel import StepError
from headrace.lowlevel.records.column_batch import ColumnBatch
from headrace.lowlevel.records.record import Batch
from headrace.options.pipeline_options import PipelineOptions
from headrace.runners.local import LocalRunner
from headrace.sdk.expressions.element_schema import shape_of_rows
from headrace.sdk.io.columns.run_schema import RunSchema
from headrace.sdk.io.columns.tables import table_of
from tests.unit.sdk.io.sourcefiles import Crash, CrashAt, OneByOne

NAIVE = datetime.datetime(2024, 1, 2, 3)
AWARE = NAIVE.replace(tzinfo=datetime.UTC)
HALF = "Expected np.float16 instance"
"""How earlier releases of pyarrow refuse every fraction for `float16` that is not NumPy's."""
OTHERS = [
    (pa.timestamp("us"), NAIVE, AWARE, "would lose a time zone"),
    (pa.timestamp("us", "UTC"), AWARE, NAIVE, "would get a time zone"),
    (pa.time64("us"), NAIVE.time(), AWARE.timetz(), "the time zone of .* would be lost"),
    (pa.timestamp("us"), NAIVE, pd.Timestamp(1, unit="ns"), "a part of .* would be lost"),
    (pa.string(), "a", b"a", "would become text"),
    (pa.large_string(), "a", b"a", "would become text"),
    (pa.dictionary(pa.int32(), pa.string()), "a", b"a", "would become text"),
    (pa.binary(), b"a", "a", "would become bytes"),
    (pa.binary(2), b"ab", "ab", "would become bytes"),
    (pa.float64(), 1.5, True, "True would become a number"),
    (pa.int64(), 5, np.True_, "True.* would become a number"),
    (pa.float32(), float("nan"), 1e300, "1e.300 would become infinite"),
    (pa.float16(), np.float16(0.1), 1e10, f"(10000000000.0 would become infinite|{HALF})"),
    (pa.list_(pa.string()), ["a"], "ab", "'ab' would become a list"),
    (pa.list_(pa.uint8()), [1], b"ab", "b'ab' would become a list"),
    (pa.list_(pa.binary()), [b"a"], ["a"], "'a' would become bytes"),
    (pa.list_(pa.int64()), np.array([1]), np.array([True]), "True.* would become a number"),
    (
        pa.list_(pa.timestamp("us")),
        np.array([1], "datetime64[us]"),
        np.array([1], "datetime64[ns]"),
        "a part of .* would be lost",
    ),
    (pa.map_(pa.string(), pa.float64()), {"a": 0.5}, {"a": True}, "True would become a number"),
    (pa.struct({"a": pa.string()}), {"a": "x"}, {"a": b"x"}, "b'x' would become text"),
    (pa.struct({"a": pa.int8()}), {"a": 1}, [("a", 1), ("b", 2)], "would become a record"),
]
"""Type, a value that it takes, one that Arrow would change, and what the error says."""
IDS = [f"{number}-{kind}" for number, (kind, *_) in enumerate(OTHERS)]


@pytest.mark.parametrize(("kind", "fits", "other", "message"), OTHERS, ids=IDS)
def test_a_stated_type_takes_no_other_value(kind, fits, other, message):
    schema = pa.schema({"it": kind})
    assert table_of(Batch([{"it": fits}, {"it": None}], [0, 0]), schema).num_rows == 2
    with pytest.raises(
        ValueError, match=rf"^element .* does not fit the schema: (?=.*{message}).* in column 'it' of type "
    ):
        table_of(Batch([{"it": other}], [0]), schema)


@pytest.mark.parametrize(
    ("kind", "fits", "other", "message"),
    [
        *OTHERS,
        (pa.date32(), NAIVE.date(), datetime.datetime(2024, 1, 2), "a part of .* would be lost"),
        (pa.date32(), NAIVE.date(), 5, "5 would become a date"),
        (pa.timestamp("us"), NAIVE, 5, "5 would become a time"),
        (pa.duration("us"), datetime.timedelta(1), 5, "5 would become a time"),
        (pa.int8(), 1, 300, "300"),
        (pa.float32(), 0.5, 0.1, "0.1 would be rounded .*64 bits"),
        (pa.float16(), np.float16(0.1), 0.1, f"(0.1 would be rounded|{HALF})"),
    ],
    ids=[*IDS, "midnight", "day", "instant", "duration", "large", "single", "half"],
)
def test_the_type_of_the_first_epoch_takes_no_other_value(kind, fits, other, message):
    driver, task = RunSchema(), RunSchema()
    driver.settled([pa.schema({"it": kind})])
    task.agree(driver.agreement())
    assert task.table_of(Batch([{"it": fits}], [0])).schema.field("it").type == kind
    with pytest.raises(ValueError, match=rf"{message}(.|\n)*columns are those of the first epoch"):
        task.table_of(Batch([{"it": other}], [0]))


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        (pa.array([1e300, float("nan"), None]), pa.float32()),
        (pa.array([NAIVE, None]), pa.timestamp("us", "UTC")),
        (pa.array([AWARE, None], pa.timestamp("us", "UTC")), pa.timestamp("us")),
    ],
    ids=str,
)
def test_columns_are_not_changed_to_fit(column, kind):
    table = pa.RecordBatch.from_pydict({"it": column})
    batch = ColumnBatch(table, np.zeros(table.num_rows, np.int64), shape_of_rows(table, as_rows=False))
    with pytest.raises(ValueError, match=r"would .* in column 'it' of type"):
        table_of(batch, pa.schema({"it": kind}))
    whole = pa.RecordBatch.from_pydict({"it": pa.array([0.5, float("nan"), None])})
    batch = ColumnBatch(whole, np.zeros(3, np.int64), shape_of_rows(whole, as_rows=False))
    assert str(table_of(batch, pa.schema({"it": pa.float32()}))["it"].to_pylist()) == "[0.5, nan, None]"


def test_who_states_single_precision_gets_it():
    """A Python program has no numbers of 32 bits. Types that nobody has stated are held to."""
    single = [0.1, float("inf"), None]
    expected = pa.array(single, pa.float32()).to_pylist()
    column = pa.RecordBatch.from_pydict({"it": pa.array(single)})
    columns = ColumnBatch(column, np.zeros(3, np.int64), shape_of_rows(column, as_rows=False))
    rows = Batch([{"it": value} for value in single], [0] * 3)
    schema = pa.schema({"it": pa.float32()})
    for batch in (rows, columns):
        assert table_of(batch, schema)["it"].to_pylist() == expected
        assert table_of(batch, schema, is_open=True).schema == pa.schema({"it": pa.float64()})
        with pytest.raises(ValueError, match=r"0.1 would be rounded"):
            table_of(batch, schema, is_inferred=True)


@pytest.mark.parametrize("value", [np.datetime64(1, "ns"), np.timedelta64(1, "ns"), pd.NaT], ids=str)
def test_what_arrow_does_not_take_is_named(value):
    kind = pa.duration("us") if isinstance(value, np.timedelta64) else pa.timestamp("us")
    with pytest.raises(ValueError, match=r"^element \{'it': .*\} does not fit the schema"):
        table_of(Batch([{"it": value}], [0]), pa.schema({"it": kind}))


def write(folder, rows, schema=None, scheduler=None):
    options = PipelineOptions([f"--checkpoint={folder}/checkpoint"])
    with beam.Pipeline(LocalRunner(scheduler=scheduler), options) as pipeline:
        _ = pipeline | beam.Create(rows) | beam.io.WriteToParquet(f"{folder}/out/", schema)


@pytest.mark.parametrize(
    ("first", "later"),
    [(NAIVE, AWARE), (AWARE, NAIVE), ("a", b"a"), (b"a", "a"), (0.5, True), (NAIVE.date(), 5), (Decimal("0.5"), 0.5)],
    ids=repr,
)
def test_a_later_epoch_changes_no_value(tmp_path, first, later):
    rows = [{"it": first}, {"it": later}]
    with pytest.raises(StepError, match=r"(?s)does not fit the schema.*columns are those of the first epoch"):
        write(tmp_path, rows, scheduler=OneByOne())


@pytest.mark.faults
@pytest.mark.parametrize("last", [3, None], ids=["fits", "null"])
def test_a_restart_without_the_stated_schema_goes_on_with_it(tmp_path, last):
    rows = [{"n": n} for n in (0, 1, 2, last)]
    stated = pa.schema([pa.field("n", pa.int16(), nullable=False), ("text", pa.string())])
    with pytest.raises(Crash):
        write(tmp_path, rows, stated, CrashAt("commit"))
    if last is None:
        with pytest.raises(StepError, match=r"(?s)column 'n' may not be null.*columns are those of the first epoch"):
            write(tmp_path, rows)
        return
    write(tmp_path, rows)
    files = sorted((tmp_path / "out").iterdir())
    assert pa.concat_tables(map(pq.read_table, files)).to_pylist() == [{**row, "text": None} for row in rows]
    assert {str(pq.read_schema(path)) for path in files} == {"n: int16 not null\ntext: string"}


@pytest.mark.parametrize(
    ("known", "values", "wider"),
    [
        (pa.int8(), [1, 300], pa.int64()),
        (pa.float32(), [0.5, 0.1], pa.float64()),
        (pa.decimal128(12, 2), [Decimal("0.125")], pa.decimal128(38, 3)),
        (
            pa.timestamp("us", "Europe/Paris"),
            [pd.Timestamp(1, unit="ns", tz="UTC")],
            pa.timestamp("ns", "Europe/Paris"),
        ),
        (pa.dictionary(pa.int32(), pa.int8()), [300], pa.int64()),
        (pa.map_(pa.string(), pa.int8()), [[("a", 1)]], pa.map_(pa.string(), pa.int8())),
        (pa.large_list(pa.int8()), [[300]], pa.large_list(pa.int64())),
        (pa.struct({"a": pa.int8()}), [{"a": 1}, {"b": "x"}], pa.struct({"a": pa.int64(), "b": pa.string()})),
        (pa.null(), [1], pa.int64()),
        (pa.string(), [b"a"], None),
        (pa.int64(), ["a"], None),
        (pa.timestamp("us"), [AWARE], None),
        (pa.int64(), [1, 2**64 - 1, -1], None),
    ],
    ids=str,
)
def test_a_known_type_becomes_wider_for_the_first_epoch(known, values, wider):
    schema = pa.schema([pa.field("it", known, metadata={"of": "field"})])
    batch = Batch([{"it": value} for value in values], [0] * len(values))
    if wider is None:
        with pytest.raises(ValueError, match=r"field 'it' ha(s|ve) .*; map .*schema=pyarrow.schema"):
            table_of(batch, schema, is_open=True)
    else:
        table = table_of(batch, schema, is_open=True)
        assert table.schema.field("it").type == wider
        assert table.schema.field("it").metadata == {b"of": b"field"}
