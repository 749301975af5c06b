"""Joins by time on Spark: the same results, corrections and counters as in memory."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from headrace.runners.engine.options import RunOptions
from headrace.runners.local import LocalRunner
from headrace.runners.spark import SparkRunner
from tests.faults.crashes.test_time_joins_survive import JOINS, LIMIT, topology
from tests.faults.crashes.test_vectorized_grouping_survives import Rows, of_sinks, told

pytestmark = pytest.mark.spark


def test_same_results_as_in_memory(spark: SparkSession) -> None:
    options = RunOptions(max_records_per_epoch=LIMIT)
    here: Rows = {}
    there: Rows = {}
    expected = LocalRunner(intervals=2).run_topology(topology(here), options)
    result = SparkRunner(spark, intervals=2).run_topology(topology(there), options)
    assert {sink for sink, _ in of_sinks(there)} == {*JOINS}
    assert of_sinks(there) == of_sinks(here)
    assert told(result) == told(expected)
