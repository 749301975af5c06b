"""Side inputs on Spark: waiting, changing, of each window, beside state; the same elements as in memory."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from headrace.runners.local import LocalRunner
from headrace.runners.spark import SparkRunner
from tests.faults.crashes.test_crash_at_every_step import Outside
from tests.faults.crashes.test_side_inputs_survive import looked_up

pytestmark = pytest.mark.spark


def test_same_elements_as_in_memory(spark: SparkSession) -> None:
    here, there = Outside(), Outside()
    LocalRunner(intervals=2).run_topology(looked_up(here, rounds=3))
    SparkRunner(spark, intervals=2).run_topology(looked_up(there, rounds=3))
    for sink in ("end", "numbered"):
        assert there.values(sink)
        assert there.values(sink) == here.values(sink)
