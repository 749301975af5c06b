"""Under the name that Beam programs import: what a query for metrics gives."""

from headrace.sdk.metrics.results import MetricKey, MetricResult

__all__ = ["MetricKey", "MetricResult"]
