"""Under the name that Beam programs import: how metrics are made and asked for."""

from headrace.sdk.metrics.metric import Metrics, MetricsFilter
from headrace.sdk.metrics.results import MetricResults

__all__ = ["MetricResults", "Metrics", "MetricsFilter"]
