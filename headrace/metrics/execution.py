"""Exports, under the module name of Beam, the results of queries for metrics."""

from headrace.sdk.metrics.results import MetricKey, MetricResult

__all__ = ["MetricKey", "MetricResult"]
