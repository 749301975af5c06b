"""DataFrames out of and into pipelines, in Spark's words."""

from __future__ import annotations

import pytest

import headrace as beam
from headrace.runners.local import LocalRunner
from headrace.runners.spark import SparkRunner, WriteToSpark

pytestmark = pytest.mark.spark


def test_from_spark_to_spark(spark, tmp_path):
    frame = spark.sql("SELECT id, timestamp_seconds(id) AS at FROM range(20)")
    epochs = []

    def write(rows, epoch):
        epochs.append(epoch)
        rows.write.mode("overwrite").parquet(f"{tmp_path}/out/epoch={epoch}")

    with beam.Pipeline(SparkRunner(spark)) as pipeline:
        rows = pipeline | beam.io.ReadFromSpark(frame, timestamp="at", watermark="1 second")
        rows | beam.Filter(lambda row: row.id % 2) | WriteToSpark(write)
    got = spark.read.parquet(f"{tmp_path}/out")
    assert sorted((row.id, row.at.timestamp()) for row in got.collect()) == [(n, float(n)) for n in range(1, 20, 2)]
    assert {row.epoch for row in got.collect()} == set(epochs)


def test_on_the_local_runner_with_a_session_given(spark):
    seen = []
    with beam.Pipeline(LocalRunner()) as pipeline:
        rows = pipeline | beam.Create([beam.Row(n=1), beam.Row(n=2)])
        rows | WriteToSpark(lambda frame, epoch: seen.append((frame.collect(), epoch)), session=spark)
    assert [(sorted(row.n for row in rows), epoch) for rows, epoch in seen] == [([1, 2], 1)]


def test_wrong_arguments(spark):
    with pytest.raises(TypeError, match="WriteToSpark takes a function of DataFrame and epoch, got 5"):
        WriteToSpark(5)
    with pytest.raises(ValueError, match="watermark 'soon' is no delay; write it as '10 minutes'"):
        beam.io.ReadFromSpark(spark.range(1), timestamp="id", watermark="soon")
