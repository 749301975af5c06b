"""A pipeline in the background on Spark: figures while it runs, a stop, another start, and a drain."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from headrace.runners.runner import PipelineState
from headrace.runners.spark import SparkRunner
from tests.unit.sdk.pipeline.test_running_pipeline import endless, when

pytestmark = pytest.mark.spark


def test_stopped_started_again_and_drained(spark: SparkSession, tmp_path) -> None:
    pipeline, sums = endless(tmp_path, SparkRunner(spark, intervals=2))
    running = pipeline.start()
    when(lambda: running.counters.get("Sum", {}).get("records", 0) > 3)
    running.stop()
    assert (running.wait(60), running.state, sums()) == (True, PipelineState.STOPPED, [])
    committed, records = running.epochs, running.counters["Sum"]["records"]
    assert sum(running.progress.latencies["Ticks/Read"].counts) == records
    pipeline, sums = endless(tmp_path, SparkRunner(spark, intervals=2))
    running = pipeline.start()
    when(lambda: running.epochs > committed + 2)
    running.drain()
    assert (running.wait_until_finish(60_000), running.state) == (PipelineState.DRAINED, PipelineState.DRAINED)
    assert sums() == [("all", running.counters["Ticks/Read"]["records"])]
