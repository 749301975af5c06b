"""Serves the figures of a run to Prometheus, by the Prometheus client library (extra `prometheus`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Self

from headrace.runners.reporting.reporter import LOOPBACK, LastProgress, host_and_port, port_error
from headrace.runners.reporting.series import HISTOGRAMS, SERIES

__all__ = ["PrometheusReporter"]

if TYPE_CHECKING:
    from wsgiref.simple_server import WSGIServer

    from prometheus_client import CollectorRegistry, Metric


class PrometheusReporter(LastProgress):
    """Serves the figures of a run at `http://HOST:PORT/metrics`; pass the reporter to a run as the option `progress`.

    The metrics of steps have the label `step`: `headrace_records_in_total`, `headrace_late_total`,
    `headrace_watermark_seconds`, `headrace_lag_seconds`, … The number of the epoch is `headrace_epoch`, and the seconds
    of its parts are `headrace_epoch_seconds{phase=…}`. The metrics of user code are `headrace_user_…` with the labels
    `step`, `namespace` and `name`.

    >>> import headrace as beam
    >>> from headrace.options.pipeline_options import PipelineOptions
    >>> from urllib.request import urlopen
    >>> with PrometheusReporter(0) as reporter:
    ...     with beam.Pipeline("LocalRunner", PipelineOptions(progress=reporter)) as pipeline:
    ...         _ = pipeline | "Numbers" >> beam.Create([1, 2])
    ...     lines = urlopen(f"http://127.0.0.1:{reporter.port}/metrics").read().decode().splitlines()
    >>> [line for line in lines if line.startswith("headrace_records_out_total")]
    ['headrace_records_out_total{step="Numbers"} 2.0']

    Args:
        port: TCP port that is open between `__enter__` and `__exit__`. With None no port is opened, for programs that
            serve `registry` themselves.
        registry: A `prometheus_client.CollectorRegistry`; a new one by default.
        host: Name or address of the interface to serve at. By default only programs of this machine can connect;
            `0.0.0.0` means all interfaces. The figures name steps, and no password is required.

    Raises:
        ImportError: `prometheus_client` is not installed.
        PortError: The port cannot be opened when the reporter is entered.
    """

    def __init__(
        self, port: int | None = None, registry: CollectorRegistry | None = None, host: str = LOOPBACK
    ) -> None:
        try:
            from prometheus_client import CollectorRegistry
        except ImportError as error:
            raise ImportError("metrics for Prometheus need its client: pip install 'headrace[prometheus]'") from error
        super().__init__()
        self.registry = CollectorRegistry() if registry is None else registry
        self.registry.register(self)
        self.host, self.port = host, port
        """The port; 0 becomes the number of the chosen free port when the reporter is entered."""
        self._server: WSGIServer | None = None

    @classmethod
    def at(cls, address: str) -> PrometheusReporter:
        """Make a reporter from an address, `PORT` or `HOST:PORT`; without a host, it serves this machine only.

        Raises:
            ImportError: `prometheus_client` is not installed.
            ValueError: The text is not such an address.

        >>> reporter = PrometheusReporter.at("0.0.0.0:9464")
        >>> reporter.host, reporter.port, PrometheusReporter.at("[::1]:9464").host, PrometheusReporter.at("0").host
        ('0.0.0.0', 9464, '::1', '127.0.0.1')
        """
        host, port = host_and_port(address, "metrics", 9464)
        return cls(port, host=host)

    def __enter__(self) -> Self:
        if self.port is not None:
            from prometheus_client import start_http_server

            try:
                self._server, _ = start_http_server(self.port, self.host, self.registry)
            except OSError as error:
                raise port_error(error, "metrics", self.host, self.port) from error
            self.port = self._server.server_port
        return self

    def __exit__(self, *error: object) -> None:
        self.registry.unregister(self)
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()

    def collect(self) -> Iterator[Metric]:
        """Return the metrics of now and after the last epoch; the registry calls this method at each request."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

        activity, progress = self._activity, self._progress
        for series in SERIES:
            kind = CounterMetricFamily if series.is_count else GaugeMetricFamily
            family = kind(series.prometheus_name, series.about, labels=series.labels)
            for labels, value in series.values(activity, progress).items():
                family.add_metric(labels, value)
            yield family
        for histograms in HISTOGRAMS:
            histogram = HistogramMetricFamily(histograms.prometheus_name, histograms.about, labels=histograms.labels)
            for labels, buckets in histograms.values(progress).items():
                histogram.add_metric(labels, buckets.by_label(), buckets.sum)
            yield histogram
