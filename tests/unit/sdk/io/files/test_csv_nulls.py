"""CSV tells None from an empty text: as PostgreSQL, DuckDB and Spark do, an empty text is quoted."""

from __future__ import annotations

import csv

import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as beam
from headrace.lowlevel import Batch
from headrace.runners.local import LocalRunner
from headrace.sdk.io.text.text_writers import ColumnNames, CsvWriter, _named
from tests.unit.collected import values

BOTH = {"na_values": [""], "quoted_strings_can_be_null": False}
ROWS = [{"a": "", "b": None}, {"a": None, "b": ""}, {"a": "x", "b": 'say "no"'}, {"a": "", "b": ""}]


def written(rows, folder, **arguments):
    with beam.Pipeline(LocalRunner()) as pipeline:
        pipeline | beam.Create(rows) | beam.io.WriteToCsv(f"{folder}/out", **arguments)
    return sorted(path.read_text() for path in folder.glob("out-*.csv"))


def read_back(folder, **arguments):
    pattern = f"{folder}/out-*.csv"
    return values(lambda p: p | beam.io.ReadFromCsv(pattern, dtype=str, **arguments))


@pytest.mark.parametrize("sep", [",", ";"])
@pytest.mark.parametrize("more", [[], [{"a": "\ue000", "b": ""}], [{"a": "one\rline", "b": ""}]])
def test_both_are_read_back_as_they_were(tmp_path, sep, more):
    written([*ROWS, *more], tmp_path, sep=sep)
    found = [row.as_dict() for row in read_back(tmp_path, sep=sep, splittable=not more, **BOTH)]
    assert sorted(found, key=repr) == sorted([*ROWS, *more], key=repr)


def test_the_lines(tmp_path):
    writer = CsvWriter(ColumnNames(_named(["a", "b"])), ",", True, "auto")
    writer.write(f"{tmp_path}/out.csv", Batch(ROWS, [0] * len(ROWS)))
    assert (tmp_path / "out.csv").read_text() == 'a,b\n"",\n,""\nx,"say ""no"""\n"",""\n'


def test_without_the_arguments_both_are_read_as_before(tmp_path):
    written(ROWS, tmp_path)
    assert {row.a for row in read_back(tmp_path)} == {"", "x"}
    assert {row.a for row in read_back(tmp_path, na_values=[""])} == {None, "x"}


def test_files_of_0_1_0_have_nulls_for_both(tmp_path):
    (tmp_path / "out-0.csv").write_text("a,b\n,\nx,\n")
    assert [row.a for row in read_back(tmp_path, **BOTH)] == [None, "x"]
    assert [row.a for row in read_back(tmp_path)] == ["", "x"]


def test_a_file_of_one_column_has_no_empty_line(tmp_path):
    written([{"a": ""}, {"a": None}], tmp_path)
    assert [row.a for row in read_back(tmp_path, **BOTH)] == ["", ""]


texts = st.none() | st.text(st.sampled_from('",;\n\r x\ue000'), max_size=3)


@given(st.lists(st.tuples(texts, texts, texts), min_size=1, max_size=6))
def test_columns_in_another_order_keep_both(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("csv")
    names = ["a", "b", "c"]
    writer = CsvWriter(ColumnNames(None), ",", True, "auto")
    records = [dict(zip(names, row, strict=True)) for row in rows]
    found = writer.write(f"{folder}/old.csv", Batch(records, [0] * len(records)))
    writer.rewrite(f"{folder}/new.csv", f"{folder}/old.csv", found, _named(["c", "a", "b"]))
    with open(folder / "new.csv", newline="") as file:
        expected = [tuple(row[name] or "" for name in ("c", "a", "b")) for row in records]
        assert [tuple(row) for row in csv.reader(file)][1:] == expected
    same = CsvWriter(ColumnNames(_named(["c", "a", "b"])), ",", True, "auto")
    same.write(f"{folder}/same.csv", Batch(records, [0] * len(records)))
    assert (folder / "new.csv").read_bytes() == (folder / "same.csv").read_bytes()


@pytest.mark.parametrize("wrong", [None, 1, "no"])
def test_a_wrong_argument_is_refused_when_built(wrong):
    with pytest.raises(TypeError, match="quoted_strings_can_be_null is True or False, got "):
        beam.io.ReadFromCsv("in.csv", validate=False, quoted_strings_can_be_null=wrong)
