"""Under the name that Beam programs import: values of metrics."""

from headrace.sdk.metrics.results import DistributionResult, GaugeResult

__all__ = ["DistributionResult", "GaugeResult"]
