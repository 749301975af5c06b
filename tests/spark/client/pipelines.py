"""What a client runs: `SPARK_REMOTE=sc://... python -m tests.spark.client.pipelines PLACE`, and what it finds.

It imports nothing that only tests have, as the client's environment has no more than headrace needs.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession

import headrace as beam
from headrace.options.pipeline_options import PipelineOptions
from headrace.runners.spark import WriteToSpark
from headrace.transforms.window import FixedWindows, TimestampedValue

BRIDGE = ("py4j", "pyspark.core", "pyspark.java_gateway", "pyspark.daemon", "pyspark.worker")
"""Modules of a session with a master."""


def windows(place: str, *options: str) -> object:
    """Sums of keys and minutes, in many epochs, with state from each to the next."""
    found: list[object] = []
    arguments = PipelineOptions([f"--checkpoint={place}", "--max_records_per_epoch=50", *options])
    with beam.Pipeline("SparkRunner", arguments) as pipeline:
        numbers = pipeline | beam.Create([(n % 7, n) for n in range(300)])
        timed = numbers | beam.Map(lambda pair: TimestampedValue(pair, pair[1]))
        sums = timed | beam.WindowInto(FixedWindows(60)) | beam.CombinePerKey(sum)
        sums | beam.io.ForeachEpoch(lambda epoch, rows: found.extend(rows))
    return sorted(found)  # type: ignore[type-var]  # pairs of numbers


def frames(place: str) -> object:
    """From a DataFrame to DataFrames, with a null and a time without a zone."""
    session = SparkSession.builder.getOrCreate()
    found: list[object] = []

    def take(rows: DataFrame, epoch: int) -> None:
        found.extend([row.id, None if row.at is None else row.at.isoformat(), row.name] for row in rows.collect())

    columns = "id, IF(id = 3, NULL, TIMESTAMP_NTZ '2024-05-06 07:08:09.123456') AS at, CAST(id AS string) AS name"
    frame = session.sql(f"SELECT {columns} FROM range(6)")
    with beam.Pipeline("SparkRunner", PipelineOptions([f"--checkpoint={place}"])) as pipeline:
        rows = pipeline | beam.io.ReadFromSpark(frame)
        rows | beam.Filter(lambda row: row.id % 2) | WriteToSpark(take)
    return sorted(found, key=str)


def error(place: str) -> str:
    """What a failure of user code says."""

    def act() -> None:
        with beam.Pipeline("SparkRunner", PipelineOptions([f"--checkpoint={place}"])) as pipeline:
            pipeline | beam.Create([1, 0]) | "Divide" >> beam.Map(lambda n: 1 // n)

    return refused(act)


def refused(act: Callable[[], object]) -> str:
    try:
        act()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def settings(session: SparkSession) -> dict[str, str | None]:
    """What the engine sets; the program's own session has its values after a run."""
    names = ("spark.sql.adaptive.enabled", "spark.sql.codegen.wholeStage")
    return {name: session.conf.get(name, None) for name in names}


def main(place: str) -> None:
    session = SparkSession.builder.getOrCreate()
    before = settings(session)
    found = {
        "stays": windows(f"{place}/stays"),
        "jobs": windows(f"{place}/jobs", "--task_idle_seconds=0"),
        "levels": windows(f"{place}/levels", "--task_idle_seconds=0", "--no_one_task_epochs"),
        "frames": frames(f"{place}/frames"),
        "error": error(f"{place}/error"),
        "unchanged": settings(session) == before,
        "bridge": sorted(name for name in BRIDGE if name in sys.modules),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    main(*sys.argv[1:])
