"""Exports, under the module name of Beam, the functions that make and query metrics."""

from headrace.sdk.metrics.metric import Metrics, MetricsFilter
from headrace.sdk.metrics.results import MetricResults

__all__ = ["MetricResults", "Metrics", "MetricsFilter"]
