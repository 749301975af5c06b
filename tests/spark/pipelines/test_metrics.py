"""Metrics on Spark: exact also when a worker is killed in a task and Spark runs the task again."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import headrace as beam
from headrace.metrics import Metrics
from headrace.options.pipeline_options import PipelineOptions
from headrace.runners.spark import SparkRunner

pytestmark = pytest.mark.spark


class Fatal(beam.DoFn):
    """Counts elements, and kills its process in the middle of a bundle if nothing has before."""

    def __init__(self, flag: Path) -> None:
        self.flag = flag
        self.elements = Metrics.counter("test", "elements")
        self.sizes = Metrics.distribution("test", "sizes")

    def process(self, element: int) -> Iterator[tuple[int, int]]:
        self.elements.inc()
        self.sizes.update(element)
        if element == 25 and not self.flag.exists():
            self.flag.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        yield element % 3, element


def counted(spark: SparkSession, place: Path, before: Path, behind: Path) -> dict[str, object]:
    options = PipelineOptions(["--checkpoint", str(place), "--max_records_per_epoch", "16"])
    p = beam.Pipeline(SparkRunner(spark, intervals=2), options)
    totals = p | beam.Create(range(40)) | "Before" >> beam.ParDo(Fatal(before)) | beam.GroupByKey()
    _ = totals | beam.FlatMapTuple(lambda key, values: values) | "Behind" >> beam.ParDo(Fatal(behind))
    found = p.run().metrics().query()
    return {f"{one.key.step} {one.key.metric.name}": one.result for kind in found.values() for one in kind}


def test_counters_are_exact_when_tasks_are_run_again(spark: SparkSession, tmp_path: Path) -> None:
    place, before, behind = tmp_path / "checkpoint", tmp_path / "before", tmp_path / "behind"
    found = counted(spark, place, before, behind)
    assert before.exists() and behind.exists(), "both faults fired"
    (tmp_path / "none").touch()
    assert found == counted(spark, tmp_path / "calm", tmp_path / "none", tmp_path / "none")
    assert found["Before elements"] == found["Behind elements"] == 40
    assert found == counted(spark, place, before, behind), "a run that is over and is started again knows them"
