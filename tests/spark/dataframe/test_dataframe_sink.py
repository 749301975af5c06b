"""DataFrames out of and into pipelines, in Spark's words."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

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


VALUES = {
    "missing hour": (datetime(2024, 3, 10, 2, 30), "timestamp_ntz"),
    "repeated hour": (datetime(2024, 11, 3, 1, 30), "timestamp_ntz"),
    "first time": (datetime(1, 1, 1), "timestamp_ntz"),
    "last time": (datetime(9999, 12, 31, 23, 59, 59, 999_999), "timestamp_ntz"),
    "times": ([datetime(2024, 3, 10, 2, 30)], "array<timestamp_ntz>"),
    "times by name": ({"at": datetime(2024, 3, 10, 2, 30)}, "struct<at:timestamp_ntz>"),
    "date": (date(1, 1, 1), "date"),
    "duration": (timedelta(3), "interval day to second"),
    "decimal": (Decimal("1.50"), "decimal(38,2)"),
    "list": ([1, None], "array<bigint>"),
    "nothing": (None, "string"),
    "bytes": (b"x", "binary"),
    "float": (1.5, "double"),
}
"""What elements may have as a field -> its type in Spark."""


def test_each_value_that_is_staged_arrives(spark):
    """In a zone in which some of the times are missing, or come twice."""
    session, tables = spark.newSession(), []
    session.conf.set("spark.sql.session.timeZone", "America/New_York")
    fields = {name.replace(" ", "_"): value for name, (value, _) in VALUES.items()}
    instant = datetime(2024, 3, 10, 7, 30, tzinfo=UTC)
    with beam.Pipeline(LocalRunner()) as pipeline:
        rows = pipeline | beam.Create([beam.Row(**fields, instant=instant)])
        rows | WriteToSpark(lambda frame, epoch: tables.append(frame), session=session)
    (frame,) = tables
    types = dict(frame.dtypes)
    assert types == {name.replace(" ", "_"): kind for name, (_, kind) in VALUES.items()} | {"instant": "timestamp"}
    (row,) = frame.selectExpr("*", "unix_micros(instant) AS micros").collect()
    assert row.micros == instant.timestamp() * 1e6
    found = {name: row[name].asDict() if isinstance(value, dict) else row[name] for name, value in fields.items()}
    assert found == fields


def test_wrong_arguments(spark):
    with pytest.raises(TypeError, match="WriteToSpark takes a function of DataFrame and epoch, got 5"):
        WriteToSpark(5)
    with pytest.raises(ValueError, match="watermark 'soon' is no delay; write it as '10 minutes'"):
        beam.io.ReadFromSpark(spark.range(1), timestamp="id", watermark="soon")
