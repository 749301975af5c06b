"""Parquet in folders by columns: what others read, crashes, receipts that somebody else wrote, wrong columns."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

import headrace as beam
from headrace.lowlevel import CheckpointError, StepError
from headrace.lowlevel.record import Batch
from headrace.options.pipeline_options import PipelineOptions
from headrace.runners.local import LocalRunner
from tests.unit.sourcefiles import Crash, CrashAt, OneByOne

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
    assert not list((tmp_path / "out" / "_unfinished").iterdir())


def test_values_that_are_no_names(tmp_path):
    rows = [{"a": text, "n": 1} for text in ("x/y", "../z", "=", " ")]
    with beam.Pipeline(LocalRunner()) as pipeline:
        pipeline | beam.Create(rows) | beam.io.WriteToParquet(f"{tmp_path}/out/", partition_by=["a"])
    table = ds.dataset(tmp_path / "out", partitioning="hive", exclude_invalid_files=False).to_table()
    assert sorted(table.column("a").to_pylist()) == sorted(row["a"] for row in rows)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


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


@pytest.mark.parametrize("folder", ["../a=1", "a=1/..", "/a=1", "a", "", "a=1/../../b=2", 5, "a=1\0"])
def test_a_receipt_that_somebody_else_wrote_moves_nothing(tmp_path, folder):
    with pytest.raises(CheckpointError, match="which is none of columns and values; somebody else wrote it"):
        sink(tmp_path).deliver(1, [json.dumps([["part-000001-0-t-0", folder]]).encode()])
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
