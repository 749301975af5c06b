"""Serves the figures of a run to Prometheus, by the Prometheus client library (extra `prometheus`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Self

from headrace.lowlevel.metric import ENGINE
from headrace.lowlevel.metric_cells import CounterCell, DistributionCell, GaugeCell
from headrace.lowlevel.time import MAX_TIMESTAMP
from headrace.runners.engine.activity import Activity
from headrace.runners.engine.options import EpochProgress
from headrace.runners.reporting.figures import StepFigures, step_figures
from headrace.runners.reporting.reporter import LOOPBACK, LastProgress, host_and_port, port_error

__all__ = ["PrometheusReporter"]

if TYPE_CHECKING:
    from wsgiref.simple_server import WSGIServer

    from prometheus_client import CollectorRegistry, Metric

_COUNTERS = {
    "records_in": "Records that came to the step.",
    "records_out": "Records that the step put out.",
    "late": "Records that were behind the low watermark.",
    "dropped_late": "Late records that were dropped.",
    "duplicates": "Records that had been processed before, and were dropped.",
    "dead_letters": "Records for which user code raised, and that were set aside.",
    "timers": "Timers that have fired.",
}
_FROM_ZERO = ("dropped_late", "dead_letters")
_GAUGES = {
    "watermark": ("watermark_seconds", "Low watermark, seconds since 1970; +Inf when nothing more can come.", 1e6),
    "lag": ("lag_seconds", "How far the watermark is behind the greatest timestamp read.", 1e6),
    "state_bytes": ("state_bytes", "What is stored of the step.", 1),
}


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
        activity, progress = self._activity, self._progress
        if activity is not None:
            yield from _of_activity(activity)
        if progress is not None:
            yield from _of_run(progress)
            yield from _of_users(progress)
        computations = () if activity is None else activity.steps
        yield from _of_steps([] if progress is None else step_figures(progress.metrics), computations)


def _of_activity(activity: Activity) -> Iterator[Metric]:
    from prometheus_client.core import GaugeMetricFamily

    doing = activity.doing()
    yield GaugeMetricFamily(
        "headrace_starts", "How many drivers the checkpoint has had; 1 without one.", value=activity.generation
    )
    running = GaugeMetricFamily(
        "headrace_running_seconds", "How long the run has been in its phase.", labels=["phase", "step"]
    )
    running.add_metric([doing.phase, doing.step], doing.seconds)
    yield running
    epoch = doing.epoch_seconds or 0.0
    yield GaugeMetricFamily("headrace_epoch_running_seconds", "How long the running epoch has taken.", value=epoch)


def _of_run(progress: EpochProgress) -> Iterator[Metric]:
    from prometheus_client.core import GaugeMetricFamily

    yield GaugeMetricFamily("headrace_epoch", "The last epoch that is committed.", value=progress.epoch)
    # How long the epoch of a commit took that the run goes on from is not known.
    parts = {**progress.phases, "all": progress.seconds} if progress.phases else {}
    yield _gauge("headrace_epoch_seconds", "How long its parts took.", "phase", parts)
    yield _gauge("headrace_sink_seconds", "How long a sink delivered the last epoch.", "step", progress.sinks)
    shares = {step: share for step, (_, share) in progress.hot_keys.items()}
    yield _gauge("headrace_hot_key_share", "Share of records of one key in the last epoch.", "step", shares)


def _gauge(name: str, about: str, label: str, values: Mapping[str, float]) -> Metric:
    """A gauge with a value for each value of a label."""
    from prometheus_client.core import GaugeMetricFamily

    family = GaugeMetricFamily(name, about, labels=[label])
    for own, value in values.items():
        family.add_metric([own], value)
    return family


def _of_steps(steps: list[StepFigures], computations: Sequence[str]) -> Iterator[Metric]:
    """The metrics of steps. What alerts count begins with 0, as an increase from nothing is none to Prometheus."""
    from prometheus_client.core import CounterMetricFamily

    for name, about in _COUNTERS.items():
        counter = CounterMetricFamily(f"headrace_{name}", about, labels=["step"])
        counts = {step.step: getattr(step, name) for step in steps}
        if name in _FROM_ZERO:
            counts = dict.fromkeys(computations, 0) | {label: count for label, count in counts.items() if count}
        for label, number in counts.items():
            if number is not None:
                counter.add_metric([label], number)
        yield counter
    for name, (shown, about, unit) in _GAUGES.items():
        known = {step.step: value for step in steps if (value := getattr(step, name)) is not None}
        values = {own: float("inf") if value >= MAX_TIMESTAMP else value / unit for own, value in known.items()}
        yield _gauge(f"headrace_{shown}", about, "step", values)


def _of_users(progress: EpochProgress) -> Iterator[Metric]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    labels = ["step", "namespace", "name"]
    # Beam's counters may decrease, those of Prometheus must not.
    counts = GaugeMetricFamily("headrace_user_counter", "Counters of user code.", labels=labels)
    gauges = GaugeMetricFamily("headrace_user_gauge", "Gauges of user code.", labels=labels)
    numbers = CounterMetricFamily("headrace_user_distribution_count", "Values that were reported.", labels=labels)
    sums = GaugeMetricFamily("headrace_user_distribution_sum", "Their sum.", labels=labels)
    for step, cells in progress.metrics.items():
        for metric, cell in cells.items():
            own = [step, metric.namespace, metric.name]
            if metric.namespace == ENGINE:
                continue
            if isinstance(cell, CounterCell):
                counts.add_metric(own, cell.total)
            elif isinstance(cell, GaugeCell):
                gauges.add_metric(own, cell.value)
            elif isinstance(cell, DistributionCell):
                numbers.add_metric(own, cell.count)
                sums.add_metric(own, cell.sum)
    yield from (counts, gauges, numbers, sums)
