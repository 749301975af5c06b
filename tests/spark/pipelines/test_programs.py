"""Random programs on Spark: values with exact types, and errors, are what calling their functions gives."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import headrace as beam
from headrace.lowlevel.errors import StepError
from headrace.lowlevel.time import MIN_TIMESTAMP
from headrace.options.pipeline_options import PipelineOptions
from headrace.runners.spark import SparkRunner
from tests.collecting import collected
from tests.depth import examples
from tests.properties.programs import branches_of, by_hand, parquet_file, written

pytestmark = pytest.mark.spark

FIRST, JOBS, SEEDS = 10_000, 3, 160
FAILING = 4


def options() -> PipelineOptions:
    return PipelineOptions(["--no_pipeline_type_check", "--max_records_per_epoch=27"])


def test_many_programs_give_what_calls_give(spark: SparkSession, tmp_path: Path) -> None:
    path, values = parquet_file(tmp_path)
    branches = []
    for job in range(examples(JOBS, 10 * JOBS)):
        with beam.Pipeline(SparkRunner(spark, intervals=2), options()) as pipeline:
            rows = pipeline | beam.io.ReadFromParquet(path)
            seeds = range(FIRST + job * SEEDS, FIRST + (job + 1) * SEEDS)
            branches += branches_of(rows, seeds, tmp_path, values)
    assert len(branches) > 200
    for branch in branches:
        branch.check()


def test_programs_that_fail_fail_as_calls_do(spark: SparkSession, tmp_path: Path) -> None:
    path, values = parquet_file(tmp_path)
    failed = 0
    for seed in range(FIRST, FIRST + SEEDS):
        program = written(seed, with_effects=False)
        functions = program.functions(tmp_path)
        error = by_hand(program, functions, values, [MIN_TIMESTAMP] * len(values)).error
        if program.of_rows or error is None or failed == FAILING:
            continue
        failed += 1
        with pytest.raises(StepError) as raised, beam.Pipeline(SparkRunner(spark, intervals=2), options()) as pipeline:
            rows = pipeline | beam.io.ReadFromParquet(path)
            for transform in program.transforms(functions):
                rows = rows | transform
            collected(rows)
        step, element, last = error
        assert raised.value.step.split(" ")[1] == step, str(program)
        assert f"{raised.value.value!r:.200}" == element, str(program)
        assert raised.value.cause.strip().endswith(last), str(program)
    assert failed == FAILING
