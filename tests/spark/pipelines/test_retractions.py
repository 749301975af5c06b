"""Retractions on Spark: through two groupings, the same elements as in memory."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from headrace.runners.engine.options import RunOptions
from headrace.runners.local import LocalRunner
from headrace.runners.spark import SparkRunner
from tests.faults.crashes.test_crash_at_every_step import Outside
from tests.faults.crashes.test_retractions_survive import histogram, standing

pytestmark = pytest.mark.spark


def test_same_elements_as_in_memory(spark: SparkSession) -> None:
    options = RunOptions(max_records_per_epoch=16)
    here, there = Outside(), Outside()
    LocalRunner(intervals=2).run_topology(histogram(here), options)
    SparkRunner(spark, intervals=2).run_topology(histogram(there), options)
    assert any(is_retraction for (is_retraction, *_), _ in there.values("end"))
    assert standing(there) == standing(here)
    assert there.values("end") == here.values("end")
