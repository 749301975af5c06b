"""Reports the figures of a run to OpenTelemetry by its API (extra `opentelemetry`); the program sets the exporter."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Self

from headrace.lowlevel.time import MAX_TIMESTAMP
from headrace.runners.engine.activity import Activity
from headrace.runners.engine.options import EpochProgress
from headrace.runners.reporting.figures import step_figures

__all__ = ["OpenTelemetryReporter"]

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Meter, Observation

_COUNTERS = ("records_in", "records_out", "late", "dropped_late", "duplicates", "dead_letters", "timers")
_GAUGES = (("watermark", "s", 1e6), ("lag", "s", 1e6), ("state_bytes", "By", 1))


class OpenTelemetryReporter:
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
        meter = meter or get_meter("headrace")
        self._last: EpochProgress | None = None
        self._activity: Activity | None = None
        for name in _COUNTERS:
            meter.create_observable_counter(f"headrace.{name}", [partial(self._steps, name, 1)])
        for name, unit, size in _GAUGES:
            meter.create_observable_gauge(f"headrace.{name}", [partial(self._steps, name, size)], unit)
        meter.create_observable_gauge("headrace.epoch", [self._epoch])
        meter.create_observable_gauge("headrace.epoch.seconds", [self._seconds], "s")
        meter.create_observable_gauge("headrace.starts", [self._starts])
        meter.create_observable_gauge("headrace.running", [self._running], "s")
        meter.create_observable_gauge("headrace.epoch.running", [self._epoch_running], "s")

    def __enter__(self) -> Self:
        return self

    def begin(self, activity: Activity) -> None:
        """Report what a run does from now on, and the figures of the commit that it goes on from."""
        self._activity, self._last = activity, None

    @property
    def _progress(self) -> EpochProgress | None:
        return self._last or (None if self._activity is None else self._activity.recovered)

    def __call__(self, progress: EpochProgress) -> None:
        """Note the progress after an epoch, for the next collection."""
        self._last = progress

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Keep the last figures, as a metric reader may collect them once more when the program ends."""

    def _steps(self, name: str, size: float, options: CallbackOptions) -> Iterable[Observation]:
        progress = self._progress
        values = [] if progress is None else [(each.step, getattr(each, name)) for each in step_figures(progress)]
        known = [(step, value) for step, value in values if value is not None and value < MAX_TIMESTAMP]
        return [_observed(value if size == 1 else value / size, step=step) for step, value in known]

    def _epoch(self, options: CallbackOptions) -> Iterable[Observation]:
        return [] if (progress := self._progress) is None else [_observed(progress.epoch)]

    def _seconds(self, options: CallbackOptions) -> Iterable[Observation]:
        if self._last is None:
            return []
        phases = {**self._last.phases, "all": self._last.seconds}
        return [_observed(seconds, phase=phase) for phase, seconds in phases.items()]

    def _starts(self, options: CallbackOptions) -> Iterable[Observation]:
        return [] if self._activity is None else [_observed(self._activity.generation)]

    def _running(self, options: CallbackOptions) -> Iterable[Observation]:
        if self._activity is None:
            return []
        doing = self._activity.doing()
        return [_observed(doing.seconds, phase=doing.phase, step=doing.step)]

    def _epoch_running(self, options: CallbackOptions) -> Iterable[Observation]:
        return [] if self._activity is None else [_observed(self._activity.doing().epoch_seconds or 0.0)]


def _observed(value: float, **attributes: str) -> Observation:
    from opentelemetry.metrics import Observation

    return Observation(value, attributes)
