"""What a run says of itself while it goes on: to a person at a terminal, to a log, to Prometheus and OpenTelemetry."""

from headrace.runners.reporting.display import ProgressDisplay
from headrace.runners.reporting.log import ProgressLog
from headrace.runners.reporting.reporter import Reporter, Reporters, reporter_for

__all__ = ["ProgressDisplay", "ProgressLog", "Reporter", "Reporters", "reporter_for"]
