"""Under the name that Beam programs import: the kinds of metrics, and their names."""

from headrace.sdk.metrics.base import Counter, Distribution, Gauge, Metric, MetricName, StringSet

__all__ = ["Counter", "Distribution", "Gauge", "Metric", "MetricName", "StringSet"]
