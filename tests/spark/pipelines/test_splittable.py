"""Splittable DoFns on Spark: splits, deferred rests, side inputs and watermarks; the same elements as in memory."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from headrace.runners.local import LocalRunner
from headrace.runners.spark import SparkRunner
from tests.faults.crashes.test_crash_at_every_step import Outside
from tests.faults.crashes.test_splittable_survives import polled

pytestmark = pytest.mark.spark


def test_same_elements_as_in_memory(spark: SparkSession) -> None:
    here, there = Outside(), Outside()
    LocalRunner(intervals=2).run_topology(polled(here))
    SparkRunner(spark, intervals=2).run_topology(polled(there))
    for sink in ("read", "panes"):
        assert there.values(sink)
        assert there.values(sink) == here.values(sink)
