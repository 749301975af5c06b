"""Calls of a service from Spark's worker processes: the same results as in memory."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import headrace as beam
from headrace.options.pipeline_options import PipelineOptions
from headrace.runners.local import LocalRunner
from headrace.runners.spark import SparkRunner

pytestmark = pytest.mark.spark


async def inverted(number: int) -> tuple[int, float]:
    await asyncio.sleep(0.001 * (number % 3))
    return number % 5, 840 / (number - 30)


def squared(batch: list[int]) -> list[tuple[int, int]]:
    return [(number % 5, number * number) for number in batch]


def run(runner: Any, folder: Path) -> dict[str, list[str]]:
    """The lines of each output."""
    folder.mkdir()
    with beam.Pipeline(
        runner, PipelineOptions([f"--checkpoint={folder}/state", "--max_records_per_epoch=20"])
    ) as pipeline:
        numbers = pipeline | beam.Create(range(100))
        good, bad = numbers | "Invert" >> beam.AsyncMap(inverted, concurrency=4).with_exception_handling()
        outputs = {
            "sums": good | "Sum" >> beam.CombinePerKey(sum),
            "bad": bad | beam.MapTuple(lambda number, error: (number, error[1])),
            "squares": numbers | beam.AsyncMap(squared, batch_size=7) | "Squares" >> beam.CombinePerKey(sum),
        }
        for name, output in outputs.items():
            _ = output | f"Write {name}" >> beam.io.WriteToText(f"{folder}/{name}")
    return {
        name: sorted(line for path in folder.glob(f"{name}*") for line in path.read_text().splitlines())
        for name in outputs
    }


def test_same_results_as_in_memory(spark: SparkSession, tmp_path: Path) -> None:
    here, there = run(LocalRunner(), tmp_path / "here"), run(SparkRunner(spark), tmp_path / "there")
    assert there == here
    assert here["bad"] == ["(30, \"ZeroDivisionError('division by zero')\")"] and len(here["squares"]) == 5
