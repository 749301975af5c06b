"""JSON, CSV and Parquet as sources."""

from __future__ import annotations

import csv
import time
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headrace as beam
from headrace.io.filesystems import FileSystems
from headrace.lowlevel import StepError
from headrace.sdk.io.files import filesystem
from tests.unit.collected import collect, values
from tests.unit.sdk.io.sourcefiles import planned, write


class TestJson:
    def test_rows(self, tmp_path):
        path = write(tmp_path / "a.json", '{"a": 1, "b": [1, {"c": null}]}\n\n{"a": "x"}\n7\n')
        expected = [beam.Row(a=1, b=[1, {"c": None}]), beam.Row(a="x"), 7]
        assert values(lambda p: p | beam.io.ReadFromJson(path)) == expected

    def test_a_whole_file(self, tmp_path):
        path = write(tmp_path / "a.json", '[{"a": 1},\n {"a": 2}]')
        assert values(lambda p: p | beam.io.ReadFromJson(path, lines=False)) == [beam.Row(a=1), beam.Row(a=2)]
        path = write(tmp_path / "lines.json", '{"a": 1}\n{"a": 2}\n')
        with pytest.raises(
            StepError, match=r"lines\.json, line 2: not JSON .*; correct the file, or leave lines=False"
        ):
            values(lambda p: p | beam.io.ReadFromJson(path, lines=False))

    @pytest.mark.parametrize(
        ("element", "place"),
        [
            ({"a": [1, {"b": float("nan")}]}, r"\['a'\]\[1\]\['b'\] is nan"),
            (beam.Row(a=beam.Row(b=float("inf"))), r"\['a'\]\['b'\] is inf"),
            ([{"a": -float("inf")}], r"\[0\]\['a'\] is -inf"),
            (float("nan"), "it is nan"),
        ],
        ids=str,
    )
    def test_numbers_that_json_does_not_have_are_refused(self, tmp_path, element, place):
        with (
            pytest.raises(StepError, match=rf"is no JSON: {place}, which JSON does not have; map it to None"),
            beam.Pipeline("LocalRunner") as pipeline,
        ):
            pipeline | beam.Create([element]) | beam.io.WriteToJson(f"{tmp_path}/out/")
        assert {path.name for path in (tmp_path / "out").iterdir()} == {"_unfinished"}

    def test_numbers_that_json_does_not_have_are_read(self, tmp_path):
        path = write(tmp_path / "a.json", '{"a": Infinity}\n')
        assert values(lambda p: p | beam.io.ReadFromJson(path)) == [beam.Row(a=float("inf"))]

    def test_what_is_no_json(self, tmp_path):
        path = write(tmp_path / "a.json", '{"a": 1}\n{"a": 2}\n{"a": }\n')
        with pytest.raises(StepError, match=r'a\.json, line 3: not JSON \(Expecting value at column 7\): \{"a": \}'):
            values(lambda p: p | beam.io.ReadFromJson(path))

    def test_what_is_no_json_far_into_a_file_that_is_cut(self, tmp_path):
        lines = ['{"a": 1}'] * 5000
        lines[4321] = "{"
        path = write(tmp_path / "a.json", "\n".join(lines))
        with pytest.raises(ValueError, match=r"a\.json, line 4322: not JSON"):
            list(planned(beam.io.ReadFromJson(path), limit=500, splits=3))


