"""Beam's `ReadFromParquet` gives the same rows as columns as by Beam's own DoFn, and the same errors."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from unittest.mock import patch

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.io import parquetio
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from hypothesis import given
from hypothesis import strategies as st

from headrace.lowlevel.records.column_batch import ColumnBatch
from headrace.runners.beam import HeadraceRunner
from headrace.runners.beam.io import parquet_rows
from headrace.runners.beam.io.parquet_rows import DictsOfTables

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


@given(table=tables())
def test_rows_are_those_of_beams_own_function(table):
    batches = list(DictsOfTables("Rows")(iter([table])))
    rows = [row for batch in batches for row in batch.values]
    assert repr(rows) == repr(list(parquetio._ArrowTableToRowDictionaries().process(table)))
    plain = not {"list", "inside"} & set(table.column_names)
    assert {isinstance(batch, ColumnBatch) for batch in batches} <= {plain}


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
