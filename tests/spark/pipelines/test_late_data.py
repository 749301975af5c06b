"""What steps drop as late, on Spark: the same as in memory."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from headrace.runners.local import LocalRunner
from headrace.runners.spark import SparkRunner
from tests.faults.crashes.test_crash_at_every_step import Outside
from tests.faults.crashes.test_late_data_survives import WAYS, dropping

pytestmark = pytest.mark.spark


def test_same_late_data_as_in_memory(spark: SparkSession) -> None:
    here, there = Outside(), Outside()
    LocalRunner(intervals=2).run_topology(dropping(here))
    SparkRunner(spark, intervals=2).run_topology(dropping(there))
    for way in WAYS:
        assert there.values(way) == here.values(way) != []
