"""Reports the figures of a run to OpenTelemetry by its API (extra `opentelemetry`); the program sets the exporter."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from math import isfinite
from typing import TYPE_CHECKING

from headrace.runners.reporting.reporter import LastProgress
from headrace.runners.reporting.series import HISTOGRAMS, SERIES, HistogramSeries, Series

__all__ = ["OpenTelemetryReporter"]

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Meter, Observation


class OpenTelemetryReporter(LastProgress):
    """Passes the figures of a run to a meter each time that a metric reader collects them.

    Pass the reporter to a run as the option `progress`. The instruments are `headrace.records_in`, `headrace.late`,
    `headrace.watermark` (seconds since 1970; no value once no more input can come), … with the attribute `step`;
    `headrace.epoch`; `headrace.epoch.seconds` with the attribute `phase`; `headrace.starts`; and what the run does at
    the time of a collection: `headrace.running` with the attributes `phase` and `step`, and `headrace.epoch.running`.
    The metrics of user code are `headrace.user_…` with the attributes `step`, `namespace` and `name`.

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
        for series in SERIES:
            make = meter.create_observable_counter if series.is_count else meter.create_observable_gauge
            make(f"headrace.{series.name}", [partial(self._observations, series)], series.unit, series.about)

        for histograms in HISTOGRAMS:
            for part in ("bucket", "count", "sum"):
                name, unit = f"headrace.{histograms.name}.{part}", histograms.unit if part == "sum" else ""
                meter.create_observable_counter(name, [partial(self._parts, histograms, part)], unit, histograms.about)

    def _parts(self, series: HistogramSeries, part: str, options: CallbackOptions) -> Iterator[Observation]:
        """Observe a part of histograms, as the API has no instrument for histograms that are observed."""
        from opentelemetry.metrics import Observation

        for labels, buckets in series.values(self._progress).items():
            attributes = dict(zip(series.labels, labels, strict=True))
            if part == "bucket":
                for bound, count in buckets.by_label():
                    yield Observation(count, {**attributes, "le": bound})
            elif (value := buckets.counts[-1] if part == "count" else buckets.sum) is not None:
                yield Observation(value, attributes)

    def _observations(self, series: Series, options: CallbackOptions) -> Iterator[Observation]:
        from opentelemetry.metrics import Observation

        for labels, value in series.values(self._activity, self._progress).items():
            if isfinite(value):
                yield Observation(value, dict(zip(series.labels, labels, strict=True)))
