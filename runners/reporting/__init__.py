"""Reporters of the progress of a run: at a terminal, in a notebook, in a log, to Prometheus and to OpenTelemetry."""

from headrace.runners.reporting.display import ProgressDisplay, ProgressLog, reporter_for
from headrace.runners.reporting.opentelemetry import OpenTelemetryReporter
from headrace.runners.reporting.prometheus import PrometheusReporter
from headrace.runners.reporting.reporter import PortError, Reporter, Reporters

__all__ = [
    "OpenTelemetryReporter",
    "PortError",
    "ProgressDisplay",
    "ProgressLog",
    "PrometheusReporter",
    "Reporter",
    "Reporters",
    "reporter_for",
]
