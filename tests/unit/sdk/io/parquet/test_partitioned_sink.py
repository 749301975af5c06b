"""Parquet in folders by columns: what others read, crashes, receipts that somebody else wrote, wrong columns."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import headrace as beam
from headrace.lowlevel import CheckpointError, StepError
from headrace.lowlevel.records.record import Batch
from headrace.options.pipeline_options import PipelineOptions
from headrace.runners.local import LocalRunner
from tests.unit.collected import values
from tests.unit.sdk.io.sourcefiles import Crash, CrashAt, OneByOne

ROWS = [{"day": f"2024-01-0{number % 3 + 1}", "shop": number % 2 or None, "n": number} for number in range(12)]


def read(folder):
    table = ds.dataset(folder, partitioning="hive", exclude_invalid_files=False).to_table()
    rows = [{"day": row["day"], "shop": row["shop"], "n": row["n"]} for row in table.to_pylist()]
    return sorted(rows, key=lambda row: row["n"])


def test_others_find_the_columns_in_the_names(tmp_path):
    with beam.Pipeline(LocalRunner(parallelism=2)) as pipeline:
        rows = pipeline | beam.Create(ROWS)
        rows | beam.io.WriteToParquet(f"{tmp_path}/out/", file_name_suffix=".parquet", partition_by=["day", "shop"])
    assert read(tmp_path / "out") == ROWS
    names = {str(path.parent.relative_to(tmp_path / "out")) for path in tmp_path.rglob("*.parquet")}
    shops = ("shop=1", "shop=__HIVE_DEFAULT_PARTITION__")
    assert names == {f"day=2024-01-0{day}/{shop}" for day in (1, 2, 3) for shop in shops}
    file = next(tmp_path.rglob("*.parquet"))
    assert ds.dataset(file).schema.names == ["n"]
    assert not (tmp_path / "out" / "_unfinished").exists()


def test_values_that_are_no_names(tmp_path):
    rows = [{"a": text, "n": 1} for text in ("x/y", "../z", "=", " ")]
    with beam.Pipeline(LocalRunner()) as pipeline:
        pipeline | beam.Create(rows) | beam.io.WriteToParquet(f"{tmp_path}/out/", partition_by=["a"])
    table = ds.dataset(tmp_path / "out", partitioning="hive", exclude_invalid_files=False).to_table()
    assert sorted(table.column("a").to_pylist()) == sorted(row["a"] for row in rows)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("value", ["__HIVE_DEFAULT_PARTITION__", b"x", [1], {"x": 1}])
def test_values_that_would_be_read_as_others_are_refused(tmp_path, value):
    pipeline = beam.Pipeline(LocalRunner())
    pipeline | beam.Create([{"a": value, "n": 1}]) | beam.io.WriteToParquet(f"{tmp_path}/", partition_by=["a"])
    with pytest.raises(StepError, match=r"column .a. has the value .*, which as the name of a folder would be read as"):
        pipeline.run()


@pytest.mark.parametrize("step", ["commit", "deliver", "delivered"])
def test_a_crash_loses_and_doubles_nothing(tmp_path, step):
    def run(scheduler):
        options = PipelineOptions([f"--checkpoint={tmp_path}/checkpoint"])
        with beam.Pipeline(LocalRunner(scheduler=scheduler), options) as pipeline:
            rows = pipeline | beam.Create(ROWS)
            rows | beam.io.WriteToParquet(f"{tmp_path}/out/", partition_by=["day", "shop"])

    with pytest.raises(Crash):
        run(CrashAt(step))
    run(OneByOne())
    assert read(tmp_path / "out") == ROWS


def sink(tmp_path, *columns):
    return beam.io.WriteToParquet(f"{tmp_path}/out/", partition_by=columns or ["a"]).sink()


@pytest.mark.parametrize("folder", ["../a=1", "a=1/..", "/a=1", "a", None, "a=1/../../b=2", 5, "a=1\0"])
def test_a_receipt_that_somebody_else_wrote_moves_nothing(tmp_path, folder):
    part = ["part-000001-0-t-0", 1, folder, None]
    receipt = {"place": [f"{tmp_path}/out/part", ""], "parts": [part], "replaced": []}
    with pytest.raises(CheckpointError, match="which does not consist of columns and values; somebody else wrote it"):
        sink(tmp_path).deliver(1, [json.dumps(receipt).encode()])
    assert not list(tmp_path.iterdir())


def test_a_delivery_that_is_repeated_finds_its_files(tmp_path):
    receipt = sink(tmp_path).stage(Batch([{"a": 1, "b": 2}], [0]), 1, 0, "t")
    for _ in range(2):
        sink(tmp_path).deliver(1, [receipt])
    assert len(list(tmp_path.rglob("a=1/*"))) == 1


class TestWrongColumns:
    def test_that_the_schema_does_not_have(self, tmp_path):
        with pytest.raises(ValueError, match=r"partition_by names column 'b', but the schema has \['a'\]"):
            beam.io.WriteToParquet("x", pa.schema([("a", pa.int64())]), partition_by=["b"])

    def test_that_the_elements_do_not_have(self, tmp_path):
        with (
            pytest.raises(StepError, match=r"the elements have no column 'b'; they have \['a'\]"),
            beam.Pipeline(LocalRunner()) as pipeline,
        ):
            pipeline | beam.Create([{"a": 1}]) | beam.io.WriteToParquet(f"{tmp_path}/out/", partition_by=["b"])

    def test_all(self, tmp_path):
        with pytest.raises(ValueError, match=r"partition_by takes all columns \(a\); leave one for the files"):
            sink(tmp_path).stage(Batch([{"a": 1}], [0]), 1, 0, "t")

    def test_text(self):
        with pytest.raises(TypeError, match=r"partition_by must be a list of columns, got text; write \['day'\]"):
            beam.io.WriteToParquet("x", partition_by="day")


class TestReading:
    def written(self, tmp_path, rows=ROWS):
        with beam.Pipeline(LocalRunner(parallelism=2)) as pipeline:
            pipeline | beam.Create(rows) | beam.io.WriteToParquet(f"{tmp_path}/out/", partition_by=["day", "shop"])
        return f"{tmp_path}/out"

    def test_what_was_written_comes_back(self, tmp_path):
        folder, types = self.written(tmp_path), {"day": "string", "shop": "int64"}
        got = values(lambda p: p | beam.io.ReadFromParquet(folder, partition_by=types))
        assert sorted(got, key=lambda row: row["n"]) == [
            {"n": r["n"], "day": r["day"], "shop": r["shop"]} for r in ROWS
        ]

    def test_some_columns_some_folders_and_a_list_is_text(self, tmp_path):
        folder = self.written(tmp_path)
        reading = beam.io.ReadFromParquet(f"{folder}/day=*2/*/*", columns=["shop"], partition_by=["shop"])
        assert {row["shop"] for row in values(lambda p: p | reading)} == {"1", None}
        one = beam.io.ReadFromParquet(f"{folder}/**/*", columns=["n", "day"], partition_by=["day"], as_rows=True)
        assert sorted(values(lambda p: p | one), key=lambda row: row.n) == [
            beam.Row(n=row["n"], day=row["day"]) for row in ROWS
        ]

    def test_names_that_had_to_be_changed(self, tmp_path):
        rows = [{"day": text, "shop": 1, "n": 1} for text in ("x/y", "../z", "=", " ", "ü%")]
        got = values(lambda p: p | beam.io.ReadFromParquet(self.written(tmp_path, rows), partition_by=["day", "shop"]))
        assert sorted(row["day"] for row in got) == sorted(row["day"] for row in rows)

    @pytest.mark.parametrize(
        ("columns", "says"),
        [
            (["week"], r"day=2024-01-0\d/.* is in no folder week=…; correct partition_by or the pattern"),
            ({"day": "int64"}, r"folder day=2024-01-0\d is no int64 .*correct partition_by"),
            (["day", "n"], "is in no folder n=…"),
        ],
    )
    def test_wrong_columns(self, tmp_path, columns, says):
        folder = self.written(tmp_path)
        with pytest.raises(StepError, match=says):
            values(lambda p: p | beam.io.ReadFromParquet(folder, partition_by=columns))

    def test_a_column_that_the_file_has_itself(self, tmp_path):
        (tmp_path / "a=1").mkdir()
        pq.write_table(pa.table({"a": [1]}), tmp_path / "a=1" / "x.parquet")
        with pytest.raises(StepError, match=r"x\.parquet has column 'a' itself; leave it out of partition_by"):
            values(lambda p: p | beam.io.ReadFromParquet(str(tmp_path), partition_by=["a"]))

    @pytest.mark.parametrize(
        ("given", "error", "says"),
        [("day", TypeError, r"got text; write \['day'\]"), ({"a": "x"}, ValueError, "'x', which Arrow does not know")],
    )
    def test_wrong_arguments(self, given, error, says):
        with pytest.raises(error, match=says):
            beam.io.ReadFromParquet("x", partition_by=given)
