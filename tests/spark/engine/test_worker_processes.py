"""Worker processes on this machine: where they print, and that the program's own tasks find them as Spark made them."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import headrace as beam
from headrace.options.pipeline_options import PipelineOptions
from headrace.runners.spark import SparkRunner

pytestmark = pytest.mark.spark
IDLE = pytest.mark.parametrize("seconds", ["0", "60"])
"""Each epoch is a job, or a task stays."""


def run(spark: SparkSession, place: Path, seconds: str) -> None:
    flags = [f"--checkpoint={place / 'checkpoint'}", f"--task_idle_seconds={seconds}", "--max_records_per_epoch=20"]
    with beam.Pipeline(SparkRunner(spark), PipelineOptions(flags)) as pipeline:
        numbers = pipeline | beam.Create(range(100)) | beam.Map(lambda number: number * 2)
        _ = numbers | "Print" >> beam.Map(print)
        _ = numbers | beam.io.ForeachEpoch(lambda epoch, rows: print("epoch", sorted(rows)))


@IDLE
def test_steps_print_where_the_program_prints(
    spark: SparkSession, tmp_path: Path, seconds: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """And before the driver prints of the same epoch."""
    run(spark, tmp_path, seconds)
    lines = capsys.readouterr().out.splitlines()
    assert sorted(map(int, (line for line in lines if not line.startswith("epoch")))) == list(range(0, 200, 2))
    seen: set[str] = set()
    for line in lines:
        if line.startswith("epoch "):
            assert {text.strip() for text in line[7:-1].split(",")} <= seen
        seen.add(line)


@IDLE
def test_tasks_of_the_program_find_workers_as_spark_made_them(
    spark: SparkSession, tmp_path: Path, seconds: str, capfd: pytest.CaptureFixture[str]
) -> None:
    run(spark, tmp_path, seconds)
    capfd.readouterr()

    def seen(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        print("the program's own task")
        for _ in batches:
            yield pa.RecordBatch.from_pydict(
                {"gc": [str(gc.get_threshold())], "pool": [pa.default_memory_pool().backend_name]}
            )

    rows = spark.range(0, 8, 1, 4).mapInArrow(seen, "gc string, pool string").collect()
    assert {tuple(row) for row in rows} == {(str(gc.get_threshold()), pa.default_memory_pool().backend_name)}
    assert "own task" not in capfd.readouterr().out, "Spark decides where it prints"