class TestCsv:
    TEXT = 'id,when,name,rate\n1,2013-01-01T05:00:00Z,"a, b",1.5\n2,2013-01-02T05:00:00Z,,2\n'

    def test_rows_with_types(self, tmp_path):
        path = write(tmp_path / "a.csv", self.TEXT)
        one, two = values(lambda p: p | beam.io.ReadFromCsv(path))
        assert one == beam.Row(id=1, when=datetime(2013, 1, 1, 5, tzinfo=UTC), name="a, b", rate=1.5)
        assert (two.id, two.name, two.rate) == (2, "", 2.0)

    def test_event_times_and_columns(self, tmp_path):
        path = write(tmp_path / "a.csv", self.TEXT)
        rows = collect(lambda p: p | beam.io.ReadFromCsv(path, usecols=["id", "when"], timestamp="when"))
        assert [(row.as_dict().keys(), when) for row, when in rows] == [
            ({"id", "when"}, 1_357_016_400_000_000), ({"id", "when"}, 1_357_102_800_000_000),
        ]  # fmt: skip

    def test_types_stated_and_names_given(self, tmp_path):
        path = write(tmp_path / "a.csv", "1;x\n2;-\n")
        reading = beam.io.ReadFromCsv(path, sep=";", names=["n", "t"], dtype={"n": "float64"}, na_values=["-"])
        assert values(lambda p: p | reading) == [beam.Row(n=1.0, t="x"), beam.Row(n=2.0, t=None)]

    def test_several_files_cut_into_epochs(self, tmp_path):
        for part in range(3):
            rows = "".join(f"{part},{number},{'x' * (number % 5)}\n" for number in range(1000))
            write(tmp_path / f"{part}.csv", "part,number,text\n" + rows)
        epochs = list(planned(beam.io.ReadFromCsv(f"{tmp_path}/*.csv"), limit=300, splits=2))
        found = [(row.part, row.number, len(row.text)) for splits, _ in epochs for rows in splits for row, _ in rows]
        assert found == [(part, number, number % 5) for part in range(3) for number in range(1000)]
        assert len(epochs) > 5

    def test_values_with_line_breaks(self, tmp_path):
        path = write(tmp_path / "a.csv", 'a,b\n1,"x\ny"\n2,z\n')
        rows = values(lambda p: p | beam.io.ReadFromCsv(path, splittable=False))
        assert rows == [beam.Row(a=1, b="x\ny"), beam.Row(a=2, b="z")]

    @pytest.mark.parametrize("text", ["x\ry", "x\r", "\rx", "x\r\ny", "x\ny", 'x"\r', "x,\r"])
    def test_line_breaks_of_any_kind_are_quoted(self, tmp_path, text):
        elements = [{"a": text, "b\r": "1"}, {"a": "z", "b\r": text}]
        with beam.Pipeline("LocalRunner") as pipeline:
            pipeline | beam.Create(elements) | beam.io.WriteToCsv(f"{tmp_path}/out")
        [path] = tmp_path.glob("out*")
        with path.open(newline="") as file:
            assert list(csv.DictReader(file)) == elements

    @pytest.mark.parametrize(
        ("line", "message"),
        [
            ("3,4,5", r"line 4: CSV parse error: Expected 2 columns, got 3: 3,4,5"),
            ("x,4", r"line 4: .*conversion error to int64: invalid value 'x'; state the column's type with dtype"),
        ],
    )
    def test_what_is_no_row(self, tmp_path, line, message):
        good = "".join(f"{number},{number}\n" for number in range(200_000))
        write(tmp_path / "a.csv", f"a,b\n1,2\n1,2\n{line}\n{good}")
        write(tmp_path / "0.csv", "a,b\n1,2\n")
        with pytest.raises(StepError, match=r"a\.csv, " + message):
            values(lambda p: p | beam.io.ReadFromCsv(f"{tmp_path}/*.csv"))

    def test_columns_that_are_not_there(self, tmp_path):
        path = write(tmp_path / "a.csv", self.TEXT)
        with pytest.raises(ValueError, match=r"has no column \['x'\]; it has \['id', 'when', 'name', 'rate'\]"):
            values(lambda p: p | beam.io.ReadFromCsv(path, usecols=["x"]))
        with pytest.raises(ValueError, match="dtype of column 'id' is 'whole'; use the name of an Arrow type"):
            beam.io.ReadFromCsv(path, dtype={"id": "whole"})


