"""Beam's transforms for Parquet do the same with columns as by Beam's own DoFns, row by row, with the same errors."""

from __future__ import annotations

import copy
import glob
import os
from datetime import UTC, date, datetime
from decimal import Decimal
from unittest.mock import patch

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.io import parquetio
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.windowed_value import WindowedValue as BeamValue
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.lowlevel.records.column_batch import ColumnBatch
from headrace.lowlevel.records.record import Batch
from headrace.runners.beam import HeadraceRunner, parquet_rows
from headrace.runners.beam.parquet_rows import DictsOfTables, TablesOfRows
from headrace.sdk.expressions.element_schema import Single
from headrace.sdk.model.special_outputs import WindowedValue
from tests.depth import examples

INSTANTS = st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 29))
COLUMNS = {
    "number": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "small": (pa.uint8(), st.integers(0, 255)),
    "share": (pa.float64(), st.floats(allow_nan=False)),
    "truth": (pa.bool_(), st.booleans()),
    "text": (pa.string(), st.text(st.characters(codec="utf-8"), max_size=3)),
    "bytes": (pa.binary(), st.binary(max_size=3)),
    "day": (pa.date32(), st.dates(date(1, 1, 3), date(9999, 12, 29))),
    "local": (pa.timestamp("us"), INSTANTS),
    "instant": (pa.timestamp("ms", "UTC"), INSTANTS.map(lambda at: at.replace(microsecond=0, tzinfo=UTC))),
    "amount": (pa.decimal128(9, 2), st.integers(-99, 99).map(Decimal)),
    "word": (pa.dictionary(pa.int8(), pa.string()), st.sampled_from(["a", "b"])),
    "list": (pa.list_(pa.int64()), st.lists(st.integers(0, 3), max_size=2)),
    "inside": (pa.struct([("x", pa.int64())]), st.fixed_dictionaries({"x": st.integers(0, 3)})),
}


@st.composite
def tables(draw):
    """A table of some of these columns, in chunks."""
    names = draw(st.lists(st.sampled_from(sorted(COLUMNS)), min_size=1, max_size=4, unique=True))
    chunks = []
    for count in draw(st.lists(st.integers(0, 4), min_size=1, max_size=2)):
        columns = {
            name: pa.array(
                draw(st.lists(COLUMNS[name][1] | st.none(), min_size=count, max_size=count)), COLUMNS[name][0]
            )
            for name in names
        }
        chunks.append(pa.table(columns))
    return pa.concat_tables(chunks)


@settings(max_examples=examples(60, 2000))
@given(table=tables())
def test_rows_are_those_of_beams_own_function(table):
    batches = list(DictsOfTables("Rows")(iter([table])))
    rows = [row for batch in batches for row in batch.values]
    assert repr(rows) == repr(list(parquetio._ArrowTableToRowDictionaries().process(table)))
    assert all(isinstance(batch, ColumnBatch) for batch in batches)


KINDS = [pa.int64(), pa.int8(), pa.float64(), pa.string(), pa.large_string(), pa.bool_(), pa.binary(), pa.date32()]
KINDS += [pa.timestamp("us"), pa.timestamp("s", "UTC"), pa.decimal128(9, 2), pa.list_(pa.int64()), pa.null()]


@st.composite
def schemas(draw, table):
    """A schema for rows of a table: types of its columns or others, columns that it lacks, some that must be there."""
    fields = []
    for name in draw(st.lists(st.sampled_from([*table.column_names, "missing"]), max_size=4, unique=True)):
        known = table.schema.field(name).type if name in table.column_names else pa.int64()
        kind = draw(st.just(known) | st.sampled_from(KINDS))
        must = name == "missing" and kind != pa.null() and draw(st.booleans())
        fields.append(pa.field(name, kind, nullable=not must))
    return pa.schema(fields)


def tables_or_error(fn, batches):
    """What the DoFn of `WriteToParquet` makes of batches in one bundle, with timestamps; or the error."""
    outputs = []
    try:
        for batch in batches:
            taken = fn.take_columns(batch) if isinstance(fn, TablesOfRows) and isinstance(batch, ColumnBatch) else None
            if taken is not None:
                outputs += taken
                continue
            for row in batch.values:
                outputs += fn.process(row, GlobalWindow(), None)
        outputs += fn.finish_bundle() or ()
    except Exception as error:
        return type(error), str(error)
    return [each.value if isinstance(each, WindowedValue | BeamValue) else each for each in outputs]


@settings(max_examples=examples(60, 2000))
@given(table=tables(), data=st.data(), limit=st.sampled_from([1, 60, 1 << 26]))
def test_rows_in_columns_become_the_same_tables(table, data, limit):
    fn = parquetio._RowDictionariesToArrowTable(data.draw(schemas(table)), limit, 2)
    batches = list(DictsOfTables("Rows")(iter([table])))
    # Rows that do not come as columns go before and between those that do.
    singles = [Batch(batch.values[:1], batch.timestamps[:1]) for batch in batches]
    mixed = [each for both in zip(singles, batches, strict=True) for each in both]
    expected = tables_or_error(copy.deepcopy(fn), mixed)
    found = tables_or_error(TablesOfRows(fn), mixed)
    if isinstance(expected, tuple):
        assert found == expected
        return
    assert [each.schema for each in found] == [fn._schema] * len(found)
    whole, by_row = (pa.concat_tables([fn._schema.empty_table(), *each]).combine_chunks() for each in (found, expected))
    assert whole.equals(by_row)
    if limit == 1 << 26:
        assert len(found) == len(expected)


