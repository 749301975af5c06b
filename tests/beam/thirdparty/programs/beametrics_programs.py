"""A program with beametrics: messages of bytes to metrics of windows."""

from __future__ import annotations

import json

import apache_beam as beam
from apache_beam.options.value_provider import StaticValueProvider
from beametrics import metrics_exporter, pipeline
from beametrics.filter import FilterCondition
from beametrics.metrics import MetricDefinition, MetricType
from conftest import Record


def test_metrics(record: Record) -> None:
    local = metrics_exporter.LocalExporterConfig(
        metric_name="errors", metric_labels={}, connection_config=None, export_type="local"
    )
    configurations = [
        pipeline.MetricConfig(
            [FilterCondition("level", "ERROR", "equals")],
            local,
            MetricDefinition("errors", MetricType.SUM, "took", {"a": "b"}, {"host": "host"}),
        ),
        pipeline.MetricConfig(
            [FilterCondition("took", "3", "greater_than")], local, MetricDefinition("slow", MetricType.SUM, "took")
        ),
    ]
    messages = [
        json.dumps({"level": ["ERROR", "INFO"][each % 2], "took": each % 7, "host": f"h{each % 3}"}).encode()
        for each in range(200)
    ]
    with beam.Pipeline() as program:
        timed = (
            program
            | beam.Create([*messages, b"no json"])
            | beam.Map(lambda message: beam.window.TimestampedValue(message, len(message)))
        )
        metrics = timed | pipeline.MessagesToMetricsPipeline(configurations, StaticValueProvider(int, 1))
        record("metrics", metrics | beam.Map(lambda metric, window=beam.DoFn.WindowParam: (metric, window)))
