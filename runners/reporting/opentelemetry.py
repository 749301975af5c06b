"""Reports the figures of a run to OpenTelemetry by its API (extra `opentelemetry`); the program sets the exporter."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

from headrace.lowlevel.time import MAX_TIMESTAMP
from headrace.runners.reporting.figures import COUNTERS, step_figures
from headrace.runners.reporting.reporter import LastProgress

__all__ = ["OpenTelemetryReporter"]

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Meter, Observation

_GAUGES = (("watermark", "s", 1e6), ("lag", "s", 1e6), ("state_bytes", "By", 1))


class OpenTelemetryReporter(LastProgress):
    """Passes the figures of a run to a meter each time that a metric reader collects them.

    Pass the reporter to a run as the option `progress`. The instruments are `headrace.records_in`, `headrace.late`,
    `headrace.watermark` (seconds since 1970; no value once no more input can come), … with the attribute `step`;
    `headrace.epoch`; `headrace.epoch.seconds` with the attribute `phase`; `headrace.starts`; and what the run does at
    the time of a collection: `headrace.running` with the attributes `phase` and `step`, and `headrace.epoch.running`.

    >>> from opentelemetry.sdk.metrics import MeterProvider
    >>> from opentelemetry.sdk.metrics.export import InMemoryMetricReader
    >>> import headrace as beam
    >>> from headrace.options.pipeline_options import PipelineOptions
    >>> reader = InMemoryMetricReader()
    >>> reporter = OpenTelemetryReporter(MeterProvider([reader]).get_meter("headrace"))
    >>> with beam.Pipeline("LocalRunner", PipelineOptions(progress=reporter)) as pipeline:
    ...     _ = pipeline | "Numbers" >> beam.Create([1, 2])
    >>> [scope] = reader.get_metrics_data().resource_metrics[0].scope_metrics
    >>> "headrace.records_out" in {metric.name for metric in scope.metrics}
    True

    Args:
        meter: An `opentelemetry.metrics.Meter`; by default a meter of the program's meter provider.

    Raises:
        ImportError: The OpenTelemetry API is not installed.
    """

    def __init__(self, meter: Meter | None = None) -> None:
        try:
            from opentelemetry.metrics import get_meter
        except ImportError as error:
            raise ImportError(
                "metrics for OpenTelemetry need its API: pip install 'headrace[opentelemetry]'"
            ) from error
        super().__init__()
        meter = meter or get_meter("headrace")
        for name in COUNTERS:
            meter.create_observable_counter(f"headrace.{name}", [partial(self._steps, name, 1)])
        for name, unit, size in _GAUGES:
            meter.create_observable_gauge(f"headrace.{name}", [partial(self._steps, name, size)], unit)
        meter.create_observable_gauge("headrace.epoch", [self._epoch])
        meter.create_observable_gauge("headrace.epoch.seconds", [self._seconds], "s")
        meter.create_observable_gauge("headrace.starts", [self._starts])
        meter.create_observable_gauge("headrace.running", [self._running], "s")
        meter.create_observable_gauge("headrace.epoch.running", [self._epoch_running], "s")

    def _steps(self, name: str, size: float, options: CallbackOptions) -> Iterable[Observation]:
        progress = self._progress
        values = (
            [] if progress is None else [(each.step, getattr(each, name)) for each in step_figures(progress.metrics)]
        )
        known = [(step, value) for step, value in values if value is not None and value < MAX_TIMESTAMP]
        return [_observation(value if size == 1 else value / size, step=step) for step, value in known]

    def _epoch(self, options: CallbackOptions) -> Iterable[Observation]:
        return [] if (progress := self._progress) is None else [_observation(progress.epoch)]

    def _seconds(self, options: CallbackOptions) -> Iterable[Observation]:
        if self._last is None:
            return []
        phases = {**self._last.phases, "all": self._last.seconds}
        return [_observation(seconds, phase=phase) for phase, seconds in phases.items()]

    def _starts(self, options: CallbackOptions) -> Iterable[Observation]:
        return [] if self._activity is None else [_observation(self._activity.generation)]

    def _running(self, options: CallbackOptions) -> Iterable[Observation]:
        if self._activity is None:
            return []
        doing = self._activity.doing()
        return [_observation(doing.seconds, phase=doing.phase, step=doing.step)]

    def _epoch_running(self, options: CallbackOptions) -> Iterable[Observation]:
        return [] if self._activity is None else [_observation(self._activity.doing().epoch_seconds or 0.0)]


def _observation(value: float, **attributes: str) -> Observation:
    from opentelemetry.metrics import Observation

    return Observation(value, attributes)