def test_a_full_table_goes_before_the_next_columns():
    fn = TablesOfRows(parquetio._RowDictionariesToArrowTable(pa.schema([("number", pa.int64())]), 800, 10))
    [batch] = DictsOfTables("Rows")(iter([pa.table({"number": range(100)})]))
    assert fn.take_columns(batch) == []
    [full] = fn.take_columns(batch)
    assert full["number"].to_pylist() == list(range(100))
    assert fn.take_columns(ColumnBatch(batch.table, batch.times, Single(0))) is None


def written(runner, files, **options):
    with beam.Pipeline(runner=runner) as pipeline:
        rows = pipeline | beam.io.ReadFromParquet(f"{files}/*.parquet", columns=["number", "text"])
        changed = rows | beam.Map(lambda row: {"number": row["number"] * 2, "text": row["text"]})
        schema = pa.schema([("text", pa.string()), ("number", pa.float64()), ("none", pa.int8())])
        _ = changed | beam.io.WriteToParquet(f"{files}/out", schema, **options)
    tables = [pq.read_table(path) for path in glob.glob(f"{files}/out*")]
    for path in glob.glob(f"{files}/out*"):
        os.remove(path)
    return {str(table.schema) for table in tables}, sorted(str(row) for table in tables for row in table.to_pylist())


@pytest.mark.parametrize("options", [{}, {"record_batch_size": 2, "row_group_buffer_size": 20}, {"num_shards": 2}])
def test_files_are_those_of_rows_one_by_one_and_beams(files, options):
    ours = written(HeadraceRunner("LocalRunner"), files, **options)
    assert len(ours[1]) == 21
    assert ours == written(FnApiRunner(), files, **options)
    with patch.object(parquet_rows, "table_of_columns", lambda batch, schema: None):
        assert ours == written(HeadraceRunner("LocalRunner"), files, **options)


def rows_of(runner, files, **options):
    found = f"{files}/found"
    open(found, "w", encoding="utf-8").close()
    with beam.Pipeline(runner=runner) as pipeline:
        rows = pipeline | beam.io.ReadFromParquet(f"{files}/*.parquet", **options)
        kept = rows | beam.Filter(lambda row: row["number"] != 3)
        changed = kept | "Changed" >> beam.Map(_changed)
        for name, each in (("kept", kept), ("changed", changed)):
            _ = each | name >> beam.Map(_told, name, found)
    with open(found, encoding="utf-8") as lines:
        return sorted(lines)


def _changed(row):
    return {**row, "text": f"{row['text']}!"}


def _told(row, name, file):
    with open(file, "a", encoding="utf-8") as rows:
        print(name, row, file=rows)


@pytest.fixture
def files(tmp_path):
    for number in range(3):
        numbers = range(7 * number, 7 * number + 7)
        table = pa.table({"number": numbers, "text": list(map(str, numbers)), "other": [0.5] * 7})
        pq.write_table(table, tmp_path / f"{number}.parquet", row_group_size=3)
    return tmp_path


def test_rows_in_columns_and_one_by_one_and_beams(files):
    ours = rows_of(HeadraceRunner("LocalRunner"), files, columns=["number", "text"])
    assert len(ours) == 2 * 20
    assert ours == rows_of(FnApiRunner(), files, columns=["number", "text"])
    with patch.object(parquet_rows, "shape_of_rows", lambda table, as_rows: None):
        assert ours == rows_of(HeadraceRunner("LocalRunner"), files, columns=["number", "text"])


def test_rows_with_types_of_their_own_are_beams(tmp_path):
    pq.write_table(pa.table({"number": [1, 2], "text": ["a", "b"]}), tmp_path / "one.parquet")
    found = str(tmp_path / "found")
    with beam.Pipeline(runner=HeadraceRunner("LocalRunner")) as pipeline:
        rows = pipeline | beam.io.ReadFromParquet(f"{tmp_path}/*.parquet", as_rows=True)
        _ = rows | beam.Map(lambda row: (row.number, row.text)) | "Tell" >> beam.Map(_told, "row", found)
    with open(found, encoding="utf-8") as lines:
        assert sorted(lines) == ["row (1, 'a')\n", "row (2, 'b')\n"]


def test_an_instant_that_python_does_not_have_is_an_error_of_the_step_that_makes_rows(tmp_path):
    beyond = pa.array([1 << 60], pa.int64()).cast(pa.timestamp("us"))
    pq.write_table(pa.table({"number": [1], "at": beyond}), tmp_path / "one.parquet")
    errors = []
    for runner in (HeadraceRunner("LocalRunner"), FnApiRunner()):
        with pytest.raises(Exception) as raised, beam.Pipeline(runner=runner) as pipeline:
            _ = pipeline | beam.io.ReadFromParquet(f"{tmp_path}/*.parquet") | beam.Map(print)
        errors.append(raised.value)
    ours, beams = errors
    assert isinstance(ours, type(beams))
    assert "ParDo(_ArrowTableToRowDictionaries)" in str(ours)
    assert "ParDo(_ArrowTableToRowDictionaries)" in str(beams)
