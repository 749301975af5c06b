"""Changes of tables on Spark: what follows from them equals a recomputation from the final tables."""

from __future__ import annotations

import random

import pytest
from pyspark.sql import SparkSession

from headrace.runners.engine.options import RunOptions
from headrace.runners.spark import SparkRunner
from tests.faults.crashes.test_crash_at_every_step import Outside
from tests.faults.crashes.test_row_changes_survive import history, recomputed, results, standing

pytestmark = pytest.mark.spark


def test_results_are_those_of_the_final_tables(spark: SparkSession) -> None:
    rng, outside = random.Random(3), Outside()
    (orders, table), (managers, other) = history(rng, 40), history(rng, 12)
    SparkRunner(spark, intervals=2).run_topology(
        results(outside, orders, managers), RunOptions(max_records_per_epoch=16)
    )
    assert standing(outside) == recomputed(table, other)
    assert any(kind == "-" for (kind, _), _ in outside.values("fixed"))
