"""What older releases of Spark do without does the same as what newer ones have; on the installed release."""

from __future__ import annotations

import datetime
import random

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace.lowlevel.records.block import PIECE
from headrace.runners.spark import engine_settings
from headrace.runners.spark.engine_settings import ask_for_settings
from headrace.runners.spark.jvm_private import collect_as_arrow
from headrace.runners.spark.releases import collected, frame_of, placed, placed_by_hash, unhashed

pytestmark = pytest.mark.spark

TARGETS = pa.schema([("target", pa.int32()), ("blob", pa.binary())])
EDGES = [0, 1, -1, 2**31 - 1, -(2**31)]


def test_spark_has_the_hash_that_is_undone(spark: SparkSession) -> None:
    rows = [(unhashed(number), number) for number in EDGES + random.Random(1).sample(range(-(2**31), 2**31), 1_000)]
    assert spark.createDataFrame(rows, "x int, number int").where("hash(x) <> number").count() == 0


@pytest.mark.parametrize("adaptive", ["true", "false"])
@pytest.mark.parametrize("place", [placed, placed_by_hash])
@pytest.mark.parametrize("partitions", [1, 2, 3, 7, 64])
def test_each_row_is_in_the_partition_that_it_names(
    spark: SparkSession, place: object, partitions: int, adaptive: str
) -> None:
    """Also where Spark adapts plans: it would like to join these partitions, which are small or empty."""
    session = spark.newSession()
    session.conf.set("spark.sql.adaptive.enabled", adaptive)
    targets = [target for target in range(partitions) if target % 5 != 4] * 3
    table = pa.table({"target": targets, "blob": [b"x"] * len(targets)}, TARGETS)
    assert callable(place)
    frame: DataFrame = place(frame_of(session, table), partitions, "target")
    found = frame.select("target", F.spark_partition_id().alias("at")).collect()
    assert sorted((row["target"], row["at"]) for row in found) == sorted(zip(targets, targets, strict=True))
    assert frame.mapInArrow(_one_row, "rows long").count() == partitions


def _one_row(batches: object) -> object:
    yield pa.RecordBatch.from_pydict({"rows": pa.array([sum(len(batch) for batch in batches)], pa.int64())})  # type: ignore[attr-defined]  # Spark gives batches


def a_table() -> pa.Table:
    at = datetime.datetime(2026, 1, 2, 3, 4, 5, 6, datetime.UTC)
    one = pa.RecordBatch.from_pydict(
        {
            "whole": pa.array([1, None], pa.int64()),
            "small": pa.array([1, -1], pa.int8()),
            "text": pa.array(["ä", None]),
            "at": pa.array([at, None], pa.timestamp("us", "UTC")),
            "day": pa.array([at.date(), None]),
            "many": pa.array([[1, None], []], pa.list_(pa.int32())),
            "row": pa.array([{"a": 1.5}, None], pa.struct([("a", pa.float64())])),
            "blob": pa.array([b"\0", None], pa.binary()),
        }
    )
    return pa.Table.from_batches([one, one.slice(1)])


def test_rows_go_in_and_out_as_they_are(spark: SparkSession) -> None:
    frame = frame_of(spark, a_table())
    types = "whole bigint, small tinyint, text string, at timestamp, day date, many array<int>, row struct<a:double>"
    assert frame.schema.simpleString() == f"struct<{types.replace(' ', ':').replace(',:', ',')},blob:binary>"
    for take in (collected, collect_as_arrow):
        assert pa.Table.from_batches(take(frame)).to_pylist() == a_table().to_pylist()


def test_a_time_without_a_zone_stays_so_whatever_the_zone_of_the_session(spark: SparkSession) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "America/New_York")
    frame = frame_of(session, pa.table({"at": [datetime.datetime(2026, 7, 2, 3, 4)]}))
    assert frame.dtypes == [("at", "timestamp_ntz")]
    assert frame.collect()[0]["at"] == datetime.datetime(2026, 7, 2, 3, 4)


def test_each_chunk_becomes_a_partition(spark: SparkSession) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.execution.arrow.localRelationThreshold", "0")
    frame = frame_of(session, a_table()).select(F.spark_partition_id().alias("at"))
    assert [row["at"] for row in frame.collect()] == [0, 0, 1]


def test_a_batch_of_the_largest_blobs_is_below_what_arrow_can_hold(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_settings, "BYTES_SETTING", "spark.sql.that.there.is.not")
    session = spark.newSession()
    ask_for_settings(session)
    records = session.conf.get(engine_settings.RECORDS_SETTING)
    assert int(records) * PIECE < 2**31 and int(records) > 1
