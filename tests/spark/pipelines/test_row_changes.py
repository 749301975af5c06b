"""Changes of tables on Spark: what follows from them equals a recomputation from the final tables."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

import headrace as beam
from headrace.io.delta import ReadFromDelta
from headrace.runners.engine.options import RunOptions
from headrace.runners.spark import SparkRunner
from headrace.testing.util import assert_that, equal_to
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


def test_changes_of_a_delta_table(spark: SparkSession, tmp_path: Path) -> None:
    write_deltalake(tmp_path, pa.table({"id": [*range(40)], "amount": [1] * 40}))
    for key in range(0, 40, 7):
        DeltaTable(tmp_path).update(updates={"amount": "amount + 1"}, predicate=f"id >= {key}")
    DeltaTable(tmp_path).delete("id < 10")
    with beam.Pipeline(SparkRunner(spark)) as pipeline:
        rows = pipeline | ReadFromDelta(tmp_path, 0, changes=True) | beam.FromRowChanges(key="id")
        total = rows | beam.Map(lambda row: row["amount"]) | beam.CombineGlobally(sum)
        assert_that(total, equal_to([sum(DeltaTable(tmp_path).to_pyarrow_table().column("amount").to_pylist())]))
