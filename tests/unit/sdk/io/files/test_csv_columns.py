"""Columns of the CSV files of a run: of several tasks, windows, epochs and restarts."""

from __future__ import annotations

import gzip

import pytest

import headrace as beam
from headrace.lowlevel import StepError
from headrace.transforms.window import FixedWindows, TimestampedValue
from tests.unit.sdk.io.sourcefiles import Crash, CrashAt, OneByOne
from tests.unit.sdk.io.test_run_schema import delivered, files, write


def texts(folder):
    return [path.read_text() for path in files(folder)]


@pytest.mark.parametrize("header", [True, False])
def test_tasks_of_an_epoch_write_the_columns_in_one_order(tmp_path, header):
    sink = beam.io.WriteToCsv(f"{tmp_path}/out/", header=header, sep=";").sink()
    delivered(sink, [{"a": 1, "b": 'x;\n"y"\r'}], [{"b": "", "a": None}, {"a": 2, "b": "é"}], [{"b": 3, "a": 0.5}])
    head = "a;b\n" if header else ""
    assert [path.read_bytes().decode() for path in files(tmp_path)] == [
        f'{head}1;"x;\n""y""\r"\n',
        f'{head};""\n2;é\n',
        f"{head}0.5;3\n",
    ]


def test_compressed_files_are_rewritten_compressed(tmp_path):
    sink = beam.io.WriteToCsv(f"{tmp_path}/out/", file_name_suffix=".csv.gz").sink()
    delivered(sink, [{"a": 1, "b": 2}], [{"b": 4, "a": 3}])
    assert [gzip.decompress(path.read_bytes()) for path in files(tmp_path)] == [b"a,b\n1,2\n", b"a,b\n3,4\n"]


def test_tasks_with_other_columns_commit_nothing(tmp_path):
    sink = beam.io.WriteToCsv(f"{tmp_path}/out/").sink()
    with pytest.raises(ValueError, match=r"some elements have the columns \['a'\] and others \['a', 'b'\]"):
        delivered(sink, [{"a": 1}], [{"a": 1, "b": 2}])
    assert not [path for path in files(tmp_path) if path.suffix == ".csv" and "_unfinished" not in str(path)]


@pytest.mark.faults
@pytest.mark.parametrize("step", ["commit", "committed", "deliver", "delivered"])
def test_epochs_and_restarts_have_the_columns_of_the_first_element(tmp_path, step):
    rows = [{"a": 1, "b": 2}, {"b": 4, "a": 3}, {"b": 6, "a": 5}]
    sink = beam.io.WriteToCsv(f"{tmp_path}/out/")
    with pytest.raises(Crash):
        write(tmp_path, rows, CrashAt(step), tmp_path / "checkpoint", sink)
    write(tmp_path, rows, OneByOne(), tmp_path / "checkpoint", beam.io.WriteToCsv(f"{tmp_path}/out/"))
    assert {text.splitlines()[0] for text in texts(tmp_path)} == {"a,b"}
    assert [line for text in texts(tmp_path) for line in text.splitlines()[1:]] == ["1,2", "3,4", "5,6"]


@pytest.mark.parametrize("is_restarted", [False, True])
def test_other_columns_of_a_later_epoch_are_refused(tmp_path, is_restarted):
    rows = [{"a": 0}, {"a": 1}, {"a": 2}, {"a": 3, "b": 4}]
    if is_restarted:
        with pytest.raises(Crash):
            write(tmp_path, rows, CrashAt("deliver"), tmp_path / "checkpoint", beam.io.WriteToCsv(f"{tmp_path}/out/"))
    with pytest.raises(StepError, match=r"{'a': 3, 'b': 4} does not have the columns \['a'\] of the first element"):
        write(tmp_path, rows, OneByOne(), tmp_path / "checkpoint", beam.io.WriteToCsv(f"{tmp_path}/out/"))
    stated = beam.io.WriteToCsv(f"{tmp_path}/out/", columns=["a"])
    with pytest.raises(StepError, match=r"does not have the columns \['a'\]; "):
        write(tmp_path, rows, OneByOne(), tmp_path / "checkpoint", stated)


def test_windows_have_the_same_columns(tmp_path):
    with beam.Pipeline("LocalRunner") as pipeline:
        rows = [TimestampedValue({"a": 1, "b": 2}, 1), TimestampedValue({"b": 4, "a": 3}, 61)]
        windowed = pipeline | beam.Create(rows) | beam.Map(lambda row: row) | beam.WindowInto(FixedWindows(60))
        _ = windowed | beam.io.WriteToCsv(f"{tmp_path}/out/")
    assert texts(tmp_path) == ["a,b\n1,2\n", "a,b\n3,4\n"]


@pytest.mark.parametrize(
    ("to", "element"),
    [
        (beam.io.WriteToCsv, {1: "a", "1": "b"}),
        (beam.io.WriteToJson, {1: "a", "1": "b"}),
        (beam.io.WriteToJson, {"lines": [{None: 1, "null": 2}]}),
    ],
)
def test_two_fields_with_one_name_are_refused(tmp_path, to, element):
    with pytest.raises(StepError, match="one name"):
        write(tmp_path, [element], write=to(f"{tmp_path}/out/"))


@pytest.mark.parametrize("to", [beam.io.WriteToCsv, beam.io.WriteToParquet])
def test_elements_without_fields_are_refused(tmp_path, to):
    with pytest.raises(StepError, match=r"element {} has no fields, so .* no columns; filter it out"):
        write(tmp_path, [{}], write=to(f"{tmp_path}/out/"))


@pytest.mark.parametrize(
    ("to", "element"),
    [(beam.io.WriteToText, "tea \ud800"), (beam.io.WriteToCsv, {"item": "tea \ud800"})],
)
def test_text_that_cannot_be_encoded_is_named(tmp_path, to, element):
    with pytest.raises(StepError, match=r"'tea \\ud800' has a character that utf-8 cannot encode .*; map it to other"):
        write(tmp_path, [element], write=to(f"{tmp_path}/out/"))
