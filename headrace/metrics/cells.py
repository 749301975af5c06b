"""Exports, under the module name of Beam, the values of distributions and gauges."""

from headrace.sdk.metrics.results import DistributionResult, GaugeResult

__all__ = ["DistributionResult", "GaugeResult"]
