"""Pipelines over Spark Connect: `SPARK_REMOTE=sc://... python -m tests.spark.overconnect PLACE`, and what they find.

A program has sessions of Connect or classic ones, so this is one of its own.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import headrace as beam
from headrace.lowlevel import BoundedInjector, Topology
from headrace.options.pipeline_options import PipelineOptions
from headrace.runners.engine.options import RunOptions
from headrace.runners.spark import SparkRunner, WriteToSpark
from headrace.runners.spark.jobs.epoch_job import EpochJob
from headrace.runners.spark.jobs.resident_task import ResidentTask
from tests.spark import lives
from tests.spark.client.pipelines import windows

Found = dict[str, object]


def frames(session: SparkSession, place: str) -> object:
    """From a DataFrame to DataFrames."""
    found: list[int] = []

    def take(rows: DataFrame, epoch: int) -> None:
        found.extend(row.id for row in rows.collect())

    frame = session.sql("SELECT id, timestamp_seconds(id) AS at FROM range(20)")
    with beam.Pipeline("SparkRunner", PipelineOptions([f"--checkpoint={place}"])) as pipeline:
        rows = pipeline | beam.io.ReadFromSpark(frame, timestamp="at", watermark="1 second")
        rows | beam.Filter(lambda row: row.id % 2) | WriteToSpark(take)
    return sorted(found)


def raw(session: SparkSession, place: str) -> object:
    """Raw computations, whose classes are in a module of the program's own."""
    out = Path(f"{place}-out")
    out.mkdir()
    result = SparkRunner(session, intervals=3).run_topology(lives.topology(out), RunOptions(place, **lives.OPTIONS))
    return [result.epochs, sorted(path.name for path in out.iterdir())]


def refused(act: Callable[[], object]) -> str:
    try:
        act()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def a_stream(session: SparkSession, place: str) -> None:
    with beam.Pipeline("SparkRunner", PipelineOptions([f"--checkpoint={place}"])) as pipeline:
        pipeline | "rate" >> beam.io.ReadFromSpark(session.readStream.format("rate").load())


def an_error(place: str) -> None:
    with beam.Pipeline("SparkRunner", PipelineOptions([f"--checkpoint={place}"])) as pipeline:
        pipeline | beam.Create([1, 0]) | "Divide" >> beam.Map(lambda n: 1 // n)


def a_death(place: str) -> None:
    import os

    with beam.Pipeline("SparkRunner", PipelineOptions([f"--checkpoint={place}"])) as pipeline:
        pipeline | beam.Create([1]) | "Die" >> beam.Map(lambda n: os._exit(3))


def ways() -> Callable[[], dict[str, int]]:
    """Count how epochs are run from now on."""
    counted = dict.fromkeys(("levels", "one task", "task that stays"), 0)

    def count(owner: type, name: str, way: str) -> None:
        inner = getattr(owner, name)

        def counting(*arguments: object, **named: object) -> object:
            result = inner(*arguments, **named)
            counted[way] += result is not None
            return result

        setattr(owner, name, counting)

    count(EpochJob, "run", "levels")
    count(EpochJob, "run_in_one_task", "one task")
    count(ResidentTask, "run", "task that stays")
    return lambda: dict(counted)


def main(place: str) -> None:
    session = SparkSession.builder.getOrCreate()
    counted = ways()
    found: Found = {
        "class": f"{type(session).__module__}",
        "stays": windows(f"{place}/stays"),
        "jobs": windows(f"{place}/jobs", "--task_idle_seconds=0"),
        "levels": windows(f"{place}/levels", "--task_idle_seconds=0", "--no_one_task_epochs"),
        "frames": frames(session, f"{place}/frames"),
        "raw": raw(session, f"{place}/raw"),
        "ways": counted(),
        "stream": refused(lambda: a_stream(session, f"{place}/stream")),
        "error": refused(lambda: an_error(f"{place}/error")),
        "death": refused(lambda: a_death(f"{place}/death")),
        "nowhere": refused(lambda: SparkRunner(session).run_topology(nothing())),
    }
    print(json.dumps(found))


def nothing() -> Topology:
    topology = Topology()
    topology.injector("in", BoundedInjector([]))
    return topology


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    main(*sys.argv[1:])
