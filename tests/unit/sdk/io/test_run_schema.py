"""One schema for all files of a run: of several tasks, epochs and restarts; what does not fit is refused by name."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as beam
from headrace.lowlevel import StepError
from headrace.lowlevel.records.record import Batch
from headrace.options.pipeline_options import PipelineOptions
from headrace.runners.local import LocalRunner
from headrace.sdk.io.columns.column_types import common_type
from headrace.sdk.io.columns.run_schema import lasting_schema, merged, with_schema
from headrace.sdk.io.columns.tables import inferred_table
from headrace.sdk.io.foreach_epoch import TableSink
from headrace.transforms.window import FixedWindows, GlobalWindows, TimestampedValue
from tests.unit.sdk.io.sourcefiles import Crash, CrashAt, OneByOne


def write(folder, rows, scheduler=None, checkpoint=None, write=None):
    options = PipelineOptions([f"--checkpoint={checkpoint}"] if checkpoint else [])
    with beam.Pipeline(LocalRunner(scheduler=scheduler), options) as pipeline:
        _ = pipeline | beam.Create(rows) | (write or beam.io.WriteToParquet(f"{folder}/out/"))


def files(folder):
    return sorted(path for path in (folder / "out").rglob("*") if path.is_file())


def read(folder):
    return [row for path in files(folder) for row in pq.read_table(path, partitioning=None).to_pylist()]


def schemas(folder):
    return {str(pq.read_schema(path)) for path in files(folder)}


class Order(NamedTuple):
    order: int
    lines: object


@dataclass
class Line:
    sku: str


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        ([{"order": 1}, {"order": 2, "coupon": "X"}], [{"order": 1, "coupon": None}, {"order": 2, "coupon": "X"}]),
        ([{"a": 1}, {"c": 3}], [{"a": 1, "c": None}, {"a": None, "c": 3}]),
        ([beam.Row(a=1), beam.Row(a=None, b=[beam.Row(x=1)])], [{"a": 1, "b": None}, {"a": None, "b": [{"x": 1}]}]),
        ([Order(1, [Line("a")]), {"order": 2}], [{"order": 1, "lines": [{"sku": "a"}]}, {"order": 2, "lines": None}]),
        ([{"n": 2**63}, {"n": 1}], [{"n": 2**63}, {"n": 1}]),
        ([{"n": 1}, {"n": 2.5}, {"n": None}], [{"n": 1.0}, {"n": 2.5}, {"n": None}]),
    ],
)
def test_every_field_of_every_record_is_written(tmp_path, rows, found):
    write(tmp_path, rows)
    assert read(tmp_path) == found


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"n": 1}, {"n": "x"}], r"field 'n' has values of types without a common one: 1 \(int64\) and 'x' \(string\)"),
        (
            [{"n": datetime.date(2024, 1, 2)}, {"n": datetime.datetime(2024, 1, 2, 3)}],
            r"\(date32\[day\]\) and datetime.datetime\(2024, 1, 2, 3, 0\)",
        ),
        ([{"n": "a"}, {"n": b"b"}], r"'a' \(string\) and b'b' \(binary\)|bytes and text"),
        (
            [{"n": datetime.datetime(2024, 1, 2)}, {"n": datetime.datetime(2024, 1, 2, tzinfo=datetime.UTC)}],
            "types without a common one",
        ),
        ([{"n": {}}], r"field 'n' has the value {}, for which Arrow infers no type"),
        ([{"n": [("k", 1)]}], r"field 'n' has the value \[\('k', 1\)\], for which Arrow infers no type"),
        ([{"n": Decimal("NaN")}], r"field 'n' has the value Decimal\('NaN'\), for which Arrow infers no type"),
        ([{"n": 2**64}], r"field 'n' has the value 18446744073709551616, for which"),
        ([{1: 2}], "field 1 has a int as its name"),
    ],
)
def test_values_without_a_common_type_are_refused(tmp_path, rows, message):
    with pytest.raises(StepError, match=message):
        write(tmp_path, rows)
    assert not (tmp_path / "out").exists() or not files(tmp_path)


@pytest.mark.parametrize("to", [dict, lambda row: beam.Row(**row)], ids=["dicts", "rows"])
def test_a_stated_schema_loses_nothing(tmp_path, to):
    schema = pa.schema(
        [pa.field("a", pa.int64(), nullable=False), ("in", pa.map_(pa.string(), pa.struct({"x": pa.int8()})))]
    )
    stated = beam.io.WriteToParquet(f"{tmp_path}/out/", schema)
    write(tmp_path, [to({"a": 1, "in": {"k": {"x": 1}}})], write=stated)
    assert read(tmp_path) == [{"a": 1, "in": [("k", {"x": 1})]}]
    for row, message in (
        ({"a": 1, "b": 2}, r"it has a field 'b', but the columns are \['a', 'in'\]"),
        ({"a": 1, "in": {"k": {"x": 1, "y": 2}}}, r"a part of .* would be lost in column 'in'"),
        ({"in": None}, "column 'a' may not be null"),
    ):
        with pytest.raises(StepError, match=message):
            write(tmp_path, [to(row)], write=stated)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.timestamp("s"), datetime.datetime(2024, 1, 2, microsecond=5)),
        (pa.timestamp("us"), pd.Timestamp(1, unit="ns")),
        (pa.time32("ms"), datetime.time(1, 2, 3, 4)),
        (pa.duration("s"), datetime.timedelta(microseconds=5)),
        (pa.duration("us"), pd.Timedelta(1, "ns")),
    ],
    ids=str,
)
def test_times_are_not_cut_to_fit(tmp_path, kind, value):
    with pytest.raises(StepError, match=r"a part of .* would be lost in column 't'"):
        write(tmp_path, [{"t": value}], write=beam.io.WriteToParquet(f"{tmp_path}/out/", pa.schema({"t": kind})))


def test_nanoseconds_are_kept(tmp_path):
    write(tmp_path, [{"t": pd.Timestamp(1, unit="ns")}])
    assert read(tmp_path) == [{"t": pd.Timestamp(1, unit="ns")}]


def staged(sink, *parts, epoch=1):
    return [sink.stage(Batch(rows, [0] * len(rows)), epoch, number, f"t{number}") for number, rows in enumerate(parts)]


def delivered(sink, *parts, epoch=1):
    sink.begin(True)
    receipts = sink.settle(epoch, staged(sink, *parts, epoch=epoch))
    sink.deliver(epoch, receipts)
    sink.deliver(epoch, receipts)
    sink.finish(epoch, True)


TASKS = (
    [{"text": None, "price": Decimal("1.25"), "n": 1}],
    [{"n": 2.5, "price": Decimal("1234.5"), "tags": []}, {"text": "a"}],
    [{"tags": ["x"], "s": {"a": 1}}],
    [{"s": {"b": None}, "never": None}],
)
MERGED = [
    {"text": None, "price": Decimal("1.25"), "n": 1.0, "tags": None, "s": None, "never": None},
    {"text": None, "price": Decimal("1234.50"), "n": 2.5, "tags": [], "s": None, "never": None},
    {"text": "a", "price": None, "n": None, "tags": None, "s": None, "never": None},
    {"text": None, "price": None, "n": None, "tags": ["x"], "s": {"a": 1, "b": None}, "never": None},
    {"text": None, "price": None, "n": None, "tags": None, "s": {"a": None, "b": None}, "never": None},
]
"""What the rows of `TASKS` come to."""


def test_tasks_of_an_epoch_agree(tmp_path):
    delivered(beam.io.WriteToParquet(f"{tmp_path}/out/").sink(), *TASKS)
    assert len(files(tmp_path)) == len(TASKS)
    assert len(schemas(tmp_path)) == 1
    assert read(tmp_path) == MERGED
    assert "price: decimal128(38, 2)" in schemas(tmp_path).pop()
    assert pq.read_table(tmp_path / "out").to_pylist() == MERGED


def test_tables_of_a_function_agree():
    tables = []
    delivered(TableSink(lambda epoch, table: tables.append(table)), *TASKS)
    assert tables[0].to_pylist() == MERGED
    assert tables[0].schema.metadata is None
    assert tables[0].schema == tables[1].schema


def test_tasks_that_cannot_agree_commit_nothing(tmp_path):
    sink = beam.io.WriteToParquet(f"{tmp_path}/out/").sink()
    with pytest.raises(ValueError, match=r"column 'n' has values of type int64 in one part and of type string in anot"):
        delivered(sink, [{"n": 1}], [{"n": "a"}])
    with pytest.raises(ValueError, match=r"column 'n' is of type int64 in one part and needs to be double for another"):
        delivered(sink, [{"n": 2**53 + 1}], [{"n": 0.5}])


def test_folders_of_equal_values_have_one_name(tmp_path):
    sink = beam.io.WriteToParquet(f"{tmp_path}/out/", partition_by=["n"]).sink()
    with pytest.raises(ValueError, match="column 'n' has values of the types double, int64, so that folders for equal"):
        delivered(sink, [{"n": 1, "x": 1}], [{"n": 0.5, "x": 1}])
    delivered(sink, [{"n": 1, "x": 1}], [{"n": None, "y": 1}])
    assert read(tmp_path) == [{"x": 1, "y": None}, {"x": None, "y": 1}]


@pytest.mark.faults
@pytest.mark.parametrize("step", ["commit", "committed", "deliver", "delivered"])
def test_epochs_and_restarts_have_one_schema(tmp_path, step):
    rows = [{"n": 1, "price": Decimal("1.25"), "text": None}, *({"n": n, "price": Decimal(10**n)} for n in range(5))]
    with pytest.raises(Crash):
        write(tmp_path, rows, CrashAt(step), tmp_path / "checkpoint")
    write(tmp_path, rows, OneByOne(), tmp_path / "checkpoint")
    assert [row["n"] for row in read(tmp_path)] == [1, 0, 1, 2, 3, 4]
    assert schemas(tmp_path) == {"n: int64\nprice: decimal128(38, 2)\ntext: string"}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"n": 2, "coupon": "X"}, r"it has a field 'coupon', but the columns are \['n', 'text'\]"),
        ({"n": "two"}, r"element {'n': 'two'} does not fit the schema"),
        ({"n": 2, "text": 5}, r"element {'n': 2, 'text': 5} does not fit the schema"),
    ],
)
@pytest.mark.parametrize("is_restarted", [False, True])
def test_what_the_first_epoch_did_not_have_is_refused_later(tmp_path, row, message, is_restarted):
    first = {"n": 1, "text": None}
    rows = [first, first, first, row]
    if is_restarted:
        with pytest.raises(Crash):
            write(tmp_path, rows, CrashAt("deliver"), tmp_path / "checkpoint")
    with pytest.raises(StepError, match=f"{message}(.|\n)*columns are those of the first epoch of this run .*schema="):
        write(tmp_path, rows, OneByOne(), tmp_path / "checkpoint")


def test_a_stated_schema_takes_over_at_a_restart(tmp_path):
    rows = [{"n": 1}, {"n": 2}, {"n": 3, "coupon": "X"}]
    with pytest.raises(StepError, match="it has a field 'coupon'"):
        write(tmp_path, rows, OneByOne(), tmp_path / "checkpoint")
    stated = beam.io.WriteToParquet(f"{tmp_path}/out/", pa.schema({"n": pa.int64(), "coupon": pa.string()}))
    write(tmp_path, rows, OneByOne(), tmp_path / "checkpoint", stated)
    assert read(tmp_path) == [{"n": 1}, {"n": 2}, {"n": 3, "coupon": "X"}]


def test_windows_have_one_schema(tmp_path):
    with beam.Pipeline(LocalRunner()) as pipeline:
        rows = [TimestampedValue({"n": 1, "a": None}, 1), TimestampedValue({"n": 2.5, "b": "x"}, 61)]
        windowed = pipeline | beam.Create(rows) | beam.Map(lambda row: row) | beam.WindowInto(FixedWindows(60))
        _ = windowed | beam.io.WriteToParquet(f"{tmp_path}/out/")
    assert schemas(tmp_path) == {"n: double\na: string\nb: string"}
    assert read(tmp_path) == [{"n": 1.0, "a": None, "b": None}, {"n": 2.5, "a": None, "b": "x"}]


LEAVES = st.one_of(
    st.none(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=False),
    st.text(max_size=3),
    st.binary(max_size=3),
    st.booleans(),
    st.dates(),
    st.datetimes(),
    st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-(10**9), max_value=10**9),
    st.sampled_from([np.int8(5), np.float32(0.5), pd.Timestamp(5, unit="ns")]),
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from("xyz"), inner, max_size=3)),
    max_leaves=5,
)
ROWS = st.lists(st.dictionaries(st.sampled_from("abc"), VALUES, min_size=1, max_size=3), min_size=1, max_size=4)


def is_kept(value, found):
    """Whether a value is what was found, but for fields that others have, which are null."""
    if isinstance(value, dict):
        return (
            isinstance(found, dict)
            and all(is_kept(value.get(name), each) for name, each in found.items())
            and (value.keys() <= found.keys())
        )
    if isinstance(value, (list, tuple)):
        return isinstance(found, list) and len(value) == len(found) and all(map(is_kept, value, found))
    return type(found) is not type(None) and value == found if value is not None else found is None


@given(st.lists(ROWS, min_size=1, max_size=3))
def test_random_rows_are_written_whole_or_refused(parts):
    try:
        tables = [inferred_table(rows) for rows in parts]
        schema = lasting_schema(merged(table.schema for table in tables))
        tables = [with_schema(table, schema) for table in tables]
    except ValueError as refusal:
        assert "schema=pyarrow.schema" in str(refusal)
        return
    found = pa.concat_tables(tables).to_pylist()
    for row, record in zip([row for rows in parts for row in rows], found, strict=True):
        assert is_kept(row, record), (row, record)


@given(st.lists(ROWS, min_size=3, max_size=3))
def test_columns_do_not_depend_on_how_rows_are_parted(parts):
    """Only what does not fit may depend on it: a part alone can be refused for a value that another part allows."""
    try:
        together = lasting_schema(inferred_table([row for rows in parts for row in rows]).schema)
        apart = lasting_schema(merged(inferred_table(rows).schema for rows in parts))
    except ValueError:
        return
    assert {field.name: common_type(field.type, apart.field(field.name).type) for field in together} == {
        field.name: apart.field(field.name).type for field in together
    }


KINDS = {
    "int8": pa.array([1, None, -3], pa.int8()),
    "uint64": pa.array([2**64 - 1, None, 1], pa.uint64()),
    "float32": pa.array([0.5, None, -1.25], pa.float32()),
    "money": pa.array([Decimal("1.25"), None, Decimal("1234567.80")], pa.decimal128(12, 2)),
    "text": pa.array([None, None, None], pa.string()),
    "nanos": pa.array([1, None, 1_000_000_001], pa.timestamp("ns")),
    "instant": pa.array([1, None, 2], pa.timestamp("ms", "Europe/Paris")),
    "day": pa.array([1, None, 2], pa.date32()),
    "clock": pa.array([1, None, 2], pa.time64("us")),
    "map": pa.array([[("a", 1)], None, []], pa.map_(pa.string(), pa.int16())),
    "list": pa.array([[1], None, []], pa.list_(pa.int8())),
    "struct": pa.array([{"x": 1, "y": None}, None, {"x": 2, "y": "b"}], pa.struct({"x": pa.int16(), "y": pa.string()})),
    "coded": pa.array(["a", None, "b"]).dictionary_encode(),
    "large": pa.array(["a", None, "b"], pa.large_string()),
    "bytes": pa.array([b"ab", None, b"cd"], pa.binary(2)),
    "flag": pa.array([True, None, False]),
}


@pytest.mark.parametrize("as_rows", [False, True])
@pytest.mark.parametrize("name", KINDS)
def test_columns_of_a_source_keep_their_types(tmp_path, name, as_rows):
    """Also of a column that is null throughout an epoch, and by steps that are called for each element."""
    table = pa.table({"id": pa.array([1, 2, 3], pa.int16()), name: KINDS[name]})
    for part in range(3):
        pq.write_table(table.slice(part, 1), tmp_path / f"in-{part}.parquet")
    with beam.Pipeline(LocalRunner(scheduler=OneByOne())) as pipeline:
        rows = pipeline | beam.io.ReadFromParquet(f"{tmp_path}/in-*.parquet", as_rows=as_rows)
        kept = rows | beam.Filter(lambda row: print(end="") is None) | beam.WindowInto(GlobalWindows())
        _ = kept | beam.io.WriteToParquet(f"{tmp_path}/out/")
    source = pq.read_schema(tmp_path / "in-0.parquet").remove_metadata()
    assert schemas(tmp_path) == {str(source)}
    assert pa.concat_tables(map(pq.read_table, files(tmp_path))).to_pylist() == table.to_pylist()
