"""Exports, under the module name of Beam, the kinds and names of metrics."""

from headrace.sdk.metrics.metric import Counter, Distribution, Gauge, Metric, MetricName, StringSet

__all__ = ["Counter", "Distribution", "Gauge", "Metric", "MetricName", "StringSet"]
