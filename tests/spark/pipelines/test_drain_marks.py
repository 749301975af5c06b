"""What a drain fires before its time says so, on Spark as in memory."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from headrace.runners.spark import SparkRunner
from tests.unit.sdk.pipeline.test_drain_marks import runs_marks

pytestmark = pytest.mark.spark


def test_what_a_drain_of_a_run_fires(spark: SparkSession, tmp_path) -> None:
    runs_marks(tmp_path, SparkRunner(spark, intervals=2))
