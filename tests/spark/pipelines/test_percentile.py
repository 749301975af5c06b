"""Percentile low watermarks on Spark: every record meets the same watermark as in the model."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from headrace.runners.engine.options import RunOptions
from headrace.runners.spark import SparkRunner
from tests.unit.lowlevel.watermarks.test_lateness import CHOSEN, EPOCH, model, topology_of

pytestmark = pytest.mark.spark


def test_every_record_meets_the_watermark_of_its_consumers_percentile(spark: SparkSession) -> None:
    rows: dict[str, dict[object, None]] = {}
    topology = topology_of(7, rows)
    SparkRunner(spark, intervals=2).run_topology(topology, RunOptions(max_records_per_epoch=3 * EPOCH))
    for name, percentile in CHOSEN.items():
        assert sorted(rows[name]) == model(7, percentile, splits=2, epoch_size=3 * EPOCH), name
    assert sorted(rows["after most"]) == sorted(rows["most"])
