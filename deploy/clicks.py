# Tried: with LocalRunner and by spark-submit on two executors of one machine, both against a broker in memory. How the
# platforms of this folder call it follows from their documentation.
"""Clicks on each page in each minute, from Kafka to files of JSON: the program that all files of this folder start.

`headrace run clicks.py` takes the function `pipeline`; `spark-submit clicks.py`, and platforms that have a session of
their own, call `main`.
"""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import nullcontext

import headrace as beam
from headrace.io.kafka import ReadFromKafka
from headrace.options.pipeline_options import PipelineOptions
from headrace.runners.reporting import PrometheusReporter
from headrace.transforms.window import FixedWindows


class ClickOptions(PipelineOptions):
    """Where clicks come from, where counts go, and where metrics are served."""

    @classmethod
    def _add_argparse_args(cls, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--servers", default="localhost:9092", help="Kafka's bootstrap servers")
        parser.add_argument("--topic", default="clicks", help="the topic of clicks")
        parser.add_argument("--output", default="counts", help="folder and beginning of the names of the files")
        parser.add_argument("--bounded", action="store_true", help="end with the clicks that are there now")
        parser.add_argument("--metrics", default="", help="[HOST:]PORT, as --prometheus of `headrace run`")


def minute(pair: tuple[str, int], window=beam.DoFn.WindowParam) -> dict[str, object]:
    """Return a line of the output."""
    page, clicks = pair
    return {"page": page, "minute": window.start.to_rfc3339(), "clicks": clicks}


def pipeline(pipeline: beam.Pipeline) -> None:
    """Count clicks such as `{"page": "home", "at": 1700000000}` by page and minute."""
    asked = pipeline.options.view_as(ClickOptions)
    clicks = pipeline | "Clicks" >> ReadFromKafka(
        {"bootstrap.servers": asked.servers},
        [asked.topic],
        value_deserializer=json.loads,
        timestamp_policy=lambda record: record.value["at"],
        max_delay=30,
        bounded=asked.bounded,
    )
    pages = clicks | "Page" >> beam.MapTuple(lambda key, click: (click["page"], 1))
    counts = pages | beam.WindowInto(FixedWindows(60)) | "Count" >> beam.CombinePerKey(sum)
    _ = counts | "Minute" >> beam.Map(minute) | "Write" >> beam.io.WriteToJson(asked.output)


def main() -> None:
    """Run on the session that `spark-submit` or the platform gives."""
    from pyspark.sql import SparkSession

    SparkSession.builder.appName("clicks").getOrCreate()
    metrics = PipelineOptions(sys.argv[1:]).view_as(ClickOptions).metrics
    reporter = PrometheusReporter.at(metrics) if metrics else None
    options = PipelineOptions(sys.argv[1:], progress=reporter) if reporter else PipelineOptions(sys.argv[1:])
    with reporter or nullcontext(), beam.Pipeline("SparkRunner", options) as run:
        pipeline(run)


if __name__ == "__main__":
    main()