class TestParquet:
    def table(self, tmp_path, rows=1000, group=100):
        path = tmp_path / "a.parquet"
        times = pa.array([number * 1_000_000 for number in range(rows)], pa.timestamp("us", tz="UTC"))
        pq.write_table(pa.table({"n": list(range(rows)), "at": times}), path, row_group_size=group)
        return str(path)

    def test_dicts_or_rows(self, tmp_path):
        path = self.table(tmp_path, 2)
        assert values(lambda p: p | beam.io.ReadFromParquet(path, columns=["n"])) == [{"n": 0}, {"n": 1}]
        as_rows = beam.io.ReadFromParquet(path, columns=["n"], as_rows=True)
        assert values(lambda p: p | as_rows) == [beam.Row(n=0), beam.Row(n=1)]

    @pytest.mark.parametrize("limit", [7, 100, 250, 5000])
    def test_cut_by_rows(self, tmp_path, limit):
        path = self.table(tmp_path)
        reading = beam.io.ReadFromParquet(path, timestamp="at", max_delay=1)
        epochs = list(planned(reading, limit=limit, splits=3))
        rows = [row for splits, _ in epochs for split in splits for row in split]
        assert [(value["n"], when) for value, when in rows] == [(number, number * 1_000_000) for number in range(1000)]
        assert all(sum(map(len, splits)) == limit for splits, _ in epochs[:-1])

    @pytest.mark.parametrize("as_rows", [False, True])
    def test_several_columns_of_one_name(self, tmp_path, as_rows):
        path = tmp_path / "a.parquet"
        pq.write_table(pa.table([[1], [2], [3]], names=["a", "b", "a"]), path)
        with pytest.raises(ValueError, match=r"a.parquet has several columns named 'a', of which .*; write the file"):
            values(lambda p: p | beam.io.ReadFromParquet(str(path), as_rows=as_rows))

    def test_columns_that_are_not_there(self, tmp_path):
        path = self.table(tmp_path, 1)
        with pytest.raises(StepError, match=r"a\.parquet has no column \['x'\]; it has \['n', 'at'\]"):
            values(lambda p: p | beam.io.ReadFromParquet(path, columns=["x"]))

    @pytest.mark.parametrize("kind", [pa.timestamp("us", tz="UTC"), pa.timestamp("s", tz="+02:00"), pa.int64()])
    def test_event_time_that_elements_do_not_have(self, kind, tmp_path):
        path = tmp_path / "a.parquet"
        pq.write_table(pa.table({"n": [1, 2], "at": pa.array([60, 120], pa.int64()).cast(kind)}), path)
        unit = 1_000_000 if kind == pa.timestamp("us", tz="UTC") else 1
        got = values(
            lambda p: (
                p
                | beam.io.ReadFromParquet(path, columns=["n"], timestamp="at")
                | beam.Map(lambda element, at=beam.DoFn.TimestampParam: (element, at.micros * unit // 1_000_000))
            )
        )
        assert got == [({"n": 1}, 60), ({"n": 2}, 120)]

    def test_no_event_time_in_a_column_that_elements_do_not_have(self, tmp_path):
        path = tmp_path / "a.parquet"
        pq.write_table(pa.table({"n": [1], "at": pa.array([None], pa.timestamp("us", tz="UTC"))}), path)
        with pytest.raises(StepError, match=r"a\.parquet, row 0: timestamp of None"):
            values(lambda p: p | beam.io.ReadFromParquet(path, columns=["n"], timestamp="at"))

    def test_a_row_without_event_time(self, tmp_path):
        path = tmp_path / "a.parquet"
        pq.write_table(pa.table({"at": pa.array([1, None], pa.timestamp("us", tz="UTC"))}), path)
        with pytest.raises(StepError, match=r"a\.parquet, row 1: timestamp of \{'at': None\}"):
            values(lambda p: p | beam.io.ReadFromParquet(str(path), timestamp="at"))


class TestEncodings:
    def test_text_and_csv(self, tmp_path):
        text = write(tmp_path / "a.txt", "müde\nfroh\n".encode("latin-1"))
        assert values(lambda p: p | beam.io.ReadFromText(text, encoding="latin-1")) == ["müde", "froh"]
        table = write(tmp_path / "a.csv", "größe,n\nweiß,1\n".encode("cp1252"))
        (row,) = values(lambda p: p | beam.io.ReadFromCsv(table, encoding="cp1252"))
        assert row.as_dict() == {"größe": "weiß", "n": 1}

    def test_what_is_no_text_is_named_by_its_line(self, tmp_path):
        path = write(tmp_path / "a.txt", b"ab\ncd\nf\x81\n")
        with pytest.raises(StepError, match=r"a\.txt, line 3: not cp1252 text"):
            values(lambda p: p | beam.io.ReadFromText(path, encoding="cp1252"))
        path = write(tmp_path / "a.csv", b"a\nx\nm\xfcde\n")
        with pytest.raises(ValueError, match=r"a\.csv, line 3: .*invalid UTF8 data; give its encoding"):
            values(lambda p: p | beam.io.ReadFromCsv(path, dtype={"a": "string"}))

    @pytest.mark.parametrize("encoding", ["utf-16", "nonsense", "cp037", "base64", None])
    def test_those_without_ascii_are_refused(self, encoding):
        with pytest.raises(ValueError, match="is not a known encoding that contains ASCII"):
            beam.io.ReadFromText("x", validate=False, encoding=encoding)


def test_rows_of_csv_files_know_their_fields_as_named_tuples_do(tmp_path):
    (tmp_path / "a.csv").write_text("a,b\n1,x\n2,y\n")
    rows = values(lambda p: p | beam.io.ReadFromCsv(str(tmp_path / "a.csv")))
    assert [(row._fields, row._asdict(), tuple(row)) for row in rows] == [
        (("a", "b"), {"a": 1, "b": "x"}, (1, "x")),
        (("a", "b"), {"a": 2, "b": "y"}, (2, "y")),
    ]
    # A column of that name is a column.
    assert beam.Row(_fields=1)._fields == 1 and not hasattr(beam.Row, "_fields")


@pytest.mark.parametrize("kind", ["gs", "s3"])
def test_a_file_system_that_does_not_answer_is_told_of_soon(kind, monkeypatch):
    monkeypatch.setattr(filesystem, "_LISTING", 1)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    key = {"gs": "anonymous", "s3": "key:secret"}[kind]
    place = f"{kind}://{key}@bucket/a.txt?scheme=http&endpoint_override=localhost:1"
    begun = time.monotonic()
    with pytest.raises(filesystem.ReachError) as told:
        beam.Pipeline("LocalRunner") | beam.io.ReadFromText(place)
    assert time.monotonic() - begun < 10
    said = str(told.value)
    assert said.startswith(f"{kind}://") and "cannot be listed: " in said and "secret" not in said
    assert "onnect" in said and "check the network" in said and "nothing has been read" in said


def test_a_file_system_whose_libraries_are_missing_is_told_of_in_a_line():
    with pytest.raises(filesystem.ReachError) as told:
        FileSystems.match(["hdfs://no-such-host.invalid/scores"])
    said = str(told.value)
    assert said.startswith("hdfs://no-such-host.invalid/scores cannot be ")
    assert "start again; nothing has been read or written" in said and "\n" not in said and len(said) < 1100


def test_the_limit_of_a_url_counts_before_ours(monkeypatch):
    monkeypatch.setattr(filesystem, "_LISTING", 600)
    with pytest.raises(filesystem.ReachError):
        filesystem.match("gs://anonymous@bucket/a*?scheme=http&endpoint_override=localhost:1&retry_limit_seconds=1")
