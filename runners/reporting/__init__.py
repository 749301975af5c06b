"""Reporters of the progress of a run: at a terminal, in a notebook, in a log, to Prometheus and to OpenTelemetry."""

from headrace.runners.reporting.address import PortError
from headrace.runners.reporting.display import ProgressDisplay
from headrace.runners.reporting.log import ProgressLog
from headrace.runners.reporting.reporter import Reporter, Reporters, reporter_for

__all__ = ["PortError", "ProgressDisplay", "ProgressLog", "Reporter", "Reporters", "reporter_for"]
