"""Lines that are no record, set apart instead of stopping the run."""

from __future__ import annotations

import gzip

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headrace as beam
from headrace.lowlevel import CallSink
from headrace.lowlevel.time import MIN_TIMESTAMP
from tests.unit.collected import collect
from tests.unit.sdk.io.sourcefiles import OneByOne, write


def apart(source, **runner):
    """Good rows, and of bad ones (number of line, text, class of error, time)."""
    bad = []

    def build(p):
        good, others = p | source.with_exception_handling()
        others | "bad" >> beam.io.Write(CallSink(lambda epoch, rows: bad.extend(rows)))
        return good

    good = [value for value, _ in collect(build, **runner)]
    return good, [(line.line, line.text, failure[0].__name__, stamp) for (line, failure), stamp in bad]


@pytest.mark.parametrize("runner", [{}, {"scheduler": OneByOne()}, {"parallelism": 3}])
def test_lines_that_are_not_json(tmp_path, runner):
    path = write(tmp_path / "a.json", '{"a": 1}\n{"a": \n\n[\n{"a": 2}\n{"a": 3}\n"b\n')
    good, bad = apart(beam.io.ReadFromJson(path), **runner)
    assert [row.a for row in good] == [1, 2, 3]
    expected = [(2, '{"a": '), (4, "["), (7, '"b')]
    assert sorted(bad) == [(line, text, "BadLine", MIN_TIMESTAMP) for line, text in expected]


def test_rows_of_csv_that_do_not_fit_from_the_first_on(tmp_path):
    path = write(tmp_path / "a.csv", 'id,name\n1\n1,x\ntwo,y\n3,z,z\n4,"q\n5,w\n')
    good, bad = apart(beam.io.ReadFromCsv(path, dtype={"id": "int64"}))
    assert [(row.id, row.name) for row in good] == [(1, "x"), (5, "w")]
    assert [(line, text) for line, text, _, _ in bad] == [(2, "1"), (4, "two,y"), (5, "3,z,z"), (6, '4,"q')]


def test_text_that_is_none_and_times_that_cannot_be_told(tmp_path):
    path = write(tmp_path / "a.txt.gz", gzip.compress(b"head\n10\n\xff\nx\n20\n"))
    source = beam.io.ReadFromText(path, skip_header_lines=1, timestamp=float)
    good, bad = apart(source)
    assert good == ["10", "20"]
    assert [(line, text) for line, text, _, _ in bad] == [(3, "\ufffd"), (4, "x")]


def test_many_bad_lines(tmp_path):
    path = write(tmp_path / "a.json", "".join("1\n" if number % 3 else "?\n" for number in range(3000)))
    good, bad = apart(beam.io.ReadFromJson(path))
    assert (len(good), [line for line, *_ in bad]) == (2000, list(range(1, 3001, 3)))


@pytest.mark.parametrize(
    "source",
    [lambda path: beam.io.ReadFromJson(path, lines=False), lambda path: beam.io.ReadFromCsv(path, splittable=False)],
)
def test_records_of_several_lines_cannot_be_told_apart(tmp_path, source):
    path = write(tmp_path / "a", "a\n1\n")
    with pytest.raises(ValueError, match="reads records of several lines, and cannot go on after a bad one"):
        source(path).with_exception_handling()


@pytest.mark.parametrize("runner", [{}, {"scheduler": OneByOne()}, {"parallelism": 2}])
def test_rows_of_parquet_whose_time_cannot_be_told(tmp_path, runner):
    times = ["1970-01-01T00:00:01Z", None, "soon", *["1970-01-01T00:00:09Z"] * 60]
    pq.write_table(pa.table({"at": times, "n": list(range(len(times)))}), tmp_path / "a.parquet")
    bad = []

    def build(p):
        reading = beam.io.ReadFromParquet(str(tmp_path / "a.parquet"), columns=["n"], timestamp="at")
        good, others = p | reading.with_exception_handling()
        others | "bad" >> beam.io.Write(CallSink(lambda epoch, rows: bad.extend(rows)))
        return good

    rows = collect(build, **runner)
    assert sorted(row["n"] for row, _ in rows) == [0, *range(3, 63)]
    assert {stamp for _, stamp in rows} == {1_000_000, 9_000_000}
    found = sorted((record.row, record.fields["at"], failure[0].__name__) for (record, failure), _ in bad)
    assert found == [(1, None, "BadTimestamp"), (2, "soon", "BadTimestamp")]
    assert {stamp for _, stamp in bad} == {MIN_TIMESTAMP}
